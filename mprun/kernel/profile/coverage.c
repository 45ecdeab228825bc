// SPDX-License-Identifier: GPL-2.0-only
/*
 * The counters of executed lines: /proc/mprun_coverage, for the agent. For each object file it has a
 * line "SIZE NAME", and then the content of its file for gcov(1). NAME is that of the file that gcov
 * would look for.
 */
#include <linux/init.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include "../../kernel/gcov/gcov.h"

static void *start(struct seq_file *file, loff_t *at)
{
	struct gcov_info *info = NULL;
	loff_t left = *at;

	mutex_lock(&gcov_lock);
	do
		info = gcov_info_next(info);
	while (info && left--);
	return info;
}

static void *next(struct seq_file *file, void *info, loff_t *at)
{
	++*at;
	return gcov_info_next(info);
}

static void stop(struct seq_file *file, void *info)
{
	mutex_unlock(&gcov_lock);
}

static int show(struct seq_file *file, void *info)
{
	size_t size = convert_to_gcda(NULL, info);
	char *content = kvmalloc(size, GFP_KERNEL);

	if (!content)
		return -ENOMEM;
	convert_to_gcda(content, info);
	seq_printf(file, "%zu %s\n", size, gcov_info_filename(info));
	seq_write(file, content, size);
	kvfree(content);
	return 0;
}

static const struct seq_operations operations = {
	.start = start,
	.next = next,
	.stop = stop,
	.show = show,
};

/*
 * Files would announce their counters before the kernel starts, in constructors, where it cannot print
 * yet. So the compiler leaves the addresses of the counters in this section instead.
 */
extern struct gcov_info *__start_mprun_gcov[], *__stop_mprun_gcov[];

static int __init publish(void)
{
	struct gcov_info **info;

	mutex_lock(&gcov_lock);
	for (info = __start_mprun_gcov; info < __stop_mprun_gcov; info++)
		gcov_info_link(*info);
	mutex_unlock(&gcov_lock);
	return proc_create_seq("mprun_coverage", 0400, NULL, &operations) ? 0 : -ENOMEM;
}
fs_initcall(publish);
