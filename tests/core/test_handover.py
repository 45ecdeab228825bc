# SPDX-License-Identifier: Apache-2.0
"""Path failures, and the time that a connection's data needs to recover from them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mprun.metrics.flow import tell_dead
from mprun.metrics.handover import Handover, explain_handover, find_handover, find_handover_of
from mprun.metrics.observation import DataProgress
from mprun.model.intent.failure import PathFailure, find_failures, find_watches
from mprun.model.spec import AddressChange, Chance, Change, Direction, GilbertElliott, LinkChange, Loss
from mprun.workloads.tool import Movement
from tests.intents import flow, intent, path

MS = 1_000_000
SECOND = 1_000_000_000
FLOW = flow([path(name, [name, "server0"]) for name in ("path0", "path1")])


def link(at_s: float, name: str, loss: Loss | None = None, is_up: bool = True) -> LinkChange:
    return LinkChange(int(at_s * SECOND), name, Direction(), Direction(loss=loss), is_up)


def address(at_s: float, host: str, name: str, is_there: bool) -> AddressChange:
    return AddressChange(int(at_s * SECOND), host, name, is_there)


ALL, HALF, BURSTS = Chance(1), Chance(0.5), GilbertElliott(1, 0)


@pytest.mark.parametrize(
    ("changes", "failures"),
    [
        ([link(3, "path0", ALL)], [("path0", 3, None)]),
        ([link(3, "path0", HALF), link(4, "path0", BURSTS)], []),
        ([link(3, "path1", is_up=False), link(5, "path1")], [("path1", 3, 5)]),
        ([link(3, "server0", ALL)], [("path0", 3, None), ("path1", 3, None)]),
        ([address(2, "client", "path0", False), address(4, "client", "path0", True)], [("path0", 2, 4)]),
        ([address(2, "stranger", "path0", False)], []),
        # two causes: the path works again when both are gone
        (
            [link(1, "path0", ALL), link(2, "server0", ALL), link(3, "path0"), link(4, "server0")],
            [("path0", 1, 4), ("path1", 2, 4)],
        ),
    ],
)
def test_failures_of_paths(changes: list[Change], failures: list[tuple[str, float, float | None]]) -> None:
    found = find_failures(FLOW, changes)
    assert found == tuple(
        PathFailure(p, int(b * SECOND), None if e is None else int(e * SECOND)) for p, b, e in failures
    )


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            [link(1, "path0", is_up=False), link(2, "path1", is_up=False)],
            "; none of its paths has carried packets since 2s: let the flow end before, or restore one by an event",
        ),
        (
            [link(0, "server0", ALL)],
            "; none of its paths has carried packets since 0s: let the flow end before, or restore one by an event",
        ),
        (
            [link(0, "path0", ALL)],
            "; 'path0', over which it connects, carried no packets when it began: list another path first",
        ),
        ([link(1, "path0", ALL)], ""),
        ([link(0, "path1", ALL)], ""),
        ([link(0, "path0", ALL), link(5, "path0")], ""),
    ],
)
def test_paths_without_which_a_flow_cannot_end(changes: list[Change], text: str) -> None:
    assert tell_dead(FLOW, changes, 0) == text


def test_plain_tcp_cannot_end_without_its_own_path() -> None:
    changes = [link(1, "path0", ALL)]
    told = tell_dead(replace(FLOW, protocol="tcp"), changes, 0)
    lasts = "; 'path0', its only path, has not carried packets since 1s"
    assert told == f"{lasts}: let the flow end before, or restore it by an event"


def test_watches_last_ten_seconds_at_most_and_do_not_overlap() -> None:
    changes = [
        link(1, "path0", ALL),
        link(3, "path1", ALL),
        link(40, "path0"),
        link(41, "path0", ALL),
        link(43, "path0"),
    ]
    plain = replace(FLOW, protocol="tcp")
    both = intent(traffic=(FLOW, plain), changes=tuple(changes))
    assert find_watches(both) == ((SECOND, 13 * SECOND), (41 * SECOND, 43 * SECOND))
    assert find_watches(replace(both, traffic=(plain,))) == ()
    often = [change for at in range(0, 900, 9) for change in (link(at, "path0", ALL), link(at + 7, "path0"))]
    watches = find_watches(intent(traffic=(FLOW,), changes=tuple(often)))
    assert len(watches) == 9
    assert sum(end - begin for begin, end in watches) == 60 * SECOND


def sampled(*progress_ms: int, until_ms: int, idle_ms: range = range(0)) -> list[DataProgress]:
    """Return samples every 10 ms. Data grows just before the given moments. An end waits unless it is idle."""
    moments = range(0, until_ms + 1, 10)
    return [DataProgress(at * MS, sum(moment <= at for moment in progress_ms), at not in idle_ms) for at in moments]


@pytest.mark.parametrize(
    ("progress_ms", "handover"),
    [
        # no interruption: the data uses the other path
        (range(0, 2000, 10), Handover(10 * MS, 0, True)),
        # one time-out, then the data flows
        ([*range(0, 100, 10), *range(600, 2000, 10)], Handover(510 * MS, 600 * MS, True)),
        # chunk by chunk, then the data flows
        ([50, 450, 700, 950, *range(1200, 2000, 10)], Handover(400 * MS, 1200 * MS, True)),
        # chunk by chunk, to the end
        ([50, 450, 700, 950], Handover(1050 * MS, 2000 * MS, False)),
        # never
        ([], Handover(2000 * MS, 2000 * MS, False)),
    ],
)
def test_handover(progress_ms: Any, handover: Handover) -> None:
    receiver = sampled(*progress_ms, until_ms=2000)
    sender = sampled(until_ms=2000)
    assert find_handover(sender, receiver, 0, 2000 * MS) == handover
    assert find_handover(receiver, sender, 0, 2000 * MS) == handover
    # behind a NAT the other end may be unknown
    assert find_handover(receiver, [], 0, 2000 * MS) == handover


def test_who_has_nothing_to_send_does_not_stand_still() -> None:
    ends = sampled(300, until_ms=2000, idle_ms=range(300, 2010)), sampled(until_ms=2000, idle_ms=range(0, 2010))
    assert find_handover(*ends, 0, 2000 * MS) == Handover(300 * MS, 300 * MS, True)
    # an end that is idle first and then waits in vain stands still from then on
    ends = sampled(until_ms=2000, idle_ms=range(0, 1500)), sampled(until_ms=2000, idle_ms=range(0, 2010))
    assert find_handover(*ends, 0, 2000 * MS) == Handover(500 * MS, 2000 * MS, False)


def test_only_the_span_counts() -> None:
    ends = sampled(*range(0, 500, 10), *range(900, 3000, 10), until_ms=3000), sampled(until_ms=3000)
    assert find_handover(*ends, 1000 * MS, 2000 * MS) == Handover(10 * MS, 0, True)
    assert find_handover(*ends, 400 * MS, 2000 * MS) == Handover(410 * MS, 500 * MS, True)
    assert find_handover(ends[0][:1], [], 0, 2000 * MS) is None


@pytest.mark.parametrize(
    ("standstills_ms", "ended_ms", "handover"),
    [
        # no standstill in the span: earlier and later ones do not count
        ([(500, 900), (2100, 2600)], 3000, Handover(0, 0, True)),
        # a standstill that began before the failure counts from the failure; a very short one does not count
        ([(900, 1300), (1600, 1650)], 3000, Handover(300 * MS, 300 * MS, True)),
        ([(1000, 1300), (1400, 1700), (1950, 2000)], 3000, Handover(300 * MS, 700 * MS, True)),
        # a standstill longer than the span
        ([(1100, 2600)], 3000, Handover(900 * MS, 1000 * MS, False)),
        # a standstill until the end of the flow
        ([(1100, 1800)], 1800, Handover(700 * MS, 800 * MS, False)),
        ([], 900, None),
    ],
)
def test_handover_of_known_standstills(
    standstills_ms: list[tuple[int, int]], ended_ms: int, handover: Handover | None
) -> None:
    spans = [(since * MS, until * MS) for since, until in standstills_ms]
    assert find_handover_of(Movement(0, ended_ms * MS, spans), 1000 * MS, 2000 * MS) == handover


@pytest.mark.parametrize(
    ("time_ms", "is_over", "backups", "stale", "scheduler", "said"),
    [
        (999, True, ["path1"], None, "default", None),
        (1120, True, ["path1"], None, "default", "for 1.12 s: a subflow counts as stale after 4 of them in a row"),
        (
            5240,
            True,
            ["path1"],
            "20",
            "default",
            "(net.mptcp.stale_loss_cnt=20 of 'server', which sends), and until then backup path1 gets only",
        ),
        (1120, True, ["path1"], "1", "default", None),
        (
            900,
            False,
            ["path1"],
            "0",
            "default",
            "still did when it was last looked at: with net.mptcp.stale_loss_cnt=0",
        ),
        (5000, True, ["path0"], None, "default", "others get only what timers send again"),
        (1120, True, ["path1"], None, "lowest-rtt", None),
        (900, False, ["path1"], "0", "lowest-rtt", "for 0.90 s, and still did when it was last looked at"),
    ],
)
def test_a_late_handover_names_its_cause(
    time_ms: int, is_over: bool, backups: list[str], stale: str | None, scheduler: str, said: str | None
) -> None:
    text = explain_handover("path0", time_ms * MS, is_over, backups, stale, scheduler, "server")
    assert (text is None) == (said is None)
    assert said is None or (text is not None and said in text)
