// SPDX-License-Identifier: GPL-2.0-only
/*
 * Repeatable randomness. With mprun_seed=N on the command line, every random number of the kernel, and
 * therefore of every program, comes from one ChaCha20 key that depends only on N.
 *
 * The kernel's own generator is used (fast key erasure, drivers/char/random.c), without its entropy
 * pool. The pool takes in the times of interrupts and the command line. A difference of a microsecond
 * at boot, or another path on the host, would therefore give another run.
 */
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/mprun.h>
#include <init.h>

static bool seeded;
static u64 key[4];

u8 *mprun_random_key(void)
{
	/* drawing a number changes the next one: a program that makes many keys is not waiting */
	mprun_moved();
	return seeded ? (u8 *)key : NULL;
}

/* SplitMix64, so that neighbouring seeds give very different keys. */
static u64 __init next_word(u64 *state)
{
	u64 z = (*state += 0x9e3779b97f4a7c15ULL);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

/* Parsed before the kernel proper starts, because setup_arch() already draws random numbers. */
static int __init mprun_seed_setup(char *value, int *add)
{
	u64 state = 0;
	int i;

	for (; *value >= '0' && *value <= '9'; value++)
		state = state * 10 + (*value - '0');
	for (i = 0; i < ARRAY_SIZE(key); i++)
		key[i] = next_word(&state);
	seeded = true;
	*add = 0;
	return 0;
}

__uml_setup("mprun_seed=", mprun_seed_setup,
"mprun_seed=<number>\n"
"    Make all randomness of this kernel a function of <number> (decimal, 64 bits).\n\n"
);
