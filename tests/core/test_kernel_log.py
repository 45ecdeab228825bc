# SPDX-License-Identifier: Apache-2.0
"""The log of the experiment kernel: recorded ones of 6.12.117, and the forms of reports that other kernels print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from mprun.kernel.log import KernelMessage, complete, count_lost, find_reports, find_traces, read_console, read_records
from mprun.metrics.kernel_messages import judge_log, tabulate_log

OUTPUTS = Path(__file__).parents[1] / "outputs"
# Time zero of the recorded runs.
ZERO_NS = 5_000_002_304
PLACE = "WARNING: CPU: 0 PID: 27 at mm/util.c:670 __kvmalloc_node_noprof+0x11c/0x120"


def recorded() -> list[KernelMessage]:
    return read_records((OUTPUTS / "kmsg-6.12.117-warning.txt").read_bytes())


def console(name: str) -> str:
    return (OUTPUTS / f"console-6.12.117-{name}.txt").read_text()


def lines(text: str) -> list[KernelMessage]:
    """Return messages of the kernel itself, at one moment."""
    return [KernelMessage(7_000_000, line, "warn", "kernel", n) for n, line in enumerate(text.strip("\n").split("\n"))]


def test_records_have_a_time_a_level_and_an_origin() -> None:
    messages = recorded()
    assert [message.sequence for message in messages] == list(range(113))
    assert (messages[0].at_us, messages[0].level, messages[0].origin) == (0, "notice", "kernel")
    assert messages[0].text.startswith("Linux version 6.12.117-mprun")
    fake = messages[72]
    assert (fake.at_us, fake.level, fake.origin) == (5_500_000, "warn", "program")
    assert messages[74] == KernelMessage(5_500_000, PLACE, "warn", "kernel", 74)


def test_texts_are_decoded_and_made_printable() -> None:
    records = b"6,4,20,-;one\\x0atwo \\xc3\\xa9 \\x1b[31m\\x5c\n SUBSYSTEM=net\n DEVICE=n2\n12,5,30,c;it\n"
    assert read_records(records) == [
        KernelMessage(20, "one", "info", "kernel", 4),
        KernelMessage(20, "two é \ufffd[31m\\", "info", "kernel", 4),
        KernelMessage(30, "it", "warn", "program", 5),
    ]


@pytest.mark.parametrize("records", [b"nothing\n", b"6,1;text\n", b"6,x,3,-;text\n", b"6,1,2,-\n"])
def test_what_is_no_record_is_refused(records: bytes) -> None:
    with pytest.raises(ValueError, match=r"form|invalid literal"):
        read_records(records)


def test_a_recorded_warning_is_a_report_and_that_of_a_program_is_none() -> None:
    messages = recorded()
    (report,) = find_reports(messages)
    assert report.at_us == 5_500_000
    assert report.describe() == f'"{PLACE}" in __kvmalloc_node_noprof()'
    # if the kernel had written the same text, it would be one
    own = [replace(message, origin="kernel") for message in messages]
    assert [one.function for one in find_reports(own)] == ["fake", "__kvmalloc_node_noprof"]
    assert find_traces(messages) == []


def test_a_failure_names_the_first_report_and_counts_them() -> None:
    found = judge_log(complete(recorded(), read_console(console("warning"))), ZERO_NS)
    assert found.failures == (
        f'the kernel reported a fault at 0.50 s: "{PLACE}" in __kvmalloc_node_noprof(); see `mprun show --kernel-log`',
    )
    assert found.warnings == ()
    again = [replace(message, sequence=(message.sequence or 0) + 113) for message in recorded()]
    (failure,) = judge_log([*recorded(), *again], None).failures
    assert failure.startswith('the kernel reported 2 faults, the first at 5.50 s after boot: "WARNING: CPU: 0')


def test_a_calm_kernel_is_no_failure() -> None:
    calm = [message for message in recorded() if (message.sequence or 0) < 72]
    said = console("warning").splitlines(keepends=True)
    assert judge_log(complete(calm, read_console("".join(said[:4] + said[-1:]))), ZERO_NS) == judge_log([], None)


def test_the_console_adds_what_the_log_does_not_have() -> None:
    whole = complete(recorded(), read_console(console("warning")))
    assert whole[:113] == recorded()
    assert whole[113:] == [KernelMessage(5_700_000, "reboot: Power down")]
    # the beginning of the log was overwritten, with the warning
    left = recorded()[-3:]
    assert count_lost(recorded()) == 0
    assert count_lost(left) == 110
    joined = complete(left, read_console(console("warning")))
    assert [message.text for message in joined[:2]] == ["0.00 BogoMIPS (lpj=1)", "check_one_sigio failed, errno = 13"]
    assert joined[-4:-1] == left
    found = judge_log(joined, ZERO_NS)
    assert "110 messages were overwritten" in found.warnings[0]
    assert PLACE in str(find_reports(joined))
    assert found.failures


def test_a_program_cannot_fail_a_run_by_what_it_writes_to_the_console() -> None:
    calm = [message for message in recorded() if (message.sequence or 0) < 72]
    text = console("warning") + "[    9.000000] BUG: KASAN: use-after-free in it+0x1/0x2\nBUG: without a time\n"
    found = judge_log(complete(calm, read_console(text)), ZERO_NS)
    assert not found.failures
    assert found.warnings[0].startswith("only the kernel's console, to which programs can write too, has")


def test_a_panic_is_the_last_report_of_its_console() -> None:
    messages = read_console(console("panic"))
    assert messages[-1].text == "Kernel panic - not syncing: kernel: panic_on_warn set ..."
    assert find_reports(messages)[-1].describe() == f'"{PLACE}" in __kvmalloc_node_noprof()'


def test_a_stack_trace_without_a_report_is_a_warning() -> None:
    messages = read_console(console("no-memory"))
    assert find_reports(messages) == []
    (trace,) = find_traces(messages)
    assert trace.startswith("python3 invoked oom-killer: gfp_mask=")
    assert judge_log(messages, None).warnings == (
        f"the kernel printed a stack trace: {trace}; see `mprun show --kernel-log`",
    )


# As the sources of Linux 6.12 print them: kernel/panic.c, lib/refcount.c, kernel/locking/lockdep.c, mm/kasan/report.c,
# kernel/rcu/tree_stall.h, kernel/sched/core.c, mm/slub.c, lib/ubsan.c, mm/kmemleak.c; and lib/bug.c of 7.3.
REFCOUNT = """
------------[ cut here ]------------
WARNING: CPU: 0 PID: 40 at lib/refcount.c:28 refcount_warn_saturate+0x9d/0xd6
refcount_t: underflow; use-after-free.
CPU: 0 UID: 0 PID: 40 Comm: iperf3 Not tainted 6.12.117-mprun #1
Stack:
 00000000 60b3fb50 605b5e3c 600702b5
Call Trace:
 [<6049b767>] ? __warn.cold+0x3c/0x68
 [<603a1c10>] ? refcount_warn_saturate+0x9d/0xd6
 [<6002e5c0>] ? um_set_signals+0x0/0x60
 [<603f2d40>] ? mptcp_close_ssk+0x51/0x1a0
 [<603f3000>] ? mptcp_worker+0x200/0x2b0
---[ end trace 0000000000000000 ]---
"""
TRAPPED = """
------------[ cut here ]------------
refcount_t: addition on 0; use-after-free.
WARNING: lib/refcount.c:25 at refcount_warn_saturate+0x9d/0xd6, CPU#0: iperf3/40
Call Trace:
 <TASK>
 tcp_v4_rcv+0x10/0x20
---[ end trace 0000000000000000 ]---
"""
CIRCULAR = """
======================================================
WARNING: possible circular locking dependency detected
6.12.117-mprun #1 Not tainted
------------------------------------------------------
iperf3/40 is trying to acquire lock:
0000000060a1f2c8 (&msk->pm.lock){+.-.}-{2:2}, at: mptcp_pm_close_subflow+0x31/0x70

but task is already holding lock:
0000000060a1f1b8 (sk_lock-AF_INET){+.+.}-{0:0}, at: mptcp_close+0x1f/0x70

the existing dependency chain (in reverse order) is:

-> #1 (sk_lock-AF_INET){+.+.}-{0:0}:
       lock_acquire+0xb8/0x2d0
       lock_sock_nested+0x33/0x60

stack backtrace:
CPU: 0 UID: 0 PID: 40 Comm: iperf3 Not tainted 6.12.117-mprun #1
Call Trace:
 [<604b124c>] ? dump_stack_lvl+0x74/0x84
 [<60083d1c>] ? print_circular_bug+0x2ac/0x2c0
 [<60083f00>] ? check_noncircular+0x12f/0x140
 [<60084a2b>] ? lock_acquire+0xb8/0x2d0
 [<603f2d40>] ? mptcp_pm_close_subflow+0x31/0x70
TCP: eth0: Driver has suspect GRO implementation
"""
INCONSISTENT = CIRCULAR.replace("possible circular locking dependency detected", "inconsistent lock state")
KASAN = """
==================================================================
BUG: KASAN: slab-use-after-free in mptcp_clean_una+0x61/0x210
Read of size 8 at addr 0000000062a31488 by task iperf3/40

CPU: 0 UID: 0 PID: 40 Comm: iperf3 Not tainted 6.12.117-mprun #1
Call Trace:
 [<600f3a10>] ? kasan_report+0xd2/0x110
 [<603f2d40>] ? mptcp_clean_una+0x61/0x210

Allocated by task 40:
 kasan_save_stack+0x20/0x40
==================================================================
"""
# The first of two reports of 6.12.117 on a scheduler of the user that loses an object, without its last lines.
LEAK = """
kmemleak: unreferenced object 0x65a28c00 (size 128):
kmemleak:   comm "iperf3", pid 31, jiffies 4294937696
kmemleak:   hex dump (first 32 bytes):
kmemleak:     01 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00  ................
kmemleak:     00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00  ................
kmemleak:   backtrace (crc c357fb3c):
kmemleak:     save_stack_trace+0x83/0xc0
kmemleak:     stack_trace_save+0x83/0xa0
kmemleak:     set_track_prepare+0x32/0x60
kmemleak:     __alloc_object+0x141/0x300
kmemleak:     __create_object+0x2b/0x100
kmemleak:     kmemleak_alloc+0x31/0x40
kmemleak:     __kmalloc_cache_noprof+0x2fc/0x3b0
kmemleak:     prepare+0x54/0xf0
kmemleak:     mptcp_init_sched+0x7a/0xa0
kmemleak:     mptcp_init_sock+0x1cf/0x630
"""
STALL = """
rcu: INFO: rcu_sched self-detected stall on CPU
rcu: \t0-....: (2100 ticks this GP) idle=3a04/1/0x40000002 softirq=118/122 fqs=1050
rcu: \t(t=2100 jiffies g=-1055 q=60 ncpus=1)
CPU: 0 UID: 0 PID: 40 Comm: iperf3 Not tainted 6.12.117-mprun #1
Call Trace:
 [<603f2d40>] ? mptcp_worker+0x61/0x210
"""
OOPS = """
BUG: kernel NULL pointer dereference, address: 0000000000000010
Oops: Oops: 0000 [#1]
CPU: 0 UID: 0 PID: 40 Comm: iperf3 Not tainted 6.12.117-mprun #1
RIP: 0010:mptcp_sendmsg+0x10/0x20
Call Trace:
 mptcp_sendmsg+0x10/0x20
---[ end trace 0000000000000000 ]---
Kernel panic - not syncing: Fatal exception in interrupt
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            REFCOUNT,
            '"WARNING: CPU: 0 PID: 40 at lib/refcount.c:28 refcount_warn_saturate+0x9d/0xd6: '
            'refcount_t: underflow; use-after-free." in mptcp_close_ssk()',
        ),
        (
            TRAPPED,
            '"WARNING: lib/refcount.c:25 at refcount_warn_saturate+0x9d/0xd6, CPU#0: iperf3/40: '
            'refcount_t: addition on 0; use-after-free." in tcp_v4_rcv()',
        ),
        (CIRCULAR, '"WARNING: possible circular locking dependency detected" in mptcp_pm_close_subflow()'),
        (INCONSISTENT, '"WARNING: inconsistent lock state" in mptcp_pm_close_subflow()'),
        (KASAN, '"BUG: KASAN: slab-use-after-free in mptcp_clean_una+0x61/0x210" in mptcp_clean_una()'),
        (LEAK, '"kmemleak: unreferenced object 0x65a28c00 (size 128):" in prepare()'),
        (STALL, '"rcu: INFO: rcu_sched self-detected stall on CPU" in mptcp_worker()'),
        (OOPS, '"BUG: kernel NULL pointer dereference, address: 0000000000000010" in mptcp_sendmsg()'),
        (OOPS.replace("BUG: kernel NULL", "at NULL"), '"Oops: Oops: 0000 [#1]" in mptcp_sendmsg()'),
        ("BUG: failure at net/mptcp/pm.c:12/mptcp_pm_nl()!\nKernel panic - not syncing: BUG!", None),
        ("BUG: sleeping function called from invalid context at kernel/locking/mutex.c:580", None),
        ("BUG kmalloc-32 (Not tainted): Poison overwritten", None),
        ("UBSAN: array-index-out-of-bounds in net/mptcp/pm.c:12:3", None),
        ("INFO: task kworker/0:1:12 blocked for more than 120 seconds.", None),
        ("Kernel panic - not syncing: Kernel mode fault at addr 0x0, ip 0x603f2d40", None),
    ],
)
def test_each_kind_of_report_counts_once(text: str, said: str | None) -> None:
    (report,) = find_reports(lines(text))
    assert find_traces(lines(text)) == []
    if said is None:
        assert text.startswith(report.text)
    else:
        assert report.describe() == said
    assert len(find_reports(lines(f"{text}\n{text}"))) == 2 or report.text.startswith("Kernel panic")


def test_a_number_of_leaks_is_a_report_only_without_the_leaks() -> None:
    number = "kmemleak: 2 new suspected memory leaks (see /sys/kernel/debug/kmemleak)"
    assert len(find_reports(lines(f"{LEAK}{LEAK}{number}"))) == 2
    (report,) = find_reports(lines(number))
    assert report.text == number


def test_the_function_of_a_bug_is_that_of_its_first_line() -> None:
    (report,) = find_reports(lines("BUG: failure at net/mptcp/pm.c:12/mptcp_pm_nl()!"))
    assert report.function == "mptcp_pm_nl"


@pytest.mark.parametrize(
    "text",
    [
        "TCP: request_sock_TCP: Possible SYN flooding on port 10.0.0.1:80. Sending cookies.",
        "INFO: lockdep is turned off.",
        "rcu: INFO: Preemptible hierarchical RCU implementation.",
        "netlink: 4 bytes leftover after parsing attributes in process `x'.",
        "the DEBUG: of a driver",
    ],
)
def test_other_messages_are_no_reports(text: str) -> None:
    assert find_reports(lines(text)) == []


def rows(messages: Sequence[KernelMessage], zero_ns: int | None) -> list[dict[str, object]]:
    (table,) = tabulate_log(messages, zero_ns).values()
    return table.to_dicts()


def test_the_table_counts_from_time_zero() -> None:
    messages = [KernelMessage(5_500_000, "one", "info", "kernel", 3), KernelMessage(None, "other")]
    first = {"sequence": 3, "level": "info", "origin": "kernel", "text": "one"}
    assert rows(messages, ZERO_NS)[0] == {"time_ns": 499_997_696, **first}
    assert rows(messages, None)[0] == {"time_ns": 5_500_000_000, **first}
    assert rows(messages, None)[1] == {**dict.fromkeys(first), "time_ns": None, "text": "other"}
    assert tabulate_log([], None) == {}
