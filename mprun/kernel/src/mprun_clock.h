/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The page from which programs read the clocks (see mprun_clock.c). Kernel and vDSO share this layout.
 */
#ifndef _LINUX_MPRUN_CLOCK_H
#define _LINUX_MPRUN_CLOCK_H

#include <linux/types.h>

/* The time that passes with each reading of a clock: one step of the kernel's own clock source. */
#define MPRUN_READING_NS	256

/* The number of readings after which a reading is a system call. */
#define MPRUN_READINGS		64

/* The clocks of the page by their number in clock_gettime(2), and those that advance between two ticks. */
#define MPRUN_CLOCKS		8
#define MPRUN_FINE_CLOCKS	(1 << 0 | 1 << 1 | 1 << 4 | 1 << 7)
#define MPRUN_COARSE_CLOCKS	(1 << 5 | 1 << 6)

struct mprun_clock_page {
	/* changes with each write by the kernel */
	__u64 version;
	/* readings since the last write by the kernel; the program counts them */
	__u64 readings;
	/* nanoseconds that pass with each reading */
	__u64 step;
	/* nanoseconds since the clock's epoch at the last write */
	__u64 now[MPRUN_CLOCKS];
};

#endif
