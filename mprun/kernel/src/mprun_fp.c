// SPDX-License-Identifier: GPL-2.0-only
/*
 * The floating-point state of programs.
 *
 * A process of the host runs all tasks of an address space in turn. Mainline fetches the floating-point
 * state of the task from this process at every stop, and sets it before every resumption: two calls of
 * some 2.4 kB. But the state stays in the process of its own accord. Here `struct mm_id` has the
 * registers of the task whose state the process holds. The state is moved only
 *
 * - when another task of the address space runs (mprun_fp_enter),
 * - before the kernel reads the saved copy: on fork, clone and signals (mprun_fp_fetch),
 * - before something else changes the state in the process (a fault's handler) or the saved copy
 *   (sigreturn) (mprun_fp_take).
 *
 * A task that ends, or starts another program, leaves its process without a state to keep
 * (mprun_fp_leave).
 */
#include <linux/mm_types.h>
#include <linux/mprun.h>
#include <linux/sched.h>
#include <registers.h>
#include <skas/mm_id.h>

int mprun_fp_enter(struct mm_id *process, struct uml_pt_regs *regs)
{
	int err = 0;

	if (process->fp == regs)
		return 0;
	if (process->fp)
		err = get_fp_registers(process->pid, process->fp->fp);
	process->fp = NULL;
	if (!err)
		err = put_fp_registers(process->pid, regs->fp);
	if (!err)
		process->fp = regs;
	return err;
}

int mprun_fp_fetch(struct uml_pt_regs *regs)
{
	struct mm_struct *mm = current->mm;

	if (!mm || mm->context.id.fp != regs)
		return 0;
	return get_fp_registers(mm->context.id.pid, regs->fp);
}

int mprun_fp_take(struct uml_pt_regs *regs)
{
	int err = mprun_fp_fetch(regs);

	if (current->mm && current->mm->context.id.fp == regs)
		current->mm->context.id.fp = NULL;
	return err;
}

void mprun_fp_leave(struct task_struct *task, struct mm_struct *mm)
{
	if (mm && mm->context.id.fp == &task->thread.regs.regs)
		mm->context.id.fp = NULL;
}
