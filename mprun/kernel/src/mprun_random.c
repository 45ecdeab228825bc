// SPDX-License-Identifier: GPL-2.0-only
/*
 * Repeatable randomness. UML's only outside source of randomness is the host's getrandom(2);
 * with mprun_seed=N it becomes the SplitMix64 sequence of N instead. The kernel's own generator
 * hashes these words, so their statistical quality is not what users of the kernel see.
 *
 * The boot command line is mixed into the pool too, and it holds paths of the host: with a seed
 * it is left out, or a run would depend on where it was started.
 */
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/minmax.h>
#include <linux/mprun.h>
#include <linux/string.h>
#include <init.h>

static bool seeded;
static u64 state;

static u64 next_word(void)
{
	u64 z = (state += 0x9e3779b97f4a7c15ULL);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

bool mprun_getrandom(void *buf, size_t len)
{
	u8 *at = buf;

	if (!seeded)
		return false;
	while (len) {
		u64 word = next_word();
		size_t n = min(len, sizeof(word));

		memcpy(at, &word, n);
		at += n;
		len -= n;
	}
	return true;
}

const char *mprun_pool_command_line(const char *command_line)
{
	return seeded ? "" : command_line;
}

/* Before the kernel proper starts: setup_arch() already draws random numbers. */
static int __init mprun_seed_setup(char *value, int *add)
{
	u64 seed = 0;

	for (; *value >= '0' && *value <= '9'; value++)
		seed = seed * 10 + (*value - '0');
	state = seed;
	seeded = true;
	*add = 0;
	return 0;
}

__uml_setup("mprun_seed=", mprun_seed_setup,
"mprun_seed=<number>\n"
"    Make all randomness of this kernel a function of <number> (decimal, 64 bits).\n\n"
);
