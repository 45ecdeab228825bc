// SPDX-License-Identifier: GPL-2.0-only
/*
 * Simulated time.
 *
 * Timers: the clock reads in steps of 256 ns, and a timer is programmed by its distance from that
 * reading. Mainline adds the distance to the exact time, so the rest below a step, which depends
 * on all that happened before, would shift every later event. Here timers fire on the step, at
 * most 255 ns after they are due, wherever they were set from: what starts at a whole second
 * starts at the same nanosecond in every run.
 *
 * Polling: in time-travel=inf-cpu computing is free, so a program that polls would poll for ever
 * for something that only time can bring. Two rules let time move, both functions of what the task
 * did and of nothing else, so that runs repeat exactly:
 *
 *   clock  A reading of the clock costs 256 ns (mainline). When one task reads it more than 256
 *          times without having slept in between, the cost doubles every 16 further readings, up
 *          to 131 us.
 *   poll   A system call that found nothing to do (select, poll, epoll_wait with an immediate
 *          time-out; EAGAIN; sched_yield) costs nothing for the first 256 in a row without sleep,
 *          then grows in the same way.
 *
 * Sleep means a voluntary context switch; it starts the count again. A program that spins in user
 * space without any system call cannot be helped: the engine's watchdog names it.
 */
#include <linux/delay.h>
#include <linux/errno.h>
#include <linux/math.h>
#include <linux/minmax.h>
#include <linux/mprun.h>
#include <linux/sched.h>
#include <linux/time-internal.h>
#include <asm/unistd.h>

#define CLOCK_STEP_NS	256
#define FREE_CALLS	256
#define CALLS_PER_STEP	16
#define MAX_DOUBLINGS	9

struct spin {
	pid_t pid;
	unsigned long nvcsw;
	unsigned long calls;
};

static struct spin clock_spin, poll_spin;

/* Doublings that this call has earned: 0 within the free ones. */
static unsigned int count_call(struct spin *spin)
{
	if (spin->pid != current->pid || spin->nvcsw != current->nvcsw) {
		spin->pid = current->pid;
		spin->nvcsw = current->nvcsw;
		spin->calls = 0;
	}
	spin->calls++;
	if (spin->calls <= FREE_CALLS)
		return 0;
	return min_t(unsigned long, 1 + (spin->calls - FREE_CALLS) / CALLS_PER_STEP, MAX_DOUBLINGS);
}

unsigned long mprun_clock_step(unsigned long base)
{
	return base << count_call(&clock_spin);
}

static bool found_nothing(int nr, long ret)
{
	if (ret == -EAGAIN)
		return true;
	if (ret != 0)
		return false;
	switch (nr) {
	case __NR_select:
	case __NR_pselect6:
	case __NR_poll:
	case __NR_ppoll:
	case __NR_epoll_wait:
	case __NR_epoll_pwait:
	case __NR_epoll_pwait2:
	case __NR_sched_yield:
		return true;
	default:
		return false;
	}
}

void mprun_after_syscall(int nr, long ret)
{
	unsigned int doublings;

	if (time_travel_mode != TT_MODE_INFCPU || !found_nothing(nr, ret))
		return;
	doublings = count_call(&poll_spin);
	if (!doublings)
		return;
	ndelay((unsigned long)CLOCK_STEP_NS << doublings);
	schedule();
}

unsigned long long mprun_timer_moment(unsigned long long now, unsigned long delta)
{
	unsigned long long due = round_down(now, CLOCK_STEP_NS) + delta;

	return max(now, round_up(due, CLOCK_STEP_NS));
}
