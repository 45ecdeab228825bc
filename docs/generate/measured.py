# SPDX-License-Identifier: Apache-2.0
"""The page in front of the measured pages: each claim with its largest difference, as the measured pages have it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from docs.generate.markdown import LICENSE, table

FOLDER = Path(__file__).parents[1] / "measured"
STUDIES = ("openflow_topologies", "classroom", "short_flows", "sctp_and_mptcp")
COUPLED = ("lia", "olia", "balia")


def page() -> str:
    """Return the page. Raises ValueError if a measured page does not have the expected form."""
    rows = [
        ("Links have the configured rate, delay and loss", *_links(), "`make fidelity`"),
        ("Networks behave as arithmetic and the RFCs say", *_physics(), "`make physics`"),
        ("A run repeats exactly, also with programs of other people", *_programs(), "`make soak`"),
        ("MPTCP survives hours of failing paths", *_soak(), "`make soak`"),
        ("Coupled congestion control leaves TCP its share", *_fairness(), "`make fairness`"),
        ("Runs agree with a simulator, and fast links cost less", *_speed(), "`make simulator`"),
        ("QUIC libraries interoperate, or fail for a known reason", *_interop(), "`make interop`"),
        ("Published results are repeated, or differ for a known reason", *_studies(), "the commands of each table"),
        ("Findings repeat to the last digit", *_findings(), "the commands of each finding"),
    ]
    return "".join(
        [
            LICENSE,
            "# Can I trust the numbers?\n\n"
            "The pages of this folder compare mprun with something that is not mprun: formulas, a simulator, published "
            "figures, or the same run once more. Programs of `benchmarks` measure the figures, and this table quotes "
            "them.\n\n",
            table(("claim", "how it is measured", "largest difference", "measure it again"), rows),
            "\n[Intervals](intervals.md) shows how often an interval of confidence contains the true mean. "
            "[Speed](speed.md) also has the costs of a network, a hop, a sample and a stop; `make bench` measures "
            "them.\n\n"
            "What these pages do not show:\n\n"
            "- Computing takes no simulated time. [Concepts](../concepts.md#which-engine-to-trust) says which engine "
            "to trust for which question.\n"
            "- In simulated time, one run shows that something changed. How much it changed needs repetitions with "
            "other seeds ([statistics](../statistics.md)).\n"
            "- Your own network may be outside the measured ranges. `calibrate: true` measures the links of your run "
            "([links](../links.md)), and `mprun verify` repeats it.\n"
            "\n:::{toctree}\n:hidden:\n\n"
            "physics\nfidelity\nprograms\nsoak\nfairness\nspeed\ninterop\nfaults\nintervals\ninstallations\nfindings\nstudies/index\n:::\n",
        ]
    )


def _text(name: str) -> str:
    return (FOLDER / f"{name}.md").read_text(encoding="utf-8")


def _rows(name: str, columns: int) -> Iterator[list[str]]:
    """Yield the cells of each row with this number of columns, without heads and rules."""
    body = False
    for line in _text(name).splitlines():
        cells = [cell.strip() for cell in line.removeprefix("|").removesuffix("|").split("|")]
        if not line.startswith("|"):
            body = False
        elif set(line) <= set("|-: "):
            body = True
        elif body and len(cells) == columns:
            yield cells


def _sentence(name: str, pattern: str) -> str:
    found = re.search(pattern, _text(name))
    if found is None:
        raise ValueError(f"{name}.md has no sentence like '{pattern}'")
    return found[0]


def _percent(cell: str) -> float:
    found = re.match(r"([+-]?[\d.]+) ?%", cell)
    return abs(float(found[1])) if found else 0.0


def _links() -> tuple[str, str]:
    cells = list(_rows("fidelity", 11))
    worst = max(_percent(cell[3]) for cell in cells)
    verdict = _sentence("fidelity", r"All \d+ cells are inside|\d+ of \d+ cells are outside")
    return (
        f"[Fidelity](fidelity.md): {len(cells)} links with other rates, round trips and losses, each alone",
        f"rate: {worst} % of the set rate. {verdict} the tolerances",
    )


def _physics() -> tuple[str, str]:
    figures = [cells for cells in _rows("physics", 7) if cells[0].isdigit()]
    worst = max(figures, key=lambda cells: _percent(cells[4]))
    failed = _sentence("physics", r"\d+ of \d+ cells failed, with \d+ figures in all")
    return (
        "[Physics](physics.md): networks that a seed draws, against closed forms",
        f"{_percent(worst[4])} % ({worst[1]}). {failed}",
    )


def _programs() -> tuple[str, str]:
    rows = list(_rows("programs", 6))
    other = [cells[0] for cells in rows if cells[3] != "yes"]
    wrong = [cells[0] for cells in rows if cells[1:3] != ["yes", "yes"]]
    return (
        f"[Programs](programs.md): {len(rows)} programs run twice, and each captured byte is compared",
        f"{len(rows) - len(wrong)} of {len(rows)} are right; {len(rows) - len(other)} repeat"
        + (f", all but {' and '.join(other)}" if other else ""),
    )


def _soak() -> tuple[str, str]:
    rows = list(_rows("soak", 9))
    return (
        f"[Soak](soak.md): {len(rows)} pairs of a scheduler and a congestion control under failing paths",
        f"{sum(cells[8] != 'none' for cells in rows)} of {len(rows)} have a fault",
    )


def _fairness() -> tuple[str, str]:
    shares: dict[str, list[float]] = {}
    for cells in _rows("fairness", 4):
        if "4 subflows" in cells[0]:
            shares.setdefault(cells[0].split(",")[0], []).append(_percent(cells[3]))
    coupled = [share for name in COUPLED for share in shares[name]]
    return (
        "[Fairness](fairness.md): four subflows beside one connection with TCP, where an equal share is 50 %",
        f"TCP gets {min(coupled)} to {max(coupled)} % beside LIA, OLIA and BALIA, "
        f"and {min(shares['wvegas'])} to {max(shares['wvegas'])} % beside wVegas",
    )


def _speed() -> tuple[str, str]:
    ratios = [float(cells[3]) for cells in _rows("speed", 5) if "links of" in cells[0]]
    goodput = _sentence("speed", r"goodput of the two differs by at most [\d.]+ %").removeprefix("goodput of the two ")
    return (
        "[Speed](speed.md#compared-with-a-simulator): the same networks in ns-3 and in mprun",
        f"goodput {goodput}; CPU time is {min(ratios)} to {max(ratios)} times that of ns-3",
    )


def _interop() -> tuple[str, str]:
    marks = [cell for cells in _rows("interop", 4) for cell in cells[1:] if cell != "-"]
    # a table for each case
    cases = _text("interop").count("\n| client |")
    return (
        f"[QUIC libraries](interop.md): {cases} cases of the interoperability runner, judged by captures",
        f"{marks.count('passed')} of {len(marks)} cells pass",
    )


def _studies() -> tuple[str, str]:
    # a page that `make studies` has not written yet has no column of seeds
    verdicts = Counter(cells[n - 2] for n in (5, 6) for name in STUDIES for cells in _rows(f"studies/{name}", n))
    compared = verdicts["agrees"] + verdicts["differs"] + verdicts["undecided"]
    return (
        "[Studies](studies/index.md): figures of four publications, each with its reason if it differs",
        f"{verdicts['agrees']} of {compared} comparable statements agree, {verdicts['differs']} differ, and "
        f"{verdicts['undecided']} are undecided",
    )


def _findings() -> tuple[str, str]:
    return (
        "[Findings](findings.md): results of the [questions](../questions.md) that simulated time can answer",
        f"none in {sum(line.startswith('## ') for line in _text('findings').splitlines())} findings; a test runs each "
        "command",
    )
