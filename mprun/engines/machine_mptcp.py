# SPDX-License-Identifier: Apache-2.0
"""Find out what the MPTCP of this host's kernel can do: schedulers, path managers, limits.

Kernels differ. `net.mptcp.scheduler` came with Linux 6.6, and the list of the schedulers with 6.10. A kernel in between
may accept a name that it does not know and run its default scheduler. Trials happen in temporary namespaces.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from mprun.agent import sysctl
from mprun.engines.agent_process import find_program, run_in_namespace
from mprun.model.capabilities import DEFAULT_SCHEDULER, SchedulerChoice
from mprun.model.spec import Spec

# A name that no scheduler has.
NO_SCHEDULER = "mprun-no-such"
# Linux lists its path managers from 6.16 on. Before, net.mptcp.pm_type (from 5.19 on) chooses between two.
PATH_MANAGERS = "net.mptcp.available_path_managers"
PM_TYPE = "net.mptcp.pm_type"
# The limits that are tried. The kernel refuses what exceeds its own, which is 8 up to 6.18 at least.
MOST_TRIED = 64

_LIMITS = re.compile(r"add_addr_accepted (\d+) subflows (\d+)")


def schedulers_asked(spec: Spec) -> set[str]:
    """Return the schedulers that the hosts of an experiment ask for."""
    return {host.mptcp.scheduler for host in spec.experiment.hosts.values()}


def find_schedulers(asked: Iterable[str] = ()) -> SchedulerChoice:
    """Return the schedulers of this host's kernel. If the kernel lists none, those in `asked` are tried."""
    exists = Path(sysctl.path_of(sysctl.SCHEDULER)).exists()
    return judge_schedulers(exists, sysctl.choices_of(sysctl.SCHEDULER), _takes, asked)


def judge_schedulers(
    has_sysctl: bool, listed: Iterable[str] | None, takes: Callable[[str], bool], asked: Iterable[str]
) -> SchedulerChoice:
    """Return the schedulers that a kernel has.

    - listed: the schedulers in the kernel's list; None if it has no list.
    - takes: a function that tries to set a name.
    - asked: the names to try.
    """
    if not has_sysctl:
        return SchedulerChoice(has_sysctl=False)
    if listed is not None:
        return SchedulerChoice(tuple(listed))
    if takes(NO_SCHEDULER):
        return SchedulerChoice(takes_any_name=True)
    found = (name for name in sorted(set(asked)) if name != DEFAULT_SCHEDULER and takes(name))
    return SchedulerChoice((DEFAULT_SCHEDULER, *found))


def lacking_scheduler(name: str, choice: SchedulerChoice) -> str | None:
    """Return what a kernel lacks to run a scheduler, as the object of "has no"; None if it has the scheduler."""
    if name == DEFAULT_SCHEDULER and not choice.has_sysctl:
        return f"sysctl {sysctl.SCHEDULER}, which came with Linux 6.6"
    if name in choice.names:
        return None
    has = ", ".join(choice.names)
    if not choice.has_sysctl:
        has += f"; {sysctl.SCHEDULER} came with Linux 6.6"
    if choice.takes_any_name:
        has += "; it accepts any name, and runs the default scheduler in its place"
    return f"scheduler '{name}' (it has: {has})"


def _takes(name: str) -> bool:
    """Return whether this kernel accepts a scheduler's name."""
    script = f'printf %s "$1" > {sysctl.path_of(sysctl.SCHEDULER)}'
    return run_in_namespace(["sh", "-c", script, "sh", name]).returncode == 0


def describe_schedulers(choice: SchedulerChoice) -> str:
    """Return the schedulers of a kernel as text for people."""
    if not choice.has_sysctl:
        return f"{DEFAULT_SCHEDULER}, no choice (it came with Linux 6.6)"
    if choice.takes_any_name:
        return f"{DEFAULT_SCHEDULER}; any other name is accepted and ignored"
    return ", ".join(choice.names)


def find_path_managers() -> list[str]:
    """Return the path managers of this host's kernel."""
    try:
        return sysctl.read(PATH_MANAGERS).split()
    except OSError:
        return ["kernel", *(["userspace"] if Path(sysctl.path_of(PM_TYPE)).exists() else [])]


def find_limits() -> tuple[int, int] | None:
    """Return the kernel's largest limits of additional subflows and accepted addresses; None if they are not known.

    Rising values are set one after the other. The last values that the kernel accepted remain.
    """
    rising = [f"mptcp limits set subflows {n} add_addr_accepted {n}" for n in range(MOST_TRIED + 1)]
    argv = [find_program("ip") or "ip", "-force", "-batch", "-"]
    return parse_limits(run_in_namespace(argv, [*rising, "mptcp limits show"]).stdout)


def parse_limits(shown: str) -> tuple[int, int] | None:
    """Return (additional subflows, accepted addresses) from the output of `ip mptcp limits show`."""
    match = _LIMITS.search(shown)
    return (int(match[2]), int(match[1])) if match else None
