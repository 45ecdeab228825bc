# SPDX-License-Identifier: Apache-2.0
"""The lines that mprun changes in a kernel tree, and the step that changes them.

Larger changes are files of their own in `src/`. A hook names the exact text that it replaces. If trees differ, it has
one text for each. A tree in which the text does not occur exactly once is refused; nothing is patched by guessing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mprun.errors import HostError
from mprun.kernel.tree import read_source


class UnfitTree(HostError):
    """A kernel tree that cannot become an experiment kernel, although this machine could build it."""


@dataclass(frozen=True)
class Hook:
    """Replace `find` by `replace` in `file` (relative to the kernel tree).

    instead: (find, replace) for trees that have another text there. moved_to: the file with the lines in later trees.
    """

    file: str
    find: str
    replace: str
    purpose: str
    instead: tuple[tuple[str, str], ...] = ()
    moved_to: str = ""

    def apply(self, text: str) -> str:
        """Return the text with the hook applied. Raises UnfitTree if the hook does not fit exactly once."""
        fitting = [(find, replace) for find, replace in ((self.find, self.replace), *self.instead) if find in text]
        count = sum(text.count(find) for find, _ in fitting)
        if count != 1:
            raise UnfitTree(
                f"{self.file}: the hook for {self.purpose!r} fits {count} times instead of once: "
                f"{self.find.strip()!r}; this tree needs a hook of its own in mprun/kernel/hooks.py"
            )
        return text.replace(*fitting[0])


HOOKS = (
    Hook(
        "drivers/char/random.c",
        "\tunsigned long flags;\n\tstruct crng *crng;\n\n\tBUG_ON(random_data_len > 32);\n",
        "\tunsigned long flags;\n\tstruct crng *crng;\n\tu8 *seeded_key = mprun_random_key(); /* mprun */\n\n"
        "\tBUG_ON(random_data_len > 32);\n\n"
        "\tif (seeded_key) { /* mprun */\n"
        "\t\tlocal_irq_save(flags);\n"
        "\t\tcrng_fast_key_erasure(seeded_key, chacha_state, random_data, random_data_len);\n"
        "\t\tlocal_irq_restore(flags);\n"
        "\t\treturn;\n"
        "\t}\n",
        "repeatable randomness",
    ),
    Hook(
        "drivers/char/random.c",
        "#include <linux/random.h>\n",
        "#include <linux/random.h>\n#include <linux/mprun.h> /* mprun */\n",
        "declaration of the above",
    ),
    Hook(
        "lib/random32.c",
        "\treturn (state->s1 ^ state->s2 ^ state->s3 ^ state->s4);\n",
        "\treturn mprun_random_number(state->s1 ^ state->s2 ^ state->s3 ^ state->s4); /* mprun */\n",
        "other random numbers of netem from a moment on",
    ),
    Hook(
        "lib/random32.c",
        "#include <linux/sched.h>\n",
        "#include <linux/sched.h>\n#include <linux/mprun.h> /* mprun */\n",
        "declaration of the above",
    ),
    Hook(
        "arch/um/kernel/time.c",
        "\ttime_travel_add_event(&time_travel_timer_event,\n\t\t\t\t      time_travel_time + delta);\n",
        "\ttime_travel_add_event(&time_travel_timer_event,\n"
        "\t\t\t\t      mprun_timer_moment(time_travel_time, delta - 1)); /* mprun */\n",
        "timers fire when they are due, not part of a clock step later",
    ),
    Hook(
        "arch/um/kernel/time.c",
        "static unsigned long long time_travel_time;\n",
        "unsigned long long time_travel_time; /* mprun */\n",
        "reading the time without advancing it",
    ),
    Hook(
        "fs/select.c",
        "\tif (slack == 0)\n\t\treturn 0;\n",
        "\tif (slack == 0 || mprun_is_observer()) /* mprun */\n\t\treturn 0;\n",
        "the agent wakes when it asked to, not up to a thousandth later",
    ),
    Hook(
        "arch/um/include/linux/time-internal.h",
        "#define TIMER_MIN_DELTA  500\n",
        "#define TIMER_MIN_DELTA  1 /* mprun */\n",
        "a timer is not late because another one fires less than 500 ns before it",
    ),
    Hook(
        "arch/um/kernel/time.c",
        "\t\tif (!irqs_disabled() && !in_interrupt() && !in_softirq() &&\n",
        "\t\tif (!irqs_disabled() && !in_interrupt() && !in_softirq() && !mprun_is_observer() && /* mprun */\n",
        "the agent reads the clock without advancing it",
    ),
    Hook(
        "arch/um/kernel/time.c",
        "#include <linux/time-internal.h>\n",
        "#include <linux/time-internal.h>\n#include <linux/mprun.h> /* mprun */\n",
        "declaration of the above",
    ),
    Hook(
        "arch/um/kernel/time.c",
        "\tif (get_current()->mm != NULL)\n",
        "\tif (time_travel_mode != TT_MODE_INFCPU && get_current()->mm != NULL) /* mprun */\n",
        "a timer that fires during a system call does not stop the program once more",
        (("\t    get_current()->mm)\n", "\t    get_current()->mm) /* mprun: as in this tree */\n"),),
    ),
    Hook(
        "arch/um/kernel/skas/syscall.c",
        "\t\tif (IS_ERR_VALUE(ret) &&\n",
        "\t\tif (IS_ERR_VALUE(ret) && !mprun_is_observer() && /* mprun */\n",
        "a call of the agent that fails takes no time",
    ),
    Hook(
        "arch/um/kernel/skas/syscall.c",
        "\t\tPT_REGS_SET_SYSCALL_RETURN(regs, ret);\n",
        "\t\tPT_REGS_SET_SYSCALL_RETURN(regs, ret);\n"
        "\t\tmprun_after_syscall(syscall, UPT_SYSCALL_ARG1(r), UPT_SYSCALL_ARG2(r)); /* mprun */\n",
        "time passes for a program that polls",
    ),
    Hook(
        "arch/um/kernel/skas/syscall.c",
        "\tsyscall = UPT_SYSCALL_NR(r);\n",
        "\tsyscall = UPT_SYSCALL_NR(r);\n\tmprun_stopped(syscall); /* mprun */\n\tmprun_before_syscall();\n",
        "events between two system calls are not effects of the task",
    ),
    Hook(
        "include/linux/sched.h",
        "\t/* Context switch counts: */\n\tunsigned long\t\t\tnvcsw;\n",
        "\tstruct mprun_task\t\tmprun; /* mprun */\n\t/* Context switch counts: */\n\tunsigned long\t\t\tnvcsw;\n",
        "the recent system calls of a task",
    ),
    Hook(
        "include/linux/sched.h",
        "#include <uapi/linux/sched.h>\n",
        "#include <uapi/linux/sched.h>\n#include <linux/mprun.h> /* mprun */\n",
        "declaration of the above",
    ),
    Hook(
        "arch/um/kernel/skas/uaccess.c",
        "\treturn strnlen(dst, count);\n",
        "\tn = strnlen(dst, count);\n\tmprun_named(dst, n); /* mprun */\n\treturn n;\n",
        "a system call with another name is another question",
    ),
    Hook(
        "kernel/sched/core.c",
        "\tWRITE_ONCE(p->__state, TASK_RUNNING);\n\ttrace_sched_wakeup(p);\n",
        "\tWRITE_ONCE(p->__state, TASK_RUNNING);\n\tmprun_moved(); /* mprun */\n\ttrace_sched_wakeup(p);\n",
        "waking a task is an effect",
    ),
    Hook(
        "include/linux/fsnotify.h",
        "\tfsnotify_file(file, FS_ACCESS);\n",
        "\tmprun_passed(file); /* mprun */\n\tfsnotify_file(file, FS_ACCESS);\n",
        "passing bytes on is an effect",
    ),
    Hook(
        "include/linux/fsnotify.h",
        "\tfsnotify_file(file, FS_MODIFY);\n",
        "\tmprun_passed(file); /* mprun */\n\tfsnotify_file(file, FS_MODIFY);\n",
        "passing bytes on is an effect",
    ),
    Hook(
        "net/socket.c",
        "\tBUG_ON(ret == -EIOCBQUEUED);\n",
        "\tBUG_ON(ret == -EIOCBQUEUED);\n\tif (ret > 0) /* mprun */\n\t\tmprun_moved();\n",
        "passing bytes on is an effect",
    ),
    Hook(
        "net/socket.c",
        "\tif (trace_sock_recv_length_enabled())\n",
        "\tif (ret > 0 && !(flags & MSG_PEEK)) /* mprun */\n"
        "\t\tmprun_moved();\n"
        "\tif (trace_sock_recv_length_enabled())\n",
        "passing bytes on is an effect",
    ),
    Hook(
        "arch/um/os-Linux/skas/process.c",
        "\t\t\tcase SIGALRM:\n\t\t\t\tbreak;\n",
        "\t\t\tcase SIGALRM:\n\t\t\t\tbreak;\n"
        "\t\t\tcase SIGXCPU: /* mprun */\n\t\t\t\tmprun_computed();\n\t\t\t\tbreak;\n",
        "ending a program that computes without end",
    ),
    Hook(
        "arch/um/os-Linux/skas/process.c",
        "#define STUB_SIG_MASK ((1 << SIGALRM) | (1 << SIGWINCH))\n",
        "#define STUB_SIG_MASK ((1 << SIGALRM) | (1 << SIGWINCH) | (1 << SIGXCPU)) /* mprun */\n",
        "ending such a program while the kernel handles it",
    ),
    Hook(
        "arch/um/os-Linux/skas/process.c",
        "#include <skas.h>\n",
        "#include <skas.h>\nvoid mprun_computed(void); /* mprun */\nvoid mprun_clock_take(void);\n"
        "void mprun_clock_write(void);\nvoid mprun_stopped_by(int signal);\n"
        "int mprun_fp_enter(struct mm_id *process, struct uml_pt_regs *regs);\n"
        "int mprun_fp_take(struct uml_pt_regs *regs);\nstatic int mprun_kernel; /* mprun */\n",
        "declaration of the above",
    ),
    Hook(
        "arch/um/os-Linux/skas/process.c",
        "\t\ttime_travel_print_bc_msg();\n",
        "\t\ttime_travel_print_bc_msg();\n\t\tmprun_clock_write(); /* mprun */\n",
        "programs read the clocks from a page",
    ),
    Hook(
        "arch/um/os-Linux/skas/process.c",
        "\t\tif (WIFSTOPPED(status)) {\n\t\t\tint sig = WSTOPSIG(status);\n",
        "\t\tif (WSTOPSIG(status) != SIGXCPU) { /* mprun */\n\t\t\tmprun_clock_take();\n"
        "\t\t\tmprun_stopped_by(WSTOPSIG(status));\n\t\t}\n"
        "\t\tif (WIFSTOPPED(status)) {\n\t\t\tint sig = WSTOPSIG(status);\n",
        "the time of a program's clock readings passes",
        (
            (
                "\t\tif (sig) {\n\t\t\tswitch (sig) {\n",
                "\t\tif (sig != SIGXCPU) { /* mprun */\n\t\t\tmprun_clock_take();\n"
                "\t\t\tmprun_stopped_by(sig);\n\t\t}\n"
                "\t\tif (sig) {\n\t\t\tswitch (sig) {\n",
            ),
        ),
    ),
    Hook(
        "arch/x86/um/vdso/vma.c",
        "\tmmap_write_unlock(mm);\n\n\treturn IS_ERR(vma) ? PTR_ERR(vma) : 0;\n",
        "\tif (!IS_ERR(vma)) /* mprun */\n\t\tvma = mprun_clock_map(mm, um_vdso_addr - PAGE_SIZE);\n"
        "\tmmap_write_unlock(mm);\n\n\treturn IS_ERR(vma) ? PTR_ERR(vma) : 0;\n",
        "the page of the clocks is part of each program",
    ),
    Hook(
        "arch/x86/um/vdso/vma.c",
        "#include <linux/init.h>\n",
        "#include <linux/init.h>\n#include <linux/mprun.h> /* mprun */\n",
        "declaration of the above",
    ),
    Hook(
        "arch/x86/um/vdso/Makefile",
        "vobjs-y := vdso-note.o um_vdso.o\n",
        "vobjs-y := vdso-note.o mprun_vdso.o # mprun\n",
        "programs read the clocks from a page",
    ),
    Hook(
        "arch/um/os-Linux/skas/process.c",
        "if (put_fp_registers(pid, regs->fp)) {\n",
        "if (mprun_fp_enter(current_mm_id(), regs)) { /* mprun */\n",
        "floating-point state moves only when another task runs",
    ),
    Hook(
        "arch/um/os-Linux/skas/process.c",
        "if (get_fp_registers(pid, regs->fp)) {\n",
        "if (WIFSTOPPED(status) && WSTOPSIG(status) == SIGSEGV && /* mprun */\n\t\t    mprun_fp_take(regs)) {\n",
        "floating-point state survives the handler of a fault",
    ),
    Hook(
        "arch/um/os-Linux/skas/process.c",
        "\terr = get_fp_registers(pid, aux_fp_regs);\n",
        "\terr = 0; /* mprun: userspace() has the state */\n",
        "floating-point state is not saved twice",
        (
            (
                "static void get_skas_faultinfo(int pid, struct faultinfo *fi)\n",
                "/* mprun: userspace() has the floating-point state */\n"
                "static void get_skas_faultinfo(int pid, struct faultinfo *fi)\n",
            ),
        ),
    ),
    Hook(
        "arch/um/os-Linux/skas/process.c",
        "\terr = put_fp_registers(pid, aux_fp_regs);\n",
        "\terr = 0; /* mprun */\n",
        "floating-point state is not saved twice",
        (
            (
                "\tmemcpy(fi, (void *)current_stub_stack(), sizeof(*fi));\n}\n",
                "\tmemcpy(fi, (void *)current_stub_stack(), sizeof(*fi));\n\t/* mprun */\n}\n",
            ),
        ),
    ),
    Hook(
        "arch/um/kernel/trap.c",
        "\terr = 0;\n\t/*\n\t * The below warning was added in place of\n",
        "\terr = 0;\n\tmprun_fault_around(vma, address, flags); /* mprun */\n"
        "\t/*\n\t * The below warning was added in place of\n",
        "a page fault maps several pages",
    ),
    Hook(
        "arch/um/include/shared/skas/mm_id.h",
        "struct mm_id {\n",
        "struct uml_pt_regs; /* mprun */\n"
        "struct mm_id {\n\t/* mprun: the registers of the task whose floating-point state the process holds */\n"
        "\tstruct uml_pt_regs *fp;\n",
        "floating-point state moves only when another task runs",
    ),
    Hook(
        "arch/um/kernel/skas/mmu.c",
        "\tstack = __get_free_pages(GFP_KERNEL | __GFP_ZERO, ilog2(STUB_DATA_PAGES));\n",
        "\tnew_id->fp = NULL; /* mprun */\n"
        "\tstack = __get_free_pages(GFP_KERNEL | __GFP_ZERO, ilog2(STUB_DATA_PAGES));\n",
        "a new process holds no task's floating-point state",
    ),
    Hook(
        "arch/um/include/asm/mmu_context.h",
        "#define destroy_context destroy_context\n",
        "#include <linux/mprun.h> /* mprun */\n#define deactivate_mm(task, mm) mprun_fp_leave(task, mm)\n\n"
        "#define destroy_context destroy_context\n",
        "a task that ends leaves no floating-point state behind",
    ),
    Hook(
        "kernel/fork.c",
        "\tp = dup_task_struct(current, node);\n",
        "\tif (mprun_fp_fetch(&current_pt_regs()->regs)) /* mprun */\n\t\tgoto fork_out;\n"
        "\tp = dup_task_struct(current, node);\n",
        "a child starts with its parent's floating-point state",
    ),
    Hook(
        "kernel/signal.c",
        "\tbool gstop_done = false;\n\n\tif (arch_ptrace_stop_needed()) {\n",
        "\tbool gstop_done = false;\n\n\tmprun_fp_take(&current_pt_regs()->regs); /* mprun */\n"
        "\tif (arch_ptrace_stop_needed()) {\n",
        "a debugger in the run sees the floating-point state",
    ),
    Hook(
        "arch/x86/um/ptrace_64.c",
        "\tint err, n, cpu = ((struct thread_info *) child->stack)->cpu;\n\tstruct user_i387_struct fpregs;\n\n"
        "\terr = save_i387_registers(userspace_pid[cpu],\n\t\t\t\t  (unsigned long *) &fpregs);\n"
        "\tif (err)\n\t\treturn err;\n\n"
        "\tn = copy_to_user(buf, &fpregs, sizeof(fpregs));\n\tif (n > 0)\n\t\treturn -EFAULT;\n\n\treturn n;\n}\n\n"
        "static int set_fpregs(struct user_i387_struct __user *buf, struct task_struct *child)\n{\n"
        "\tint n, cpu = ((struct thread_info *) child->stack)->cpu;\n\tstruct user_i387_struct fpregs;\n\n"
        "\tn = copy_from_user(&fpregs, buf, sizeof(fpregs));\n\tif (n > 0)\n\t\treturn -EFAULT;\n\n"
        "\treturn restore_i387_registers(userspace_pid[cpu],\n\t\t\t\t      (unsigned long *) &fpregs);\n",
        "\tvoid *fpregs = child->thread.regs.regs.fp; /* mprun */\n\n"
        "\treturn copy_to_user(buf, fpregs, sizeof(*buf)) ? -EFAULT : 0;\n}\n\n"
        "static int set_fpregs(struct user_i387_struct __user *buf, struct task_struct *child)\n{\n"
        "\tvoid *fpregs = child->thread.regs.regs.fp; /* mprun */\n\n"
        "\treturn copy_from_user(fpregs, buf, sizeof(*buf)) ? -EFAULT : 0;\n",
        "a debugger in the run sees another task's floating-point state, not its own",
        (("#include <linux/regset.h>\n", "#include <linux/regset.h> /* mprun: by regsets in this tree */\n"),),
    ),
    Hook(
        "arch/x86/um/signal.c",
        "\t\tif (copy_to_user(to_fp, regs->regs.fp, sizeof(struct _xstate)))\n",
        "\t\tif (mprun_fp_fetch(&regs->regs) || /* mprun */\n"
        "\t\t    copy_to_user(to_fp, regs->regs.fp, sizeof(struct _xstate)))\n",
        "a signal's frame has the floating-point state",
        (
            (
                "\tif (copy_to_user(to_fp64, regs->regs.fp, host_fp_size))\n",
                "\tif (mprun_fp_fetch(&regs->regs) || /* mprun */\n"
                "\t    copy_to_user(to_fp64, regs->regs.fp, host_fp_size))\n",
            ),
        ),
    ),
    Hook(
        "arch/x86/um/signal.c",
        "\t\terr = copy_from_user(regs->regs.fp, (void *)sc.fpstate,\n",
        "\t\tif (mprun_fp_take(&regs->regs)) /* mprun */\n\t\t\treturn 1;\n"
        "\t\terr = copy_from_user(regs->regs.fp, (void *)sc.fpstate,\n",
        "the end of a signal's handler restores the floating-point state",
        (
            (
                "\terr = copy_from_user(regs->regs.fp, from_fp64, host_fp_size);\n",
                "\tif (mprun_fp_take(&regs->regs)) /* mprun */\n\t\treturn 1;\n"
                "\terr = copy_from_user(regs->regs.fp, from_fp64, host_fp_size);\n",
            ),
        ),
    ),
    Hook(
        "arch/x86/um/signal.c",
        "#include <linux/ptrace.h>\n",
        "#include <linux/ptrace.h>\n#include <linux/mprun.h> /* mprun */\n",
        "declaration of the above",
    ),
    Hook(
        "arch/um/kernel/skas/syscall.c",
        "#include <linux/time-internal.h>\n",
        "#include <linux/time-internal.h>\n#include <linux/mprun.h> /* mprun */\n",
        "declaration of the above",
    ),
    Hook(
        "net/sched/sch_tbf.c",
        "\tq->tokens = q->buffer;\n\tq->ptokens = q->mtu;\n\n\tmemcpy(&q->rate",
        "\tmprun_line_change(&q->line, q->rate.rate_bytes_ps, rate.rate_bytes_ps); /* mprun */\n"
        "\tq->is_line = mprun_is_line(sch, max_size, peak.rate_bytes_ps);\n"
        "\tif (!q->rate.rate_bytes_ps) { /* mprun: a change gives no burst away */\n"
        "\t\tq->tokens = q->buffer;\n"
        "\t\tq->ptokens = q->mtu;\n"
        "\t} else {\n"
        "\t\tq->tokens = min(q->tokens, q->buffer);\n"
        "\t\tchanges = true;\n"
        "\t}\n\n"
        "\tmemcpy(&q->rate",
        "a change of a rate does not let another burst pass",
    ),
    Hook(
        "net/sched/sch_tbf.c",
        "\tsch_tree_unlock(sch);\n\tqdisc_put(old);\n\terr = 0;\n",
        "\tsch_tree_unlock(sch);\n\tqdisc_put(old);\n\terr = 0;\n"
        "\tif (changes) { /* mprun: what waits does not wait for the old rate */\n"
        "\t\tqdisc_watchdog_cancel(&q->watchdog);\n"
        "\t\t__netif_schedule(qdisc_root(sch));\n"
        "\t}\n",
        "a change of a rate takes effect at once",
    ),
    Hook(
        "net/sched/sch_tbf.c",
        "\tstruct qdisc_watchdog watchdog;\t/* Watchdog timer */\n};\n",
        "\tstruct qdisc_watchdog watchdog;\t/* Watchdog timer */\n"
        "\tstruct mprun_line line; /* mprun */\n"
        "\tbool is_line;\n"
        "};\n",
        "links send bit by bit",
    ),
    Hook(
        "net/sched/sch_tbf.c",
        "\tunsigned int len = qdisc_pkt_len(skb);\n\tint ret;\n\n\tif (qdisc_pkt_len(skb) > q->max_size) {\n",
        "\tunsigned int len = qdisc_pkt_len(skb);\n\tint ret;\n\n"
        "\tif (q->is_line) /* mprun: netem does the same */\n"
        "\t\tskb_orphan_partial(skb);\n"
        "\tif (qdisc_pkt_len(skb) > q->max_size) {\n",
        "a frame in a link's queue does not count against its sender's socket",
    ),
    Hook(
        "net/sched/sch_tbf.c",
        "\tskb = q->qdisc->ops->peek(q->qdisc);\n\n\tif (skb) {\n",
        "\tif (q->is_line || q->line.frame) /* mprun */\n"
        "\t\treturn mprun_line_dequeue(&q->line, sch, q->qdisc, &q->rate, &q->watchdog);\n"
        "\tskb = q->qdisc->ops->peek(q->qdisc);\n\n\tif (skb) {\n",
        "links send bit by bit",
    ),
    Hook(
        "net/sched/sch_tbf.c",
        "\tqdisc_reset(q->qdisc);\n",
        "\tqdisc_reset(q->qdisc);\n\tmprun_line_reset(&q->line); /* mprun */\n",
        "links send bit by bit",
    ),
    Hook(
        "net/sched/sch_tbf.c",
        "#include <net/netlink.h>\n",
        "#include <net/netlink.h>\n#include <net/sock.h>\n#include <linux/mprun.h> /* mprun */\n",
        "declaration of the above",
    ),
    Hook(
        "net/sched/sch_tbf.c",
        "\tu64 rate64 = 0, prate64 = 0;\n",
        "\tu64 rate64 = 0, prate64 = 0;\n\tbool changes = false; /* mprun */\n",
        "variable of the above",
    ),
    Hook(
        "net/sched/sch_netem.c",
        "\t\tq->counter = 0;\n\n\t\t__qdisc_enqueue_head(skb, &sch->q);\n",
        "\t\tq->counter = 0;\n\n\t\ttfifo_enqueue(skb, sch); /* mprun */\n",
        "reordered packets pass the rate stage like other packets",
    ),
    Hook(
        "net/sched/sch_netem.c",
        "\trnd = get_crandom(state, prng);\n\n\t/* default uniform distribution */\n",
        "\tif (state && state->rho) { /* mprun */\n"
        "\t\trnd = mprun_correlated(state->rho, (s32 *)&state->last, &prng->prng_state);\n"
        "\t\tif (!dist)\n"
        "\t\t\treturn (s64)(((u64)rnd * (2 * (u32)sigma)) >> 32) + mu - sigma;\n"
        "\t\trnd = ((u64)rnd * dist->size) >> 32;\n"
        "\t} else {\n"
        "\t\trnd = get_crandom(state, prng);\n"
        "\t}\n\n"
        "\t/* default uniform distribution */\n",
        "delays with the requested correlation and spread",
    ),
    Hook(
        "net/sched/sch_netem.c",
        "#include <linux/reciprocal_div.h>\n",
        "#include <linux/reciprocal_div.h>\n#include <linux/mprun.h> /* mprun */\n",
        "declaration of the above",
    ),
    Hook(
        "kernel/trace/trace_clock.c",
        "\tclock = sched_clock();\n",
        "\tclock = mprun_trace_ns(); /* mprun */\n",
        "trace events have the simulated time, and do not advance it",
    ),
    Hook(
        "kernel/trace/trace_clock.c",
        "#include <linux/trace_clock.h>\n",
        "#include <linux/trace_clock.h>\n#include <linux/mprun.h> /* mprun */\n",
        "declaration of the above",
    ),
    Hook(
        "kernel/trace/trace.c",
        "\treturn !(tr->flags & TRACE_ARRAY_FL_BOOT);\n",
        "\treturn false; /* mprun */\n",
        "trace_printk() records text, which needs no table of formats",
        moved_to="kernel/trace/trace_printk.c",
    ),
    Hook(
        "fs/tracefs/inode.c",
        "\tint err = get_tree_single(fc, tracefs_fill_super);\n",
        "\tint err = mprun_may_trace() ?: get_tree_single(fc, tracefs_fill_super); /* mprun */\n",
        "a program of a run cannot mount the trace events",
    ),
    Hook(
        "fs/tracefs/inode.c",
        "\treturn generic_permission(idmap, inode, mask);\n",
        "\treturn mprun_may_trace() ?: generic_permission(idmap, inode, mask); /* mprun */\n",
        "a program of a run cannot open the trace events through another process",
    ),
    Hook(
        "fs/tracefs/inode.c",
        "#include <linux/tracefs.h>\n",
        "#include <linux/tracefs.h>\n#include <linux/mprun.h> /* mprun */\n",
        "declaration of the above",
    ),
    Hook(
        "fs/hostfs/hostfs_kern.c",
        "\treturn get_tree_nodev(fc, hostfs_fill_super);\n",
        "\treturn mprun_may_mount() ?: get_tree_nodev(fc, hostfs_fill_super); /* mprun */\n",
        "a program of a run cannot mount a directory of the host",
    ),
    Hook(
        "fs/hostfs/hostfs_kern.c",
        "\t.get_tree\t= hostfs_fc_get_tree,\n",
        "\t.get_tree\t= hostfs_fc_get_tree,\n\t.reconfigure\t= mprun_reconfigure, /* mprun */\n",
        "the host's files stay read-only",
    ),
    Hook(
        "fs/hostfs/hostfs_kern.c",
        '#include "hostfs.h"\n',
        '#include "hostfs.h"\n#include <linux/mprun.h> /* mprun */\n',
        "declaration of the above",
    ),
    Hook(
        "fs/hostfs/hostfs_kern.c",
        "\tfd = open_file(name, r, w, append);\n",
        "\tfd = (w ? mprun_may_change(ino->i_sb) : 0) ?: open_file(name, r, w, append); /* mprun */\n",
        "the host's files stay read-only",
    ),
    *(
        Hook(
            "fs/hostfs/hostfs_kern.c",
            f"{result} = {call};\n",
            f"{result} = {question}({what}) ?: {call}; /* mprun */\n",
            "the host's files stay read-only, and new files are limited",
        )
        for result, question, what, call in (
            ("fd", "mprun_may_make", "dentry->d_sb", "file_create(name, mode & 0777)"),
            ("err", "mprun_may_make", "from->d_sb", "link_file(to_name, from_name)"),
            ("err", "mprun_may_change", "dentry->d_sb", "unlink_file(file)"),
            ("err", "mprun_may_make", "dentry->d_sb", "make_symlink(file, to)"),
            ("err", "mprun_may_make", "dentry->d_sb", "do_mkdir(file, mode)"),
            ("err", "mprun_may_change", "dentry->d_sb", "hostfs_do_rmdir(file)"),
            ("err", "mprun_may_make_node", "dentry->d_sb, mode", "do_mknod(name, mode, MAJOR(dev), MINOR(dev))"),
            ("err", "mprun_may_change", "old_dir->i_sb", "rename_file(old_name, new_name)"),
            ("err", "mprun_may_change", "old_dir->i_sb", "rename2_file(old_name, new_name, flags)"),
            ("err", "mprun_may_change", "inode->i_sb", "set_attr(name, &attrs, fd)"),
        )
    ),
    Hook(
        "fs/hostfs/hostfs_kern.c",
        "\terr = setattr_prepare(&nop_mnt_idmap, dentry, attr);\n",
        "\terr = setattr_prepare(&nop_mnt_idmap, dentry, attr) ?: mprun_may_set(inode, attr); /* mprun */\n",
        "files of the host get no set-ID bits and no other owner",
    ),
    Hook(
        "kernel/signal.c",
        "\tif (!si_fromuser(info))\n\t\treturn 0;\n\n\terror = audit_signal_info(sig, t);",
        "\tif (!si_fromuser(info))\n\t\treturn 0;\n\n"
        "\terror = mprun_may_reach(t) ?: audit_signal_info(sig, t); /* mprun */",
        "a program of a run cannot stop or end the agent",
    ),
    Hook(
        "fs/fcntl.c",
        "\tif (WARN_ON_ONCE(!f_owner))\n\t\treturn;\n\n\twrite_lock_irq(&f_owner->lock);\n",
        "\tif (WARN_ON_ONCE(!f_owner) || !mprun_may_own(pid, type)) /* mprun */\n\t\treturn;\n\n"
        "\twrite_lock_irq(&f_owner->lock);\n",
        "a program of a run cannot let a file send signals to the agent",
    ),
    Hook(
        "kernel/ptrace.c",
        "\tif (same_thread_group(task, current))\n\t\treturn 0;\n\trcu_read_lock();\n",
        "\tif (same_thread_group(task, current))\n\t\treturn 0;\n"
        "\tif (mprun_may_reach(task)) /* mprun */\n\t\treturn -EPERM;\n\trcu_read_lock();\n",
        "a program of a run cannot trace the agent, or look into it by /proc",
    ),
    Hook(
        "kernel/sys.c",
        "\tif (current == task)\n\t\treturn 0;\n\n\ttcred = __task_cred(task);\n",
        "\tif (current == task)\n\t\treturn 0;\n"
        "\tif (mprun_may_reach(task)) /* mprun */\n\t\treturn -EPERM;\n\n\ttcred = __task_cred(task);\n",
        "a program of a run cannot limit what the agent may use",
    ),
    Hook(
        "fs/hostfs/hostfs_kern.c",
        "\terr = write_file(FILE_HOSTFS_I(file)->fd, &pos, buffer, copied);\n",
        "\terr = mprun_grow(inode, pos + copied) ?: /* mprun */\n"
        "\t      write_file(FILE_HOSTFS_I(file)->fd, &pos, buffer, copied);\n",
        "the size of a run's files is limited",
        (
            (
                "\terr = write_file(FILE_HOSTFS_I(iocb->ki_filp)->fd, &pos, buffer, copied);\n",
                "\terr = mprun_grow(inode, pos + copied) ?: /* mprun */\n"
                "\t      write_file(FILE_HOSTFS_I(iocb->ki_filp)->fd, &pos, buffer, copied);\n",
            ),
        ),
    ),
    Hook(
        "fs/hostfs/hostfs_kern.c",
        "\tif (attr->ia_valid & ATTR_SIZE) {\n\t\tattrs.ia_valid |= HOSTFS_ATTR_SIZE;\n",
        "\tif (attr->ia_valid & ATTR_SIZE) {\n"
        "\t\terr = mprun_grow(inode, attr->ia_size); /* mprun */\n"
        "\t\tif (err)\n\t\t\treturn err;\n"
        "\t\tattrs.ia_valid |= HOSTFS_ATTR_SIZE;\n",
        "the size of a run's files is limited",
    ),
    Hook(
        "fs/hostfs/hostfs_kern.c",
        "\tif ((attr->ia_valid & ATTR_SIZE) &&\n\t    attr->ia_size != i_size_read(inode))\n"
        "\t\ttruncate_setsize(inode, attr->ia_size);\n",
        "\tif ((attr->ia_valid & ATTR_SIZE) &&\n\t    attr->ia_size != i_size_read(inode)) {\n"
        "\t\tmprun_shrink(inode, attr->ia_size); /* mprun */\n"
        "\t\ttruncate_setsize(inode, attr->ia_size);\n\t}\n",
        "the size of a run's files is limited",
    ),
    Hook(
        "kernel/fork.c",
        "\tif (data_race(nr_threads >= max_threads))\n",
        "\tif (data_race(nr_threads >= max_threads) || mprun_too_many_tasks(nr_threads)) /* mprun */\n",
        "ending a fork bomb",
    ),
    Hook(
        "kernel/fork.c",
        "\tp->pid = pid_nr(pid);\n",
        "\tp->pid = pid_nr(pid);\n\tmprun_born(p, clone_flags & CLONE_THREAD); /* mprun */\n",
        "each process belongs to an entry of the run",
    ),
    Hook(
        "mm/oom_kill.c",
        "\tif (is_global_init(p))\n\t\treturn true;\n\tif (p->flags & PF_KTHREAD)\n\t\treturn true;\n",
        "\tif (is_global_init(p) || mprun_is_spared(p)) /* mprun */\n\t\treturn true;\n"
        "\tif (p->flags & PF_KTHREAD)\n\t\treturn true;\n",
        "ending the process that uses all memory, but never the agent",
    ),
    Hook(
        "mm/oom_kill.c",
        "\tcount_vm_event(OOM_KILL);\n\tmemcg_memory_event_mm(mm, MEMCG_OOM_KILL);\n",
        "\tcount_vm_event(OOM_KILL);\n\tmemcg_memory_event_mm(mm, MEMCG_OOM_KILL);\n"
        "\tmprun_out_of_memory(victim); /* mprun */\n",
        "ending the process that uses all memory, but never the agent",
    ),
    Hook(
        "arch/um/os-Linux/start_up.c",
        "\tpid = fork();\n\tif (pid == 0)\n\t\tptrace_child();\n",
        "\tkernel = os_getpid(); /* mprun */\n\tpid = fork();\n\tif (pid == 0) {\n"
        "\t\tos_set_pdeathsig();\n\t\tif (getppid() != kernel)\n\t\t\texit(1);\n"
        "\t\tptrace_child();\n\t}\n",
        "a kernel that is killed during its start leaves no process",
    ),
    Hook(
        "arch/um/os-Linux/start_up.c",
        "\tint pid, n, status;\n\n\tfflush(stdout);\n",
        "\tint pid, n, status;\n\tint kernel; /* mprun */\n\n\tfflush(stdout);\n",
        "variable of the above",
    ),
    Hook(
        "arch/um/os-Linux/skas/process.c",
        "\tos_set_pdeathsig();\n\n\tptrace(PTRACE_TRACEME, 0, 0, 0);\n",
        "\tos_set_pdeathsig();\n\tif (getppid() != mprun_kernel) /* mprun */\n\t\texit(1);\n\n"
        "\tptrace(PTRACE_TRACEME, 0, 0, 0);\n",
        "a kernel that is killed while it starts a process leaves no process",
        (
            (
                "\tint ret;\n\n\tif (using_seccomp) {\n\t\tinit_data.signal_handler",
                "\tint ret;\n\n\tos_set_pdeathsig(); /* mprun */\n\tif (getppid() != mprun_kernel)\n"
                "\t\texit(1);\n\tif (using_seccomp) {\n\t\tinit_data.signal_handler",
            ),
        ),
    ),
    Hook(
        "arch/um/os-Linux/skas/process.c",
        "\tpid = clone(userspace_tramp, (void *) sp, flags, (void *) stub_stack);\n",
        "\tmprun_kernel = os_getpid(); /* mprun */\n"
        "\tpid = clone(userspace_tramp, (void *) sp, flags, (void *) stub_stack);\n",
        "a kernel that is killed while it starts a process leaves no process",
        (
            (
                "\tmm_id->pid = clone(userspace_tramp, (void *) sp,\n",
                "\tmprun_kernel = os_getpid(); /* mprun */\n\tmm_id->pid = clone(userspace_tramp, (void *) sp,\n",
            ),
        ),
    ),
    Hook(
        "net/sched/Makefile",
        "obj-y\t:= sch_generic.o sch_mq.o\n",
        "obj-y\t:= sch_generic.o sch_mq.o\nobj-y += mprun_jitter.o mprun_line.o # mprun\n",
        "build our files",
    ),
    Hook(
        "include/net/mptcp.h",
        "\tint (*get_subflow)(struct mptcp_sock *msk,\n\t\t\t   struct mptcp_sched_data *data);\n",
        "#define MPRUN_SCHED_DATA /* mprun */\n"
        "\tint (*get_subflow)(struct mptcp_sock *msk,\n\t\t\t   struct mptcp_sched_data *data);\n",
        "schedulers choose in one function here, and in two functions in later trees",
        (
            (
                "\tint (*get_send)(struct mptcp_sock *msk);\n\tint (*get_retrans)(struct mptcp_sock *msk);\n",
                "\tint (*get_send)(struct mptcp_sock *msk);\n"
                "\tint (*get_retrans)(struct mptcp_sock *msk); /* mprun: we go by these */\n",
            ),
        ),
    ),
    Hook(
        "net/mptcp/protocol.h",
        "#include <net/rstreason.h>\n",
        '#include <net/rstreason.h>\n#include "mprun_mptcp.h" /* mprun */\n',
        "state of the schedulers and coupled congestion controls",
    ),
    Hook(
        "net/mptcp/protocol.h",
        "\tstruct mptcp_sched_ops\t*sched;\n",
        "\tstruct mptcp_sched_ops\t*sched;\n\tstruct mprun_msk\tmprun; /* mprun */\n",
        "state of a connection",
    ),
    Hook(
        "net/mptcp/protocol.h",
        "\tu32\tsetsockopt_seq;\n\tu32\tstale_rcv_tstamp;\n",
        "\tu32\tsetsockopt_seq;\n\tstruct mprun_subflow mprun; /* mprun */\n\tu32\tstale_rcv_tstamp;\n",
        "state of a subflow",
    ),
    Hook(
        "net/mptcp/protocol.c",
        "struct mptcp_sendmsg_info {\n"
        "\tint mss_now;\n\tint size_goal;\n\tu16 limit;\n\tu16 sent;\n\tunsigned int flags;\n"
        "\tbool data_lock_held;\n"
        "};\n",
        "/* mprun: struct mptcp_sendmsg_info is in mprun_mptcp.h */\n",
        "definition for a scheduler that pushes data by itself",
    ),
    Hook(
        "net/mptcp/protocol.c",
        "static int mptcp_sendmsg_frag(struct sock *sk, struct sock *ssk,\n",
        "int mptcp_sendmsg_frag(struct sock *sk, struct sock *ssk, /* mprun */\n",
        "definition for a scheduler that pushes data by itself",
    ),
    Hook(
        "net/mptcp/protocol.c",
        "static void mptcp_update_post_push(struct mptcp_sock *msk,\n",
        "void mptcp_update_post_push(struct mptcp_sock *msk, /* mprun */\n",
        "definition for a scheduler that pushes data by itself",
    ),
    Hook(
        "net/mptcp/protocol.c",
        "static void mptcp_set_timeout(struct sock *sk)\n",
        "void mptcp_set_timeout(struct sock *sk) /* mprun */\n",
        "schedulers set the connection's timer as mainline's scheduler does",
    ),
    Hook(
        "net/mptcp/protocol.c",
        "\tint len, copied = 0, err = 0;\n\n\twhile ((dfrag = mptcp_send_head(sk))) {\n"
        "\t\tinfo->sent = dfrag->already_sent;\n"
        "\t\tinfo->limit = dfrag->data_len;\n"
        "\t\tlen = dfrag->data_len - dfrag->already_sent;\n",
        "\tint len, copied = 0, err = 0;\n\n"
        "\tif (mprun_sends_copies(msk)) /* mprun */\n"
        "\t\treturn mprun_push_copies(sk, ssk, info);\n"
        "\twhile ((dfrag = mptcp_send_head(sk))) {\n"
        "\t\tinfo->sent = dfrag->already_sent;\n"
        "\t\tinfo->limit = mprun_push_limit(msk, ssk, dfrag); /* mprun */\n"
        "\t\tlen = info->limit - dfrag->already_sent;\n",
        "a scheduler's choice is valid for its number of segments, not for a whole fragment",
    ),
    Hook(
        "net/mptcp/protocol.c",
        "\t\t\tmptcp_update_post_push(msk, dfrag, ret);\n\t\t}\n\t\tmsk->first_pending = mptcp_send_next(sk);\n",
        "\t\t\tmptcp_update_post_push(msk, dfrag, ret);\n"
        "\t\t\tmprun_pushed(msk, ssk, ret); /* mprun */\n"
        "\t\t}\n"
        "\t\tif (dfrag->already_sent >= dfrag->data_len) /* mprun */\n"
        "\t\t\tmsk->first_pending = mptcp_send_next(sk);\n",
        "a partly sent fragment stays the next one",
        (
            (
                "\t\t\tmptcp_update_post_push(msk, dfrag, ret);\n\t\t}\n"
                "\t\tWRITE_ONCE(msk->first_pending, mptcp_send_next(sk));\n",
                "\t\t\tmptcp_update_post_push(msk, dfrag, ret);\n"
                "\t\t\tmprun_pushed(msk, ssk, ret); /* mprun */\n"
                "\t\t}\n"
                "\t\tif (dfrag->already_sent >= dfrag->data_len) /* mprun */\n"
                "\t\t\tWRITE_ONCE(msk->first_pending, mptcp_send_next(sk));\n",
            ),
        ),
    ),
    Hook(
        "net/mptcp/protocol.c",
        "\twhile (mptcp_send_head(sk) && (push_count > 0)) {\n",
        "\twhile (mprun_to_send(sk) && (push_count > 0)) { /* mprun */\n",
        "copies are sent when there is no new data",
    ),
    Hook(
        "net/mptcp/protocol.c",
        "\twhile (mptcp_send_head(sk) && keep_pushing) {\n",
        "\twhile (mprun_to_send(sk) && keep_pushing) { /* mprun */\n",
        "copies are sent when there is no new data",
    ),
    Hook(
        "net/mptcp/sched.c",
        "\tmptcp_register_scheduler(&mptcp_sched_default);\n",
        "\tmptcp_register_scheduler(&mptcp_sched_default);\n\tmprun_register_schedulers(); /* mprun */\n",
        "registration of our schedulers",
    ),
    Hook(
        "net/mptcp/sched.c",
        "\tif (!sched)\n\t\tsched = &mptcp_sched_default;\n",
        "\tmprun_init_msk(msk); /* mprun */\n\tif (!sched)\n\t\tsched = &mptcp_sched_default;\n",
        "initial state of a connection",
    ),
    Hook(
        "net/mptcp/Makefile",
        "mptcp-y := protocol.o",
        "mptcp-y := mprun_sched.o mprun_redundant.o mprun_balanced.o mprun_blest.o \\\n"
        "\t   mprun_coupled.o mprun_wvegas.o protocol.o",
        "build our files",
    ),
    Hook(
        "arch/um/kernel/Makefile",
        "obj-y += load_file.o\n",
        "obj-y += load_file.o\n"
        "obj-y += mprun_random.o mprun_time.o mprun_clock.o mprun_fp.o "
        "mprun_cost.o mprun_fault.o mprun_seal.o mprun_limit.o mprun_packet.o # mprun\n",
        "build our files",
    ),
)

MPTCP_FILES = (
    *("mprun_mptcp.h", "mprun_sched.h", "mprun_sched.c", "mprun_redundant.c", "mprun_balanced.c", "mprun_blest.c"),
    *("mprun_coupled.h", "mprun_coupled_math.h", "mprun_coupled.c", "mprun_wvegas.c"),
)
# Our file -> its place in the tree.
PLACES = {
    "mprun.h": "include/linux/mprun.h",
    "mprun_random.c": "arch/um/kernel/mprun_random.c",
    "mprun_packet.c": "arch/um/kernel/mprun_packet.c",
    "mprun_time.c": "arch/um/kernel/mprun_time.c",
    "mprun_clock.h": "include/linux/mprun_clock.h",
    "mprun_clock.c": "arch/um/kernel/mprun_clock.c",
    "mprun_vdso.c": "arch/x86/um/vdso/mprun_vdso.c",
    "mprun_cost.c": "arch/um/kernel/mprun_cost.c",
    "mprun_fault.c": "arch/um/kernel/mprun_fault.c",
    "mprun_fp.c": "arch/um/kernel/mprun_fp.c",
    "mprun_seal.c": "arch/um/kernel/mprun_seal.c",
    "mprun_limit.c": "arch/um/kernel/mprun_limit.c",
    "mprun_jitter.c": "net/sched/mprun_jitter.c",
    "mprun_line.c": "net/sched/mprun_line.c",
    **{f"mptcp/{name}": f"net/mptcp/{name}" for name in MPTCP_FILES},
}

# Folders whose code no packet meets. They are compiled with less optimisation, which saves a quarter of the time. An
# IPv4 experiment spends no measurable time in them.
COLD = (
    *("fs", "drivers/base", "drivers/tty", "init", "ipc", "security", "kernel/irq", "kernel/printk", "kernel/trace"),
    *("net/bridge", "net/ethtool", "net/ipv6", "net/llc", "net/802"),
    *("net/netfilter", "net/ipv4/netfilter", "net/ipv6/netfilter", "net/openvswitch", "net/mpls", "net/nsh"),
)
COLD_LINE = "\nsubdir-ccflags-y += -O1 # mprun\n"


def our_files(tree: Path, sources: Path) -> dict[str, bytes]:
    """Return the content of every file that a tree gets from us, by its path in the tree.

    These are the tree's files with the hooks applied, and our files. Raises UnfitTree if a hook does not fit.
    """
    texts: dict[str, str] = {}
    for hook in HOOKS:
        name = _find_place(tree, hook)
        text = texts.get(name) or _read(tree, name)
        texts[name] = hook.apply(text)
    for folder in COLD:
        name = f"{folder}/Makefile"
        texts[name] = _read(tree, name) + COLD_LINE
    placed = {place: (sources / name).read_bytes() for name, place in PLACES.items()}
    return {name: text.encode() for name, text in texts.items()} | placed


def apply_hooks(tree: Path, sources: Path) -> None:
    """Copy our files into `tree` and apply every hook.

    Raises UnfitTree, with nothing changed, if a hook does not fit.
    """
    for name, content in our_files(tree, sources).items():
        (tree / name).write_bytes(content)


def _find_place(tree: Path, hook: Hook) -> str:
    """Return the file with the lines of a hook. Later trees may have them in another file."""
    has_moved = hook.moved_to and (tree / hook.moved_to).exists() and hook.find in _read(tree, hook.moved_to)
    return hook.moved_to if has_moved else hook.file


def _read(tree: Path, name: str) -> str:
    try:
        return read_source(tree, name)
    except OSError as error:
        raise UnfitTree(f"{tree}: no {name} ({error.strerror}): is this a Linux tree?") from error
