// SPDX-License-Identifier: GPL-2.0-only
/*
 * The host's files stay as a run first saw them.
 *
 * Mainline's hostfs forgets a name as soon as no program uses it, and with the name the content. So an
 * upgrade of the host in the middle of a run would show, and each program asks the host again for every
 * name and byte that the program before it has read. In a read-only mount, names and contents stay in
 * this kernel's memory, also names that do not exist. A file that is open stays the same on the host even
 * if another takes its name.
 *
 * A mount with the option `sync`, which has no meaning for read-only files, follows the host (init.c).
 */
#include <linux/dcache.h>
#include <linux/fs.h>
#include <linux/mprun.h>
#include <linux/version.h>

bool mprun_keeps_names(struct super_block *sb)
{
	return sb_rdonly(sb) && !(sb->s_flags & SB_SYNCHRONOUS);
}

void mprun_keep_names(struct super_block *sb)
{
	if (!mprun_keeps_names(sb))
		return;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 17, 0)
	sb->s_d_flags &= ~DCACHE_DONTCACHE;
#else
	sb->s_d_op = NULL;
#endif
}
