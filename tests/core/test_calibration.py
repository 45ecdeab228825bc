# SPDX-License-Identifier: Apache-2.0
"""Calibration: the trains for each link, and the quantities computed from their arrivals."""

from __future__ import annotations

import math
import re
import statistics
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from mprun.cli.calibrate import show_calibration
from mprun.compile import allocate
from mprun.compile.packet_trains import compile_calibration
from mprun.compile.wire import correlate
from mprun.inputs.keys.impairment import JitterEntry
from mprun.inputs.loading import load
from mprun.metrics.calibration import CalibratedQuantity, binomial_interval, judge, say_row
from mprun.model.agent_report import Arrivals, Delays
from mprun.model.capabilities import REFERENCE, Capabilities
from mprun.model.distribution import SHAPES
from mprun.model.network import Network
from mprun.model.plan import Plan, Train
from mprun.model.problem import InputError
from mprun.model.spec import Chance, Distribution, FourState, GilbertElliott

ROOT = Path(__file__).parents[2]
# Where iproute2 keeps the tables of netem's distributions, by distribution and version.
TABLES = (
    "/usr/lib/tc",
    "/usr/share/tc",
    "/usr/lib/x86_64-linux-gnu/tc",
    "/usr/lib/aarch64-linux-gnu/tc",
    "/usr/lib64/tc",
)
# netem divides the values of a table by this (NETEM_DIST_SCALE).
TABLE_SCALE = 8192
REAL = Capabilities(is_simulated=False, timer_slack_ns=250_000)


def calibration_of(folder: Path, link: str, capabilities: Capabilities = REFERENCE) -> tuple[Network, Plan]:
    text = "version: 1\nnodes: {a: {kind: host}, b: {kind: host}}\nlinks:\n"
    (folder / "topo.yaml").write_text(text + f"  - {{name: l, between: [a, b], {link}}}\n")
    spec = load(folder / "topo", None).spec
    network = allocate(spec)
    return network, compile_calibration(spec, network, capabilities)


def arrivals(train: Train, **changes: Any) -> Arrivals:
    """Return the arrivals of a train without loss, evenly spaced over its length."""
    span = (train.count - 1) * train.gap_ns // train.batch
    counts = (train.count, train.count, train.count)
    measured = Arrivals(*counts, Delays(5e6, 5e6, 0.0, 0.0), 5_000_000, 5_000_000 + span, took_ns=span)
    return measured._replace(**changes)


def verdict(folder: Path, link: str, kind: str, simulated: bool = True, **changes: Any) -> dict[str, Any]:
    """Return the row of one quantity in the forward direction for a train that arrives with these changes."""
    network, plan = calibration_of(folder, link, REFERENCE if simulated else REAL)
    train = next(train for train in plan.trains if train.kind == kind)
    (row, *_) = judge(network, [train], [arrivals(train, **changes)], simulated).rows
    return asdict(row)


@pytest.mark.parametrize(
    ("link", "kinds"),
    [
        ("delay: 5ms", ["delay"]),
        ("rate: 10mbit", ["delay", "rate", "queue"]),
        ("rate: 10mbit, loss: 1%", ["delay", "loss", "rate"]),
        ("rate: 10mbit, delay: 5ms, jitter: 1ms", ["delay", "rate"]),
        ("rate: 10mbit, queue: {discipline: codel}", ["delay", "rate"]),
        ("loss: 100%", ["loss"]),
        ("mtu: 9000", []),
    ],
)
def test_trains_of_a_link(tmp_path: Path, link: str, kinds: list[str]) -> None:
    _, plan = calibration_of(tmp_path, link)
    assert [(train.direction, train.kind) for train in plan.trains] == [
        (direction, kind) for direction in ("forward", "reverse") for kind in kinds
    ]


def test_trains_offer_more_than_the_rate_and_enough_to_see_a_loss(tmp_path: Path) -> None:
    _, plan = calibration_of(tmp_path, "rate: 10mbit, loss: 0.5%")
    rate = next(train for train in plan.trains if train.kind == "rate")
    offered = rate.batch * rate.frame_bytes * 8e9 / rate.gap_ns
    assert 0.995 * offered >= 1.1 * 10e6
    loss = next(train for train in plan.trains if train.kind == "loss")
    assert loss.count * 0.005 >= 100
    assert loss.batch * loss.frame_bytes * 8e9 / loss.gap_ns <= 10e6 / 3


def test_in_real_time_a_train_is_bounded(tmp_path: Path) -> None:
    _, plan = calibration_of(tmp_path, "rate: 100kbit, loss: 0.1%", REAL)
    assert all(train.count * train.gap_ns / train.batch <= 10.5e9 for train in plan.trains)


@pytest.mark.parametrize(
    ("simulated", "median", "held"),
    [(True, 5_009_000, True), (True, 5_011_000, False), (False, 5_090_000, True), (False, 5_110_000, False)],
)
def test_delay_is_held_to_its_tolerance(tmp_path: Path, simulated: bool, median: float, held: bool) -> None:
    found = Delays(median, median, 0.0)
    assert verdict(tmp_path, "delay: 5ms", "delay", simulated, delay_ns=found)["held"] is held


@pytest.mark.parametrize(("got", "held"), [(9.89e6, False), (9.91e6, True), (10.09e6, True), (10.11e6, False)])
def test_rate_is_held_to_one_per_cent(tmp_path: Path, got: float, held: bool) -> None:
    _, plan = calibration_of(tmp_path, "rate: 10mbit")
    train = next(train for train in plan.trains if train.kind == "rate")
    span = round((train.count - 1) * train.frame_bytes * 8e9 / got)
    row = verdict(tmp_path, "rate: 10mbit", "rate", first_ns=0, last_ns=span)
    assert row["got"] == pytest.approx(got, rel=1e-6)
    assert row["held"] is held


def test_rate_that_was_not_offered_is_not_told(tmp_path: Path) -> None:
    row = verdict(tmp_path, "rate: 10mbit", "rate", took_ns=10**12)
    assert row["held"] is None
    assert "too little for a measurement" in row["note"]


@pytest.mark.parametrize(("waited", "held"), [(18, False), (19, True), (20, True), (21, True), (22, False)])
def test_queue_is_held_to_one_packet(tmp_path: Path, waited: int, held: bool) -> None:
    row = verdict(tmp_path, "rate: 10mbit, queue: 20packets", "queue", received=waited + 1, took_ns=0)
    assert (row["got"], row["held"]) == (waited, held)


def test_loss_is_held_to_its_binomial_interval(tmp_path: Path) -> None:
    row = verdict(tmp_path, "loss: 1%", "loss")
    assert row["held"] is False
    low, high = row["minimum"], row["maximum"]
    assert low < 0.01 < high
    for share, held in ((low, True), (high, True), (low - 0.0002, False), (high + 0.0002, False)):
        distinct = round(10_000 * (1 - share))
        assert verdict(tmp_path, "loss: 1%", "loss", distinct=distinct)["held"] is held


def test_frames_that_were_not_counted_are_told(tmp_path: Path) -> None:
    row = verdict(tmp_path, "delay: 5ms", "delay", unseen=3)
    assert row["held"] is None
    assert "3 frames" in row["note"]


def test_binomial_interval_is_exact() -> None:
    # ten throws of a fair coin: both tails below 5 % end at 2 and 8 (P(X <= 1) = 1.07 %)
    assert binomial_interval(10, 0.5, 0.9) == (0.2, 0.8)
    assert binomial_interval(1000, 1.0, 0.99) == (1.0, 1.0)


def test_one_row_that_is_off_fails_the_table(tmp_path: Path) -> None:
    network, plan = calibration_of(tmp_path, "delay: 5ms")
    good = judge(network, plan.trains, [arrivals(train) for train in plan.trains], True)
    assert good.to_json()["passed"]
    bad = judge(network, plan.trains, [arrivals(plan.trains[0]), arrivals(plan.trains[1], delay_ns=None)], True)
    assert bad.rows[1].note == "nothing arrived"
    assert bad.rows[1].held is False
    assert not bad.to_json()["passed"]


def test_correlated_loss_has_the_asked_mean_and_correlation() -> None:
    model = correlate(Chance(0.02, 0.3))
    assert model.mean == pytest.approx(0.02)
    assert 1 - model.p - model.r == pytest.approx(0.3)


def test_long_run_loss_of_the_models() -> None:
    assert GilbertElliott(0.01, 0.1).mean == pytest.approx(0.01 / 0.11)
    assert GilbertElliott(0.01, 0.1, 0.5, 0.1).mean == pytest.approx(0.01 / 0.11 * 0.5 + 0.1 / 0.11 * 0.1)
    assert FourState(0.01, 0.99, 0.0, 1.0, 0.0).mean == pytest.approx(0.01)
    assert FourState(0.0, 1.0, 0.0, 1.0, 0.1).mean == pytest.approx(0.1 / 1.1)


def read_table(distribution: str) -> list[float]:
    """Return the values of a table of iproute2, for an amount of 1."""
    found = [path for folder in TABLES if (path := Path(folder, f"{distribution}.dist")).exists()]
    assert found, f"iproute2's {distribution}.dist is in none of {', '.join(TABLES)}"
    lines = found[0].read_text().splitlines()
    return [int(word) / TABLE_SCALE for line in lines if not line.startswith("#") for word in line.split()]


@pytest.mark.parametrize("distribution", ["normal", "pareto", "paretonormal"])
def test_shapes_and_docs_are_those_of_the_tables(distribution: Distribution) -> None:
    """The page and the schema give three digits. The page's range equals the table's range to the digits shown."""
    table = read_table(distribution)
    deviation = statistics.pstdev(table)
    shape = SHAPES[distribution]
    assert shape.deviation == pytest.approx(deviation, abs=1e-4)
    assert shape.mean == pytest.approx(statistics.fmean(table), abs=1e-4)
    assert 0 <= shape.below + min(table) < 1e-4
    assert f"| `{distribution}` | {shape.below:g} amounts |" in (ROOT / "docs/links.md").read_text()
    row = next(
        line for line in (ROOT / "docs/links.md").read_text().splitlines() if line.startswith(f"| `{distribution}`")
    )
    assert f"{deviation:.3f} of the amount" in row
    below, above = (
        float(number) for number in re.findall(r"up to ([\d.]+) amounts below.* and ([\d.]+) above", row)[0]
    )
    assert below == pytest.approx(-min(table), abs=0.05)
    assert above == pytest.approx(max(table), abs=0.05)
    offset = re.findall(r"([\d.]+) amounts below `delay` \|$", row)
    assert -statistics.fmean(table) == pytest.approx(float(offset[0]) if offset else 0.0, abs=0.005)
    if distribution != "normal":
        assert f"{deviation:.3f}" in str(JitterEntry.model_json_schema()["properties"]["amount"]["description"])


@pytest.mark.parametrize(
    ("distribution", "least", "refused"),
    [
        ("uniform", "5ms", "4999us"),
        ("normal", "20ms", "19999us"),
        ("pareto", "3334us", "3333us"),
        ("paretonormal", "7511us", "7510us"),
    ],
)
def test_a_jitter_that_netem_would_cut_off_is_refused(
    tmp_path: Path, distribution: str, least: str, refused: str
) -> None:
    jitter = f"jitter: {{amount: 5ms, distribution: {distribution}}}"
    calibration_of(tmp_path, f"delay: {least}, {jitter}")
    with pytest.raises(InputError, match="nothing arrives before it was sent"):
        calibration_of(tmp_path, f"delay: {refused}, {jitter}")
    with pytest.raises(InputError, match="nothing arrives before it was sent"):
        calibration_of(tmp_path, f"delay: 30ms, {jitter}}}\nevents:\n  - {{at: 1s, link: l, set: {{delay: {refused}}}")


@pytest.mark.parametrize(("mean_ms", "held"), [(20.2, True), (19.8, True), (20.39, False), (19.61, False)])
def test_the_mean_of_a_jitter_is_held_to_its_standard_error(tmp_path: Path, mean_ms: float, held: bool) -> None:
    """The standard error of the mean of 8000 delays is 5 ms / sqrt(8000), and four of these errors are 0.22 ms."""
    link = "delay: 20ms, jitter: {amount: 5ms, distribution: normal}"
    row = verdict(tmp_path, link, "delay", delay_ns=Delays(20e6, mean_ms * 1e6, 5e6))
    assert (row["quantity"], row["held"]) == ("delay", held)
    assert row["basis"] == "mean of normal, amount 5 ms"


@pytest.mark.parametrize(("distribution", "share"), [("uniform", 1 / math.sqrt(3)), ("pareto", 0.8197)])
def test_jitter_is_told_as_a_standard_deviation(tmp_path: Path, distribution: str, share: float) -> None:
    """Requested and measured values are standard deviations.

    3 ms of jitter are 1.732 ms if uniform, and 2.459 ms if pareto.
    """
    link = f"delay: 20ms, jitter: {{amount: 3ms, distribution: {distribution}}}"
    network, plan = calibration_of(tmp_path, link)
    train = next(train for train in plan.trains if train.kind == "delay")
    deviation = 1.02 * share * 3e6
    found = Delays(20e6, 20e6, deviation)
    rows = judge(network, [train], [arrivals(train, delay_ns=found)], True).rows
    (row,) = (row for row in rows if row.quantity == "jitter")
    assert row.asked == pytest.approx(share * 3e-3)
    assert row.got == pytest.approx(deviation / 1e9)
    assert row.held
    assert row.basis == f"standard deviation of {distribution}, amount 3 ms"
    assert say_row(row).startswith(f"jitter (standard deviation of {distribution}, amount 3 ms): asked ")


def test_the_table_shows_the_digits_of_a_small_loss(capsys: pytest.CaptureFixture[str]) -> None:
    show_calibration([CalibratedQuantity("wifi", "forward", "loss", "share", 0.002488, 0.0021127, 0.002, 0.003, True)])
    assert "0.2488 %        0.2113 %    -15.084 %" in capsys.readouterr().out
