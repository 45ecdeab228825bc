// SPDX-License-Identifier: GPL-2.0-only
/*
 * Limits of what the programs of a run use, in units that are the same on every machine.
 *
 * mprun_tasks=N    processes and threads of this kernel at one time
 * mprun_bytes=N    bytes by which they make the host's files grow
 * mprun_files=N    files, folders and links that they make on the host
 *
 * The memory of this kernel is a limit, too. Without its argument, a limit does not exist. Programs
 * are root in here and could raise a sysctl or a resource limit; nobody can raise these limits.
 *
 * The agent is the child of init. Each process that the agent starts is the first process of an entry.
 * An entry consists of all descendants of its first process, whoever their parent is by then.
 *
 * If an entry exceeds a limit, the whole entry is ended, because no process of a fork bomb can be
 * spared. Its first process ends with SIGKILL, which the agent notices. /proc/mprun_limits lists the
 * entries that were ended: the pid of the first process, the limit, and the limit's value. The agent
 * itself is never ended for memory. It may write RESERVE more bytes than the entries, so that a run
 * can be recorded.
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
/* the used amounts of BYTES and FILES */
static u64 taken[ARRAY_SIZE(most)];

static struct {
	pid_t entry;
	enum bound bound;
} ended[MOST_RECORDS];
static unsigned int n_ended;

/* Limits are checked in the context of a task. This kernel has one CPU and is not preempted. */
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

/*
 * Return the entry that has more than half of the tasks, if there is one (Boyer and Moore). It is not
 * always the entry that asks for another task.
 */
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

/*
 * A process that the agent or a kernel thread starts begins an entry. init, the agent with its threads, and kernel
 * threads have none.
 */
void mprun_born(struct task_struct *task, bool is_thread)
{
	current->mprun.has_born = current->mprun.entry && most[TASKS] < U64_MAX;
	if (!current->mprun.entry && !is_thread && current->pid > 1 && !(task->flags & PF_KTHREAD))
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
