// SPDX-License-Identifier: GPL-2.0-only
/*
 * Repeatable randomness. With mprun_seed=N on the command line, every random number of the kernel, and
 * therefore of every program, comes from one ChaCha20 key that depends only on N.
 *
 * The kernel's own generator is used (fast key erasure, drivers/char/random.c), without its entropy
 * pool. The pool takes in the times of interrupts and the command line. A difference of a microsecond
 * at boot, or another path on the host, would therefore give another run.
 *
 * A line "DELAY NUMBER" in /proc/mprun_reseed gives the random numbers of another seed, NUMBER, after
 * DELAY nanoseconds of simulated time. The run is the same until then. Numbers that were drawn before
 * and kept, such as up to 96 bytes for get_random_u32(), are used all the same. Only the agent may
 * write to the file, and once.
 */
#include <linux/fs.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/mprun.h>
#include <linux/proc_fs.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <init.h>

#define MOST_TEXT	48

static bool seeded;
static u64 key[4];

/* the key from reseed_at on (simulated time), and for generators with a state of their own a number */
static u64 next_key[4];
static u32 salt;
static unsigned long long reseed_at = ULLONG_MAX;
static bool is_reseeded;

static bool takes_other_numbers(void)
{
	if (time_travel_time < reseed_at)
		return false;
	if (!is_reseeded)
		memcpy(key, next_key, sizeof(key));
	is_reseeded = true;
	return true;
}

u32 mprun_random_number(u32 number)
{
	if (!takes_other_numbers())
		return number;
	/* the finalizer of MurmurHash3: each number comes from exactly one other */
	number ^= salt;
	number = (number ^ (number >> 16)) * 0x85ebca6b;
	number = (number ^ (number >> 13)) * 0xc2b2ae35;
	return number ^ (number >> 16);
}

u8 *mprun_random_key(void)
{
	takes_other_numbers();
	/* drawing a number changes the next one: a program that makes many keys is not waiting */
	mprun_moved();
	return seeded ? (u8 *)key : NULL;
}

/* SplitMix64, so that neighbouring seeds give very different keys. */
static u64 next_word(u64 *state)
{
	u64 z = (*state += 0x9e3779b97f4a7c15ULL);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

static void make_key(u64 *made, u64 seed)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(key); i++)
		made[i] = next_word(&seed);
}

/* Parsed before the kernel proper starts, because setup_arch() already draws random numbers. */
static int __init mprun_seed_setup(char *value, int *add)
{
	u64 seed = 0;

	for (; *value >= '0' && *value <= '9'; value++)
		seed = seed * 10 + (*value - '0');
	make_key(key, seed);
	seeded = true;
	*add = 0;
	return 0;
}

__uml_setup("mprun_seed=", mprun_seed_setup,
"mprun_seed=<number>\n"
"    Make all randomness of this kernel a function of <number> (decimal, 64 bits).\n\n"
);

static ssize_t reseed(struct file *file, const char __user *text, size_t length, loff_t *at)
{
	unsigned long long delay, seed;
	char line[MOST_TEXT];

	if (current->mprun.entry || reseed_at != ULLONG_MAX)
		return -EPERM;
	if (length >= sizeof(line))
		return -EINVAL;
	if (copy_from_user(line, text, length))
		return -EFAULT;
	line[length] = 0;
	if (sscanf(line, "%llu %llu", &delay, &seed) != 2)
		return -EINVAL;
	make_key(next_key, seed);
	salt = next_word(&seed);
	reseed_at = time_travel_time + delay;
	return length;
}

static const struct proc_ops reseed_ops = {
	.proc_write = reseed,
};

static int __init make_reseed(void)
{
	return proc_create("mprun_reseed", 0200, NULL, &reseed_ops) ? 0 : -ENOMEM;
}
fs_initcall(make_reseed);
