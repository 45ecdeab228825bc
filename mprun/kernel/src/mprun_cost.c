// SPDX-License-Identifier: GPL-2.0-only
/*
 * The stops of programs, counted by program and system call: /proc/mprun_stops.
 *
 * A stop is a system call, a page fault or another signal of a program. Each costs two context switches
 * and several calls of ptrace(2) on the host, and most of the time of a run. Each line of the file is
 * "COUNT CALL NAME". CALL is the system call, "fault" for a page fault, or "signal" for another signal.
 * NAME is the name of the thread (/proc/PID/comm). Once the table is full, new pairs count as "other"
 * without a name.
 *
 * The counts are no part of a run's result: they differ by host.
 */
#include <linux/array_size.h>
#include <linux/fs.h>
#include <linux/init.h>
#include <linux/jhash.h>
#include <linux/mprun.h>
#include <linux/proc_fs.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/signal.h>
#include <linux/string.h>

/* in place of a system call's number */
#define FAULT	(-1)
#define SIGNAL	(-2)

#define SLOTS	1024
#define TRIES	8

struct slot {
	u64 count;
	int number;
	char name[TASK_COMM_LEN];
};

static struct slot slots[SLOTS];
static u64 others;

#define __SYSCALL(number, symbol) [number] = #symbol,
#define __SYSCALL_NORETURN __SYSCALL
static const char *const calls[] = {
#include <asm/syscalls_64.h>
};
#undef __SYSCALL_NORETURN
#undef __SYSCALL
#define PREFIX	strlen("sys_")

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

void mprun_stopped_by(int signal)
{
	/* with these signals a process stops for a system call */
	if (signal != (SIGTRAP | 0x80) && signal != SIGSYS)
		mprun_stopped(signal == SIGSEGV ? FAULT : SIGNAL);
}

static const char *call_name(int number)
{
	if (number < 0)
		return number == FAULT ? "fault" : "signal";
	return number < ARRAY_SIZE(calls) && calls[number] ? calls[number] + PREFIX : "unknown";
}

static int show(struct seq_file *file, void *unused)
{
	int i;

	for (i = 0; i < SLOTS; i++)
		if (slots[i].count)
			seq_printf(file, "%llu %s %s\n", slots[i].count, call_name(slots[i].number), slots[i].name);
	if (others)
		seq_printf(file, "%llu other \n", others);
	return 0;
}

static int __init publish(void)
{
	return proc_create_single("mprun_stops", 0400, NULL, show) ? 0 : -ENOMEM;
}
fs_initcall(publish);
