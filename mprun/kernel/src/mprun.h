/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The experiment kernel's additions to User-Mode Linux.
 *
 * mprun_random.c  repeatable randomness from the boot argument mprun_seed= (in arch/um/kernel/)
 * mprun_time.c    simulated time: exact timers, programs that poll or compute (in arch/um/kernel/)
 * mprun_clock.c   clocks that programs read without a system call (in arch/um/kernel/)
 * mprun_vdso.c    the programs' part of it (in arch/x86/um/vdso/)
 * mprun_cost.c    stops of programs, counted (in arch/um/kernel/)
 * mprun_fault.c   page faults that map several pages (in arch/um/kernel/)
 * mprun_fp.c      the floating-point state of programs (in arch/um/kernel/)
 * mprun_seal.c    protects the host's files (in arch/um/kernel/)
 * mprun_limit.c   limits of the programs of a run (in arch/um/kernel/)
 * mprun_packet.c  faults of single packets (in arch/um/kernel/)
 * mprun_hostfs.c  the host's files as a run first saw them (in arch/um/kernel/)
 * mprun_jitter.c  correlated delays (in net/sched/)
 * mprun_line.c    links that send bit by bit (in net/sched/)
 */
#ifndef _LINUX_MPRUN_H
#define _LINUX_MPRUN_H

#include <linux/pid_types.h>
#include <linux/types.h>

struct Qdisc;
struct file;
struct fs_context;
struct iattr;
struct inode;
struct mm_id;
struct mm_struct;
struct pid;
struct psched_ratecfg;
struct qdisc_watchdog;
struct rnd_state;
struct sk_buff;
struct super_block;
struct task_struct;
struct uml_pt_regs;
struct vm_area_struct;

#define MPRUN_QUESTIONS 32

/* Part of every task: counts of its system calls, and of its CPU time in user space. */
struct mprun_task {
	/* the task whose counts these are: a child begins with a copy of its parent's counts */
	pid_t pid;
	/* the first process of this task's entry, which the agent started; 0: the agent, init, kernel threads */
	pid_t entry;
	/* nvcsw of the task when the counts began */
	unsigned long slept;
	/* consecutive calls that repeat a recent question; all calls */
	unsigned int looks, calls;
	/* the current call has had an effect outside the task */
	bool has_moved;
	/* the current call has started tasks */
	bool has_born;
	/* the most recent questions, and the index of the next one */
	u32 questions[MPRUN_QUESTIONS];
	unsigned int next;
	/* seconds of CPU time in user space; the simulated time when the last second was counted */
	unsigned int seconds;
	unsigned long long counted_at;
};

/* Nanoseconds of simulated time since boot. To read the clock advances it. */
extern unsigned long long time_travel_time;

/* The generator's key if a seed was given at boot, else NULL. 32 bytes; the caller advances it. */
u8 *mprun_random_key(void);

/* Return a number of a generator with a state of its own, or after a change of the seed another number. */
u32 mprun_random_number(u32 number);

/* A program stopped for a system call, or by a signal of its process; signals for system calls do not count. */
void mprun_stopped(int number);
void mprun_stopped_by(int signal);

/* Called before each system call. */
void mprun_before_syscall(void);

/* Called after each system call: time passes if the task loops without sleeping and without effect. */
void mprun_after_syscall(int nr, unsigned long first, unsigned long second);

/* The current system call has a name as argument (mostly of a file), which is part of its question. */
void mprun_named(const char *name, long length);

/* The task did something that others can see: it passed bytes on, or woke a task. */
void mprun_moved(void);

/* The task read or wrote a file. This passes bytes on unless the file is regular. */
void mprun_passed(struct file *file);

/* The task has used another second of CPU time while simulated time stood still. */
void mprun_computed(void);

/* Return true for the agent and init. They let no time pass by reading a clock or by a call that fails. */
bool mprun_is_observer(void);

/* The task read a clock so many times without a system call: the time for this passes. */
void mprun_clock_read(unsigned int times);

/* Map the page of the clocks. Called with the lock of `mm`. Returns the mapping or an error pointer. */
struct vm_area_struct *mprun_clock_map(struct mm_struct *mm, unsigned long address);

/* mprun_clock_take: called after a program stopped. mprun_clock_write: called before a program runs. */
void mprun_clock_take(void);
void mprun_clock_write(void);

/* Return the time of a trace event: CLOCK_MONOTONIC in ns. To read it does not advance it. */
u64 mprun_trace_ns(void);

/* A page fault of a program was handled, with the lock of its memory map held. flags: FAULT_FLAG_*. */
void mprun_fault_around(struct vm_area_struct *vma, unsigned long address, unsigned int flags);

/*
 * Floating-point state (see mprun_fp.c). Each returns 0 or an error of ptrace(2).
 * mprun_fp_enter: called before a task runs in `process`. mprun_fp_fetch: brings the saved copy of the
 * current task up to date. mprun_fp_take: the same, and the state will be set before the task runs again.
 * mprun_fp_leave: `task` will not run in `mm` again.
 */
int mprun_fp_enter(struct mm_id *process, struct uml_pt_regs *regs);
int mprun_fp_fetch(struct uml_pt_regs *regs);
int mprun_fp_take(struct uml_pt_regs *regs);
void mprun_fp_leave(struct task_struct *task, struct mm_struct *mm);

/* For hostfs: return 0, or the error with which a mount, or a change below it, is refused. */
int mprun_may_mount(void);
int mprun_may_change(struct super_block *sb);
int mprun_may_set(struct inode *inode, struct iattr *attr);
int mprun_reconfigure(struct fs_context *fc);

/* For hostfs: whether names and contents of a file system stay in memory, and the call that lets them stay. */
bool mprun_keeps_names(struct super_block *sb);
void mprun_keep_names(struct super_block *sb);

/* For tracefs: return 0, or the error for the programs of a run. */
int mprun_may_trace(void);

/* Like mprun_may_change, for a new name. */
int mprun_may_make(struct super_block *sb);
int mprun_may_make_node(struct super_block *sb, umode_t mode);

/* For signals, traces and limits: return 0, or the error if the other task is out of the current one's reach. */
int mprun_may_reach(struct task_struct *task);
/* For signals of files: return true if the process or group may become the owner of a file. */
bool mprun_may_own(struct pid *pid, enum pid_type type);

/*
 * For hostfs. mprun_grow: called before a file grows to `size`; returns 0, or the error if this
 * exceeds the limit. mprun_shrink: called after a file got smaller.
 */
int mprun_grow(struct inode *inode, loff_t size);
void mprun_shrink(struct inode *inode, loff_t size);

/* For fork. mprun_too_many_tasks: true if no more tasks are allowed. mprun_born: called when a task has its pid. */
bool mprun_too_many_tasks(int tasks);
void mprun_born(struct task_struct *task, bool is_thread);

/* When memory is exhausted. mprun_is_spared: true for tasks that are not ended. mprun_out_of_memory: end an entry. */
bool mprun_is_spared(struct task_struct *task);
void mprun_out_of_memory(struct task_struct *victim);

/* Return when a timer must fire that is due delta ns after the clock's reading `now`. */
unsigned long long mprun_timer_moment(unsigned long long now, unsigned long delta);

/*
 * Return the next of numbers that are uniform over 32 bits. Each is correlated with the previous one
 * by rho / 2^32. `last` is the generator's state.
 */
u32 mprun_correlated(u32 rho, s32 *last, struct rnd_state *random);

/* A line that sends frames bit by bit: the frame on it, and when its last bit has been sent (ns). */
struct mprun_line {
	struct sk_buff *frame;
	u64 end;
	/* the next frame begins when the last one ended */
	bool is_busy;
};

bool mprun_is_line(struct Qdisc *sch, u32 bucket, bool has_peak);
struct sk_buff *mprun_line_dequeue(struct mprun_line *line, struct Qdisc *sch, struct Qdisc *queue,
				   const struct psched_ratecfg *rate, struct qdisc_watchdog *watchdog);
void mprun_line_change(struct mprun_line *line, u64 old_bytes_per_s, u64 new_bytes_per_s);
void mprun_line_reset(struct mprun_line *line);

#endif
