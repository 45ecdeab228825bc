/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the experiment kernel adds to User-Mode Linux. Built into arch/um/kernel/.
 *
 * mprun_random.c  repeatable randomness from the boot argument mprun_seed=
 * mprun_poll.c    simulated time moves for programs that poll
 */
#ifndef _LINUX_MPRUN_H
#define _LINUX_MPRUN_H

#include <linux/types.h>

/* Fill buf with seeded bytes; false where no seed was given at boot. */
bool mprun_getrandom(void *buf, size_t len);

/* What of the command line may enter the random pool: nothing once a seed is given. */
const char *mprun_pool_command_line(const char *command_line);

/* Nanoseconds that this reading of the clock costs; base is what one costs by default. */
unsigned long mprun_clock_step(unsigned long base);

/* After each system call: time passes if it is one of many that found nothing to do. */
void mprun_after_syscall(int nr, long ret);

#endif
