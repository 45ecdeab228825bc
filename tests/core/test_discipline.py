# SPDX-License-Identifier: Apache-2.0
"""The table of queueing disciplines: files, commands, read-back, intents and kernels agree with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mprun.agent.readback import differences_tc
from mprun.compile import allocate
from mprun.compile.change import plan_changes
from mprun.compile.wire import spell_discipline
from mprun.inputs.loading import load
from mprun.inputs.writer import write_topology
from mprun.kernel.recipe import FRAGMENT, LATER_OPTIONS
from mprun.model.capabilities import REFERENCE
from mprun.model.codec import JsonProblem
from mprun.model.discipline import DISCIPLINES, TYPES, DisciplineName, OptionKind
from mprun.model.intent.intent_file import CODEC
from mprun.model.spec import Queue

# A value of each kind as a file has it, and in base units.
WRITTEN: dict[OptionKind, tuple[object, bool | int | float]] = {
    "flag": (True, True),
    "count": (7, 7),
    "ns": ("5ms", 5_000_000),
    "bytes": ("9000bytes", 9000),
    "share": ("25%", 0.25),
}
# `max` must be above `min`.
LARGER = {"max": ("20000bytes", 20_000)}


def queue_of(folder: Path, name: DisciplineName) -> Queue:
    """Return the queue of a file with every option of a discipline."""
    counts = DISCIPLINES[name].counts
    entry: dict[str, object] = {"discipline": name, "limit": "64kb" if counts == "bytes" else "80packets"}
    entry |= {key: LARGER.get(key, WRITTEN[one.kind])[0] for key, one in DISCIPLINES[name].options.items()}
    link = {"name": "l", "between": ["a", "b"], "rate": "10mbit", "queue": entry}
    nodes = {"a": {"kind": "host"}, "b": {"kind": "host"}}
    (folder / "topo.yaml").write_text(json.dumps({"version": 1, "nodes": nodes, "links": [link]}))
    queue = load(folder / "topo", None).spec.topology.links[0].forward.queue
    assert queue is not None
    return queue


@pytest.mark.parametrize("name", DISCIPLINES)
def test_an_option_keeps_its_type(tmp_path: Path, name: DisciplineName) -> None:
    """The types are the same in a file, in its resolved form and in an intent, which has floats."""
    queue = queue_of(tmp_path, name)
    known = DISCIPLINES[name].options
    assert queue.options == {key: LARGER.get(key, WRITTEN[one.kind])[1] for key, one in known.items()}
    resolved = tmp_path / "resolved.yaml"
    resolved.write_text(write_topology(load(tmp_path / "topo", None).spec.topology))
    written = json.loads(json.dumps(CODEC.encode(queue)))
    assert all(type(number) is float for _, number in written["options"])
    for same in (load(resolved, None).spec.topology.links[0].forward.queue, CODEC.decode(Queue, written)):
        assert same == queue
        assert type(same.amount) is int
        assert [type(one) for one in same.options.values()] == [TYPES.get(known[key].kind, int) for key in same.options]


@pytest.mark.parametrize("options", [None, {}, [["ecn"]], [["ecn", "yes"]], [[1, 1.0]], [["flows", float("inf")]]])
def test_options_of_another_form_are_a_fault_of_an_intent(options: object) -> None:
    written = {"amount": 80.0, "unit": "packets", "discipline": "codel", "options": options}
    with pytest.raises(JsonProblem, match=r"^\.options"):
        CODEC.decode(Queue, written)


def show(words: list[str]) -> dict[str, Any]:
    """Return what tc shows of the words of a discipline: whole us, bytes, counts and marks."""
    known = next(one for one in DISCIPLINES.values() if one.kind == words[0])
    options: dict[str, Any] = {}
    rest = iter(words[1:])
    for word in rest:
        kind = known.keywords.get(word)
        if kind == "flag":
            options[word] = True
        elif kind in ("count", "bytes"):
            options[word] = int(next(rest))
        elif kind == "ns":
            text = next(rest)
            assert text.endswith("ms")
            options[word] = int(text[:-2]) * 1000
        else:
            assert word == "noecn" or kind in ("word", "share", "hidden"), word
            if kind != "word" and word != "noecn":
                next(rest)
    return {"kind": words[0], "handle": "100:", "dev": "w0b", "options": options}


@pytest.mark.parametrize("name", DISCIPLINES)
def test_every_option_is_set_and_read_back(tmp_path: Path, name: DisciplineName) -> None:
    queue_of(tmp_path, name)
    queue = allocate(load(tmp_path / "topo", None).spec).links[0].forward.queue
    assert queue is not None
    words = spell_discipline(queue, 10_000_000, 1514)
    assert set(DISCIPLINES[name].options) <= set(words)
    command = "tc qdisc add dev w0b parent 10:1 handle 100:".split() + words
    shown = show(words)
    assert differences_tc([command], [shown]) == []
    for keyword, value in shown["options"].items():
        other = {**shown, "options": {**shown["options"], keyword: not value if value is True else 2 * value + 9}}
        (told,) = differences_tc([command], [other])
        assert told.startswith(f"w0b {words[0]} {keyword}: ")


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("discipline: codel, target: 9ms", "codel limit 80 target 5ms noecn"),
        ("discipline: codel, interval: 9ms, ecn: true", "codel limit 80 interval 100ms noecn"),
        ("discipline: fq_codel, ce_threshold: 1ms", "fq_codel limit 80 ce_threshold 2000s quantum 1514 noecn"),
        ("discipline: pie, target: 9ms", "pie limit 80 target 15ms noecn"),
        ("discipline: cake, limit: 64kb, rtt: 9ms", "cake unlimited memlimit 65536 rtt 100ms"),
        ("discipline: dualpi2, coupling_factor: 7", "dualpi2 limit 80 coupling_factor 2"),
    ],
)
def test_an_option_that_ends_gets_its_default_again(tmp_path: Path, entry: str, words: str) -> None:
    """A change of tc keeps each option that it does not name, as codel_change() in net/sched/sch_codel.c does."""
    plain = f"limit: {'64kb' if 'cake' in entry else '80packets'}, {entry.partition(',')[0]}"
    own = entry if "limit" in entry else f"limit: 80packets, {entry}"
    (tmp_path / "topo.yaml").write_text(
        "version: 1\nnodes: {a: {kind: host}, b: {kind: host}}\n"
        f"links: [{{name: l, between: [a, b], rate: 10mbit, queue: {{{plain}}}}}]\n"
        f"events: [{{at: 1s, for: 1s, link: l, set: {{queue: {{{own}}}}}}}]\n"
    )
    spec = load(tmp_path / "topo", None).spec
    _, back = plan_changes(spec, allocate(spec), REFERENCE)
    assert {" ".join(one.argv[9:]) for one in back.commands} == {words}


@pytest.mark.parametrize("name", DISCIPLINES)
def test_a_kernel_has_the_option_of_a_discipline(name: DisciplineName) -> None:
    """The default experiment kernel has every discipline without `since`, and other kernels have the rest."""
    known = DISCIPLINES[name]
    line = f"{known.kernel_option}=y"
    assert (line in FRAGMENT.read_text().splitlines()) == (known.since is None)
    assert (line in LATER_OPTIONS) == (known.since is not None)
