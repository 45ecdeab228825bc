// SPDX-License-Identifier: GPL-2.0-only
/*
 * The vDSO: clocks without a system call (see mprun_clock.c). It takes the place of um_vdso.c, in which
 * each call is a system call. This code runs in programs.
 */

/* Disable profiling for userspace code */
#define DISABLE_BRANCH_PROFILING

#include <asm/page.h>
#include <asm/unistd.h>
#include <linux/compiler.h>
#include <linux/mprun_clock.h>
#include <linux/time.h>

struct getcpu_cache;

int __vdso_clock_gettime(clockid_t clock, struct __kernel_timespec *ts);
int __vdso_gettimeofday(struct __kernel_old_timeval *tv, struct timezone *tz);
__kernel_old_time_t __vdso_time(__kernel_old_time_t *t);
long __vdso_getcpu(unsigned int *cpu, unsigned int *node, struct getcpu_cache *unused);

static long syscall2(long number, unsigned long first, unsigned long second)
{
	long ret;

	asm volatile("syscall"
		     : "=a" (ret)
		     : "0" (number), "D" (first), "S" (second)
		     : "rcx", "r11", "memory");
	return ret;
}

/* Return the page below the one that holds this code. */
static inline struct mprun_clock_page *clock_page(void)
{
	unsigned long here;

	asm("lea (%%rip), %0" : "=r" (here));
	return (void *)((here & PAGE_MASK) - PAGE_SIZE);
}

/* Set *ns to the clock's time. Returns false if a system call must tell. */
static inline bool read_clock(clockid_t clock, u64 *ns)
{
	struct mprun_clock_page *page = clock_page();
	u64 version, reading;

	if ((u32)clock >= MPRUN_CLOCKS || !((MPRUN_FINE_CLOCKS | MPRUN_COARSE_CLOCKS) >> clock & 1))
		return false;
	do {
		version = READ_ONCE(page->version);
		/* one instruction, so that no stop can come between reading and counting */
		reading = 1;
		asm volatile("xaddq %0, %1" : "+r" (reading), "+m" (page->readings) : : "cc");
		if (reading >= MPRUN_READINGS)
			return false;
		*ns = READ_ONCE(page->now[clock]);
		if (MPRUN_FINE_CLOCKS >> clock & 1)
			*ns += (reading + 1) * READ_ONCE(page->step);
	} while (version != READ_ONCE(page->version));
	return true;
}

int __vdso_clock_gettime(clockid_t clock, struct __kernel_timespec *ts)
{
	u64 ns;

	if (!read_clock(clock, &ns))
		return syscall2(__NR_clock_gettime, clock, (unsigned long)ts);
	ts->tv_sec = ns / NSEC_PER_SEC;
	ts->tv_nsec = ns % NSEC_PER_SEC;
	return 0;
}
int clock_gettime(clockid_t, struct __kernel_timespec *)
	__attribute__((weak, alias("__vdso_clock_gettime")));

int __vdso_gettimeofday(struct __kernel_old_timeval *tv, struct timezone *tz)
{
	u64 ns;

	if (tz || !tv || !read_clock(CLOCK_REALTIME, &ns))
		return syscall2(__NR_gettimeofday, (unsigned long)tv, (unsigned long)tz);
	tv->tv_sec = ns / NSEC_PER_SEC;
	tv->tv_usec = ns % NSEC_PER_SEC / NSEC_PER_USEC;
	return 0;
}
int gettimeofday(struct __kernel_old_timeval *, struct timezone *)
	__attribute__((weak, alias("__vdso_gettimeofday")));

__kernel_old_time_t __vdso_time(__kernel_old_time_t *t)
{
	u64 ns;

	if (!read_clock(CLOCK_REALTIME_COARSE, &ns))
		return syscall2(__NR_time, (unsigned long)t, 0);
	if (t)
		*t = ns / NSEC_PER_SEC;
	return ns / NSEC_PER_SEC;
}
__kernel_old_time_t time(__kernel_old_time_t *t) __attribute__((weak, alias("__vdso_time")));

/* There is one CPU. */
long __vdso_getcpu(unsigned int *cpu, unsigned int *node, struct getcpu_cache *unused)
{
	if (cpu)
		*cpu = 0;
	if (node)
		*node = 0;
	return 0;
}
long getcpu(unsigned int *cpu, unsigned int *node, struct getcpu_cache *unused)
	__attribute__((weak, alias("__vdso_getcpu")));
