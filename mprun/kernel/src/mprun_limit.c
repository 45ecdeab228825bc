// SPDX-License-Identifier: GPL-2.0-only
/*
 * Bounds on what the programs of a run take, in units that are the same on every machine.
 *
 * mprun_tasks=N    processes and threads of this kernel at one time
 * mprun_bytes=N    bytes by which they let the files of the host grow
 * mprun_files=N    files, folders and links that they make among the host's
 *
 * and the memory that this kernel has. Without an argument there is no such bound. Programs are root
 * in here, so a sysctl or a resource limit would be theirs to raise; these are nobody's.
 *
 * The agent is the child of init. Each process that the agent starts is the first of an entry, and
 * an entry is all that comes from it, whoever its parent is by then. An entry that goes beyond a bound
 * is ended as a whole: a fork bomb has no process that could be spared, and its first process ends
 * with SIGKILL, which the agent notices. /proc/mprun_limits says which entries were ended: the pid
 * of the first process, the bound, and how much it is. The agent itself is never ended for memory, and
 * it may still write RESERVE bytes when the others may not, so that a run can be written down.
 */
#include <linux/fs.h>
#include <linux/init.h>
#include <linux/mm.h>
#include <linux/mprun.h>
#include <linux/proc_fs.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <init.h>

#define RESERVE		(1ULL << 30)
#define MOST_RECORDS	64

enum bound { TASKS, BYTES, FILES, MEMORY };

static const char * const names[] = { "tasks", "bytes", "files", "memory" };
static u64 most[] = { U64_MAX, U64_MAX, U64_MAX, 0 };
/* what was taken of BYTES and FILES */
static u64 taken[ARRAY_SIZE(most)];

static struct {
	pid_t entry;
	enum bound bound;
} ended[MOST_RECORDS];
static unsigned int n_ended;

/* A bound is decided in the context of a task; this kernel has one CPU and is not preempted. */
static void end_entry(pid_t entry, enum bound bound)
{
	struct task_struct *task;
	unsigned int i;

	if (!entry)
		return;
	for (i = 0; i < n_ended && ended[i].entry != entry; i++)
		;
	if (i == n_ended && n_ended < MOST_RECORDS) {
		ended[n_ended].entry = entry;
		ended[n_ended++].bound = bound;
	}
	rcu_read_lock();
	for_each_process(task)
		if (task->mprun.entry == entry)
			do_send_sig_info(SIGKILL, SEND_SIG_PRIV, task, PIDTYPE_TGID);
	rcu_read_unlock();
}

/* The entry that has more than half of the tasks, if one has (Boyer and Moore): not always the one that asks for more. */
static pid_t largest_entry(void)
{
	struct task_struct *process, *task;
	pid_t entry = 0;
	int votes = 0;

	rcu_read_lock();
	for_each_process_thread(process, task) {
		if (!task->mprun.entry)
			continue;
		if (!votes)
			entry = task->mprun.entry;
		votes += task->mprun.entry == entry ? 1 : -1;
	}
	rcu_read_unlock();
	return entry;
}

bool mprun_too_many_tasks(int tasks)
{
	if (!current->mprun.entry || tasks < most[TASKS])
		return false;
	end_entry(largest_entry(), TASKS);
	return true;
}

/* Entries begin with what the agent starts; init, the agent with its threads, and the kernel's own have none. */
void mprun_born(struct task_struct *task, bool is_thread)
{
	if (!current->mprun.entry && !is_thread && current->pid > 1 && !(current->flags & PF_KTHREAD))
		task->mprun.entry = task->pid;
}

void mprun_out_of_memory(struct task_struct *victim)
{
	end_entry(victim->mprun.entry, MEMORY);
}

bool mprun_is_spared(struct task_struct *task)
{
	return !task->mprun.entry;
}

static int take(enum bound bound, u64 more, u64 reserve)
{
	pid_t entry = current->mprun.entry;
	u64 limit = most[bound];

	if (!entry && limit < U64_MAX - reserve)
		limit += reserve;
	if (taken[bound] <= limit && more <= limit - taken[bound]) {
		taken[bound] += more;
		return 0;
	}
	end_entry(entry, bound);
	return -ENOSPC;
}

int mprun_grow(struct inode *inode, loff_t size)
{
	loff_t now = i_size_read(inode);

	if (size > now)
		return take(BYTES, size - now, RESERVE);
	return 0;
}

void mprun_shrink(struct inode *inode, loff_t size)
{
	loff_t now = i_size_read(inode);

	if (size < now)
		taken[BYTES] -= min_t(u64, now - size, taken[BYTES]);
}

int mprun_may_make(struct super_block *sb)
{
	return mprun_may_change(sb) ?: take(FILES, 1, RESERVE);
}

static int show(struct seq_file *file, void *data)
{
	unsigned int i;

	most[MEMORY] = (u64)totalram_pages() << PAGE_SHIFT;
	for (i = 0; i < n_ended; i++)
		seq_printf(file, "%d %s %llu\n", ended[i].entry, names[ended[i].bound], most[ended[i].bound]);
	return 0;
}

static int __init make_limits(void)
{
	return proc_create_single("mprun_limits", 0400, NULL, show) ? 0 : -ENOMEM;
}
fs_initcall(make_limits);

static int __init read_most(enum bound bound, char *value, int *add)
{
	most[bound] = simple_strtoull(value, NULL, 10);
	*add = 0;
	return 0;
}

static int __init tasks_setup(char *value, int *add)
{
	return read_most(TASKS, value, add);
}

static int __init bytes_setup(char *value, int *add)
{
	return read_most(BYTES, value, add);
}

static int __init files_setup(char *value, int *add)
{
	return read_most(FILES, value, add);
}

__uml_setup("mprun_tasks=", tasks_setup,
"mprun_tasks=<number>\n"
"    End an entry of a run with which there would be more processes and threads.\n\n"
);
__uml_setup("mprun_bytes=", bytes_setup,
"mprun_bytes=<number>\n"
"    End an entry of a run that lets the host's files grow by more bytes.\n\n"
);
__uml_setup("mprun_files=", files_setup,
"mprun_files=<number>\n"
"    End an entry of a run that makes more files of the host.\n\n"
);
