// SPDX-License-Identifier: GPL-2.0-only
/*
 * Simulated time.
 *
 * Timers: the clock reads in steps of 256 ns, and a timer is programmed by its distance from that
 * reading. Mainline adds the distance and 1 ns to the exact time. The rest below a step depends on all earlier
 * events, and would shift every later event. Here timers fire on the step, at most 255 ns after they
 * are due. An event at a whole second therefore happens at the same nanosecond in every run.
 *
 * Observing: a reading of the clock takes 256 ns, and a call that fails 1 us, but not for the agent. It
 * samples sockets and queues while programs run, and no sample may move their packets.
 *
 * Polling: in time-travel=inf-cpu computing is free. A program that polls for something that only time
 * can bring would poll for ever, because the only time that passes is 256 ns for each reading of the
 * clock. Two rules let time pass. Both count from when the task last slept:
 *
 * - A call is a look if it repeats a recent question and has no effect. The question is the number of
 *   the call, its first two arguments, the names in its arguments (of files), and the position of the
 *   file that the first argument may be. An effect is to pass bytes on (through a socket, a pipe or a
 *   device; to peek at them is no effect), to wake a task, or to draw a random number. An effect sets
 *   the count of looks to zero. A new question subtracts four from the count. From 256 looks on, each
 *   further look lets time pass: 512 ns, doubled every 16 looks, up to 131 us.
 * - From 65,536 calls of any kind on, each further call lets time pass: 512 ns, doubled every 4,096
 *   calls, up to 16 us. This rule is for tasks that have effects while they wait, and for tasks whose
 *   looks vary widely.
 *
 * Starting: a program that starts others without end would stop the time, because each of them is new
 * and does little. All programs together start 2,048 tasks at once, and from then on 100 a second. To
 * start more, a task sleeps until its turn. The agent's own starts do not count, and without a limit of
 * tasks (mprun_limit.c) none does.
 *
 * A task that becomes runnable ends a pause within 1 us. All rules depend only on the
 * actions of tasks, so runs repeat exactly.
 *
 * Computing: a program that makes no system call lets no time pass. The process that started the
 * kernel watches for this. It sends SIGXCPU to the program's process for each second of CPU time that
 * the program used while simulated time stood still. The limit is RLIMIT_RTTIME. Elsewhere it limits
 * the CPU time of real-time tasks "without making a blocking system call" (getrlimit(2)). Beyond the
 * limit, SIGXCPU ends the program.
 */
#include <linux/delay.h>
#include <linux/fdtable.h>
#include <linux/fs.h>
#include <linux/hrtimer.h>
#include <linux/jhash.h>
#include <linux/math.h>
#include <linux/minmax.h>
#include <linux/mprun.h>
#include <linux/mprun_clock.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/sched/stat.h>
#include <linux/time-internal.h>

#define CLOCK_STEP_NS	MPRUN_READING_NS
/* the time after which a pause checks whether another task can run */
#define GRAIN_NS	(4 * CLOCK_STEP_NS)
#define NEW_QUESTION	4
/* the time that passes for each started task, and the number of tasks that may be ahead of it */
#define BIRTH_NS	(10 * NSEC_PER_MSEC)
#define FREE_BIRTHS	2048

/* The time that passes with calls: none before `free`, then doubled after each `step`. */
struct ramp {
	unsigned int free, step, most_doublings;
};

static const struct ramp looking = { .free = 256, .step = 16, .most_doublings = 9 };
static const struct ramp calling = { .free = 65536, .step = 4096, .most_doublings = 6 };

/* The system calls of all programs. Those of the agent do not count. */
static unsigned long program_calls;

/* A hash of the names in the current call so far. */
static u32 names;

static unsigned long pause_ns(const struct ramp *ramp, unsigned int calls)
{
	unsigned int doublings;

	if (calls <= ramp->free)
		return 0;
	doublings = 1 + (calls - ramp->free) / ramp->step;
	return CLOCK_STEP_NS << min(doublings, ramp->most_doublings);
}

static loff_t position(unsigned long fd)
{
	struct file *file;
	loff_t found = 0;

	rcu_read_lock();
	file = current->files && fd <= INT_MAX ? files_lookup_fd_raw(current->files, fd) : NULL;
	if (file)
		found = file->f_pos;
	rcu_read_unlock();
	return found;
}

/* Return true if the task asked this question recently. Record the question. */
static bool was_asked(struct mprun_task *task, int nr, unsigned long first, unsigned long second)
{
	u64 words[] = { first, second, position(first), ((u64)nr << 32) | names };
	u32 question = jhash2((u32 *)words, sizeof(words) / (sizeof(u32)), 0);
	int i;

	for (i = 0; i < MPRUN_QUESTIONS; i++)
		if (task->questions[i] == question)
			return true;
	task->questions[task->next] = question;
	task->next = (task->next + 1) % MPRUN_QUESTIONS;
	return false;
}

/* Reset the counts if the task has slept, or if they belong to another task. */
static void begin(struct mprun_task *task)
{
	if (task->pid == current->pid && task->slept == current->nvcsw)
		return;
	if (task->pid != current->pid)
		*task = (struct mprun_task){ .pid = current->pid, .entry = task->entry };
	task->slept = current->nvcsw;
	task->looks = 0;
	task->calls = 0;
	task->seconds = 0;
}

void mprun_named(const char *name, long length)
{
	if (length > 0)
		names = jhash(name, length, names);
}

void mprun_moved(void)
{
	if (!in_interrupt())
		current->mprun.has_moved = true;
}

void mprun_passed(struct file *file)
{
	umode_t mode = file_inode(file)->i_mode;

	if (!S_ISREG(mode) && !S_ISDIR(mode))
		mprun_moved();
}

static void count(struct mprun_task *task, int nr, unsigned long first, unsigned long second)
{
	task->calls++;
	if (task->has_moved)
		task->looks = 0;
	else if (was_asked(task, nr, first, second))
		task->looks++;
	else
		task->looks -= min(task->looks, NEW_QUESTION);
}

void mprun_before_syscall(void)
{
	current->mprun.has_moved = false;
	names = 0;
	if (!mprun_is_observer())
		program_calls++;
}

/* Sleep until the tasks that programs have started so far are due. */
static void space_births(void)
{
	static u64 due;
	u64 now = time_travel_time;
	ktime_t ahead;

	due = max(due, now) + BIRTH_NS;
	if (due <= now + FREE_BIRTHS * BIRTH_NS)
		return;
	ahead = ns_to_ktime(due - now - FREE_BIRTHS * BIRTH_NS);
	__set_current_state(TASK_KILLABLE);
	schedule_hrtimeout(&ahead, HRTIMER_MODE_REL);
}

void mprun_after_syscall(int nr, unsigned long first, unsigned long second)
{
	struct mprun_task *task = &current->mprun;
	unsigned long left, before;

	if (time_travel_mode != TT_MODE_INFCPU)
		return;
	if (task->has_born) {
		task->has_born = false;
		space_births();
	}
	begin(task);
	count(task, nr, first, second);
	left = max(pause_ns(&looking, task->looks), pause_ns(&calling, task->calls));
	if (!left)
		return;
	/*
	 * Pause at least once, even if another task can run. The scheduler gives the CPU to the task that has used it
	 * least. If no time passed, this could be the task that polls, for ever. The agent ends no pause.
	 */
	before = program_calls;
	do {
		unsigned long pause = min_t(unsigned long, left, GRAIN_NS);

		ndelay(pause);
		left -= pause;
		if (!left || !single_task_running())
			yield();
	} while (left && program_calls == before);
	/* letting others run does not count as sleep */
	task->slept = current->nvcsw;
}

bool mprun_is_observer(void)
{
	return !current->mprun.entry && current->mm;
}

void mprun_clock_read(unsigned int times)
{
	struct mprun_task *task = &current->mprun;

	begin(task);
	task->looks += times;
	task->calls += times;
	if (!mprun_is_observer())
		ndelay(times * CLOCK_STEP_NS);
}

void mprun_computed(void)
{
	struct mprun_task *task = &current->mprun;
	unsigned long limit_us = rlimit(RLIMIT_RTTIME);

	begin(task);
	if (time_travel_time - task->counted_at > TICK_NSEC)
		task->seconds = 0;
	task->counted_at = time_travel_time;
	task->seconds++;
	if (limit_us != RLIM_INFINITY && task->seconds * USEC_PER_SEC >= limit_us)
		force_fatal_sig(SIGXCPU);
}

unsigned long long mprun_timer_moment(unsigned long long now, unsigned long delta)
{
	unsigned long long due = round_down(now, CLOCK_STEP_NS) + delta;

	return max(now, round_up(due, CLOCK_STEP_NS));
}
