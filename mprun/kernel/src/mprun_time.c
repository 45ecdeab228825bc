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
 * for something that only time can bring. All that moves time for it is that reading the clock
 * costs 256 ns. Two rules let time pass, both counted from when the task last slept:
 *
 * - A call is a look if it repeats a recent question and has no effect. The question is the number
 *   of the call, its first two arguments, the names it gives (of files), and the position of the
 *   file that the first argument may be. An effect is to pass bytes on (through a socket, a pipe or
 *   a device; to peek at them is none), to wake somebody and to draw a random number. An effect sets
 *   the count of looks to zero, a new question takes four from it. From 256 looks on, time passes
 *   with each further one: 512 ns, doubled every 16 looks, up to 131 us.
 * - From 65,536 calls of any kind on, time passes with each further one: 512 ns, doubled every
 *   4,096 calls, up to 16 us. This is for those that have effects while they wait, and for those
 *   that look in a hundred ways.
 *
 * Somebody else who can run ends a pause within 1 us. Both rules are functions of what the tasks
 * do and of nothing else, so that runs repeat exactly.
 *
 * Computing: a program that makes no system call lets no time pass. Who started the kernel watches
 * for that, and sends SIGXCPU to the program's process for each second of CPU time that it used
 * while simulated time stood still. The limit is RLIMIT_RTTIME, which elsewhere bounds the CPU time
 * of real-time tasks "without making a blocking system call" (getrlimit(2)): beyond it the program
 * is ended by SIGXCPU.
 */
#include <linux/delay.h>
#include <linux/fdtable.h>
#include <linux/fs.h>
#include <linux/jhash.h>
#include <linux/math.h>
#include <linux/minmax.h>
#include <linux/mprun.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/sched/stat.h>
#include <linux/time-internal.h>

#define CLOCK_STEP_NS	256
/* how long a pause goes on before it looks whether somebody else can run */
#define GRAIN_NS	(4 * CLOCK_STEP_NS)
#define NEW_QUESTION	4

/* How time passes with calls: none before `free`, then twice as much after each `step`. */
struct ramp {
	unsigned int free, step, most_doublings;
};

static const struct ramp looking = { .free = 256, .step = 16, .most_doublings = 9 };
static const struct ramp calling = { .free = 65536, .step = 4096, .most_doublings = 6 };

/* A hash of the names that the current call has given so far. */
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

/* Whether the task asked this a short while ago; from now on it did. */
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

/* Begin to count anew if the task has slept, or is another than the counts are of. */
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
}

void mprun_after_syscall(int nr, unsigned long first, unsigned long second)
{
	struct mprun_task *task = &current->mprun;
	unsigned long left;

	if (time_travel_mode != TT_MODE_INFCPU)
		return;
	begin(task);
	count(task, nr, first, second);
	left = max(pause_ns(&looking, task->looks), pause_ns(&calling, task->calls));
	if (!left)
		return;
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
	task->slept = current->nvcsw;
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
