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
 * for something that only time can bring; all that moves time for it is that reading the clock
 * costs 256 ns. Here a task that makes more than 256 system calls in a row of which none did
 * anything but look (a reading of the clock; select, poll or epoll_wait; EAGAIN; sched_yield), without having slept, lets time pass with each further one: 512 ns, doubled every
 * 16 calls, up to 131 us. Somebody else who can run ends the pause within 1 us. Any other system
 * call, and any sleep, starts the count again.
 *
 * This is a function of what the tasks do and of nothing else, so that runs repeat exactly. A
 * program that spins in user space without any system call cannot be helped: the engine's watchdog
 * ends the run.
 */
#include <linux/delay.h>
#include <linux/errno.h>
#include <linux/math.h>
#include <linux/minmax.h>
#include <linux/mprun.h>
#include <linux/sched.h>
#include <linux/sched/stat.h>
#include <linux/time-internal.h>
#include <asm/unistd.h>

#define CLOCK_STEP_NS	256
#define FREE_CALLS	256
#define CALLS_PER_STEP	16
#define MAX_DOUBLINGS	9
/* how long a pause goes on before it looks whether somebody else can run */
#define GRAIN_NS	(4 * CLOCK_STEP_NS)

/* By the low bits of the pid, so that tasks that poll in turns do not start each other's count again. */
#define SLOTS		64

static struct spin {
	pid_t pid;
	unsigned long nvcsw;
	unsigned long calls;
} spins[SLOTS];

static bool only_looked(int nr, long ret)
{
	if (ret == -EAGAIN)
		return true;
	if (ret < 0)
		return false;
	switch (nr) {
	case __NR_clock_gettime:
	case __NR_gettimeofday:
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
	struct spin *spin = &spins[current->pid % SLOTS];
	unsigned long doublings, left;

	if (time_travel_mode != TT_MODE_INFCPU)
		return;
	if (!only_looked(nr, ret) || spin->pid != current->pid || spin->nvcsw != current->nvcsw) {
		spin->pid = current->pid;
		spin->nvcsw = current->nvcsw;
		spin->calls = 0;
		return;
	}
	if (++spin->calls <= FREE_CALLS)
		return;
	doublings = 1 + (spin->calls - FREE_CALLS) / CALLS_PER_STEP;
	left = CLOCK_STEP_NS << min_t(unsigned long, doublings, MAX_DOUBLINGS);
	/*
	 * At least once, even if somebody else can run: the scheduler gives the CPU to who has had the
	 * least of it, and without any time passing that could be the one that polls, for ever.
	 */
	do {
		unsigned long pause = min_t(unsigned long, left, GRAIN_NS);

		ndelay(pause);
		left -= pause;
	} while (left && single_task_running());
	yield();
	/* to have let others run is not to have slept */
	spin->nvcsw = current->nvcsw;
}

unsigned long long mprun_timer_moment(unsigned long long now, unsigned long delta)
{
	unsigned long long due = round_down(now, CLOCK_STEP_NS) + delta;

	return max(now, round_up(due, CLOCK_STEP_NS));
}
