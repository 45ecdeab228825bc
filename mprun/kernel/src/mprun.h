/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the experiment kernel adds to User-Mode Linux.
 *
 * mprun_random.c  repeatable randomness from the boot argument mprun_seed= (in arch/um/kernel/)
 * mprun_time.c    simulated time: exact timers, programs that poll or compute (in arch/um/kernel/)
 * mprun_seal.c    the host's files stay as they are (in arch/um/kernel/)
 * mprun_limit.c   bounds on what the programs of a run take (in arch/um/kernel/)
 * mprun_jitter.c  correlated delays (in net/sched/)
 * mprun_line.c    links that send bit by bit (in net/sched/)
 */
#ifndef _LINUX_MPRUN_H
#define _LINUX_MPRUN_H

#include <linux/types.h>

struct Qdisc;
struct file;
struct fs_context;
struct inode;
struct psched_ratecfg;
struct qdisc_watchdog;
struct rnd_state;
struct sk_buff;
struct super_block;
struct task_struct;

#define MPRUN_QUESTIONS 32

/* Part of every task: its system calls, and the CPU time that it computes for. */
struct mprun_task {
	/* the task that the rest belongs to: a child begins with a copy of its parent's */
	pid_t pid;
	/* the first process of what the agent started and this comes from; 0: the agent itself, init, the kernel's own */
	pid_t entry;
	/* nvcsw of the task when the counts began */
	unsigned long slept;
	/* calls in a row that repeat a recent question; all calls */
	unsigned int looks, calls;
	/* the current call has had an effect beyond the task */
	bool has_moved;
	/* the most recent questions, the next place among them */
	u32 questions[MPRUN_QUESTIONS];
	unsigned int next;
	/* seconds of CPU time in user space; the simulated time when the last one was counted */
	unsigned int seconds;
	unsigned long long counted_at;
};

/* Nanoseconds of simulated time since boot; to read the clock moves it. */
extern unsigned long long time_travel_time;

/* The generator's key if a seed was given at boot, else NULL. 32 bytes; the caller advances it. */
u8 *mprun_random_key(void);

/* Before each system call. */
void mprun_before_syscall(void);

/* After each system call: time passes if the task goes round without sleeping and without effect. */
void mprun_after_syscall(int nr, unsigned long first, unsigned long second);

/* A system call has named something (a file, mostly): part of what it asks. */
void mprun_named(const char *name, long length);

/* The task did something that others can see: it passed bytes on, or woke somebody. */
void mprun_moved(void);

/* The task read or wrote a file, which passes bytes on unless it is a regular file. */
void mprun_passed(struct file *file);

/* The task has computed for another second of CPU time while simulated time stood still. */
void mprun_computed(void);

/* For hostfs: 0, or the error with which a mount, or a change below one, is refused. */
int mprun_may_mount(void);
int mprun_may_change(struct super_block *sb);
int mprun_reconfigure(struct fs_context *fc);

/* As mprun_may_change, of a new name. */
int mprun_may_make(struct super_block *sb);

/* For hostfs, before a file gets this size: 0, or the error with which more is refused. After it has got a smaller one. */
int mprun_grow(struct inode *inode, loff_t size);
void mprun_shrink(struct inode *inode, loff_t size);

/* For fork: whether there are too many tasks for another; a new task has its pid. */
bool mprun_too_many_tasks(int tasks);
void mprun_born(struct task_struct *task, bool is_thread);

/* For the memory's end: who is not ended; who is, with all of its entry. */
bool mprun_is_spared(struct task_struct *task);
void mprun_out_of_memory(struct task_struct *victim);

/* When a timer that is due delta ns after what the clock reads at now is to fire. */
unsigned long long mprun_timer_moment(unsigned long long now, unsigned long delta);

/*
 * The next of numbers spread evenly over 32 bits, each correlated with the one before by rho / 2^32. `last` is
 * what the generator keeps.
 */
u32 mprun_correlated(u32 rho, s32 *last, struct rnd_state *random);

/* A line that sends frames bit by bit: the frame on it, and when its last bit has been sent (ns). */
struct mprun_line {
	struct sk_buff *frame;
	u64 end;
	/* a frame that comes now begins when the last one ended */
	bool is_busy;
};

bool mprun_is_line(struct Qdisc *sch, u32 bucket, bool has_peak);
struct sk_buff *mprun_line_dequeue(struct mprun_line *line, struct Qdisc *sch, struct Qdisc *queue,
				   const struct psched_ratecfg *rate, struct qdisc_watchdog *watchdog);
void mprun_line_change(struct mprun_line *line, u64 old_bytes_per_s, u64 new_bytes_per_s);
void mprun_line_reset(struct mprun_line *line);

#endif
