/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the experiment kernel adds to User-Mode Linux. Built into arch/um/kernel/.
 *
 * mprun_random.c  repeatable randomness from the boot argument mprun_seed=
 * mprun_time.c    simulated time: exact timers, and programs that poll
 * mprun_jitter.c  correlated delays (in net/sched/)
 */
#ifndef _LINUX_MPRUN_H
#define _LINUX_MPRUN_H

#include <linux/types.h>

struct rnd_state;

/* The generator's key if a seed was given at boot, else NULL. 32 bytes; the caller advances it. */
u8 *mprun_random_key(void);

/* After each system call: time passes if it is one of many that did nothing but look. */
void mprun_after_syscall(int nr, long ret);

/* When a timer that is due delta ns after what the clock reads at now is to fire. */
unsigned long long mprun_timer_moment(unsigned long long now, unsigned long delta);

/*
 * The next of numbers spread evenly over 32 bits, each correlated with the one before by rho / 2^32. `last` is
 * what the generator keeps.
 */
u32 mprun_correlated(u32 rho, s32 *last, struct rnd_state *random);

#endif
