// SPDX-License-Identifier: GPL-2.0-only
/*
 * The seal on the host's files. Programs of a run are root in here. Root may mount hostfs of any
 * directory of the host, or make a read-only mount writable. When init has made the mounts of a run,
 * it writes to /proc/mprun_seal. From then on, irrevocably:
 *
 * - hostfs cannot be mounted again, and no mount of it can be reconfigured;
 * - files that are mounted read-only cannot be changed, whatever the VFS allows: no write, no new
 *   name, no attribute.
 *
 * Trace events belong to the agent. Programs of a run can neither mount tracefs nor open a file of it.
 */
#include <linux/fs.h>
#include <linux/fs_context.h>
#include <linux/init.h>
#include <linux/mprun.h>
#include <linux/proc_fs.h>
#include <linux/sched.h>

static bool is_sealed;

int mprun_may_mount(void)
{
	return is_sealed ? -EPERM : 0;
}

int mprun_may_change(struct super_block *sb)
{
	return is_sealed && sb_rdonly(sb) ? -EROFS : 0;
}

int mprun_reconfigure(struct fs_context *fc)
{
	return mprun_may_mount();
}

int mprun_may_trace(void)
{
	return current->mprun.entry ? -EPERM : 0;
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
