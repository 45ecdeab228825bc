// SPDX-License-Identifier: GPL-2.0-only
/*
 * The stops of programs, counted by program and system call: /proc/mprun_stops.
 *
 * A stop is a system call, a page fault or another signal of a program. Each costs two context switches
 * and several calls of ptrace(2) on the host, and most of the time of a run. Each line of the file is
 * "COUNT NUMBER NAME". NUMBER is that of the system call, -1 for a page fault, or -2 for another signal.
 * NAME is the name of the thread (/proc/PID/comm). Once the table is full, new pairs count under
 * NUMBER -3 without a name.
 *
 * The counts are no part of a run's result: they differ by host.
 */
#include <linux/fs.h>
#include <linux/init.h>
#include <linux/jhash.h>
#include <linux/mprun.h>
#include <linux/proc_fs.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/string.h>

#define SLOTS	1024
#define TRIES	8

struct slot {
	u64 count;
	int number;
	char name[TASK_COMM_LEN];
};

static struct slot slots[SLOTS];
static u64 others;

void mprun_stopped(int number)
{
	char *name = current->comm;
	u32 place = jhash(name, strnlen(name, TASK_COMM_LEN), number);
	int i;

	for (i = 0; i < TRIES; i++) {
		struct slot *slot = &slots[(place + i) % SLOTS];

		if (!slot->count) {
			slot->number = number;
			strscpy(slot->name, name, TASK_COMM_LEN);
		}
		if (slot->number == number && !strncmp(slot->name, name, TASK_COMM_LEN)) {
			slot->count++;
			return;
		}
	}
	others++;
}

static int show(struct seq_file *file, void *unused)
{
	int i;

	for (i = 0; i < SLOTS; i++)
		if (slots[i].count)
			seq_printf(file, "%llu %d %s\n", slots[i].count, slots[i].number, slots[i].name);
	if (others)
		seq_printf(file, "%llu -3 \n", others);
	return 0;
}

static int __init publish(void)
{
	return proc_create_single("mprun_stops", 0400, NULL, show) ? 0 : -ENOMEM;
}
fs_initcall(publish);
