// SPDX-License-Identifier: GPL-2.0-only
/*
 * The seal on the host's files. Programs of a run are root in here. Root may mount hostfs of any
 * directory of the host, or make a read-only mount writable. When init has made the mounts of a run,
 * it writes to /proc/mprun_seal. From then on, irrevocably:
 *
 * - hostfs cannot be mounted again, and no mount of it can be reconfigured;
 * - files that are mounted read-only cannot be changed, whatever the VFS allows: no write, no new
 *   name, no attribute;
 * - where files may be changed, none gets another owner, a set-ID bit or a device. On the host, a
 *   set-user-ID file of root would be a program with root's rights.
 *
 * Trace events belong to the agent. Programs of a run can neither mount tracefs nor open a file of it.
 *
 * The agent, init and kernel threads are out of the programs' reach. A program can neither send them a
 * signal (but a child's end is reported), nor trace them, nor look into them by /proc, nor limit them.
 * The agent starts a command of a file in a mount namespace of its own. Such a command reaches only
 * processes of its entry. Through others it would come to the agent's mounts and to its helpers.
 */
#include <linux/fs.h>
#include <linux/fs_context.h>
#include <linux/init.h>
#include <linux/mprun.h>
#include <linux/nsproxy.h>
#include <linux/pid.h>
#include <linux/proc_fs.h>
#include <linux/sched.h>
#include <linux/sched/task.h>

static bool is_sealed;

int mprun_may_mount(void)
{
	return is_sealed ? -EPERM : 0;
}

int mprun_may_change(struct super_block *sb)
{
	return is_sealed && sb_rdonly(sb) ? -EROFS : 0;
}

int mprun_may_make_node(struct super_block *sb, umode_t mode)
{
	if (is_sealed && (S_ISCHR(mode) || S_ISBLK(mode) || mode & (S_ISUID | S_ISGID)))
		return -EPERM;
	return mprun_may_make(sb);
}

int mprun_may_set(struct inode *inode, struct iattr *attr)
{
	if (!is_sealed)
		return 0;
	/* a folder may have inherited its set-group-ID bit, which chmod(1) sets again */
	if (attr->ia_valid & ATTR_MODE && attr->ia_mode & ~inode->i_mode & (S_ISUID | S_ISGID))
		return -EPERM;
	if (attr->ia_valid & ATTR_UID && !uid_eq(attr->ia_uid, inode->i_uid))
		return -EPERM;
	if (attr->ia_valid & ATTR_GID && !gid_eq(attr->ia_gid, inode->i_gid))
		return -EPERM;
	/* to set the same owner again is no change, and the host never hears of it */
	attr->ia_valid &= ~(ATTR_UID | ATTR_GID);
	return 0;
}

int mprun_reconfigure(struct fs_context *fc)
{
	return mprun_may_mount();
}

int mprun_may_trace(void)
{
	return current->mprun.entry ? -EPERM : 0;
}

int mprun_may_reach(struct task_struct *task)
{
	pid_t entry = current->mprun.entry;

	if (!entry || entry == task->mprun.entry)
		return 0;
	if (mprun_is_spared(task) || current->nsproxy->mnt_ns != init_task.nsproxy->mnt_ns)
		return -EPERM;
	return 0;
}

bool mprun_may_own(struct pid *pid, enum pid_type type)
{
	struct task_struct *task;
	bool may;

	rcu_read_lock();
	task = pid_task(pid, type);
	may = !task || !mprun_may_reach(task);
	rcu_read_unlock();
	return may;
}

static ssize_t seal(struct file *file, const char __user *text, size_t length, loff_t *at)
{
	is_sealed = true;
	return length;
}

static const struct proc_ops seal_ops = {
	.proc_write = seal,
};

static int __init make_seal(void)
{
	return proc_create("mprun_seal", 0200, NULL, &seal_ops) ? 0 : -ENOMEM;
}
fs_initcall(make_seal);
