# SPDX-License-Identifier: Apache-2.0
"""Plant two faults in the kernel's MPTCP, and time the commands that find them.

    make planted                 unpack the default source, and build it once without a fault, and once with each
    python -m benchmarks.planted --source TREE       your tree instead; it is copied

`verify` repeats lab 01's run on the kernel with the fault, and names the first packet that differs. `search` finds
under which conditions the kernel with the fault is slower than the kernel without it. `faults` finds which packets'
losses separate the two. All files are temporary. The exit status is 1 if a fault was not found, or not in time.

| fault | what it changes |
| --- | --- |
| `mapping` | one segment in a thousand has no mapping of its data (DSS) |
| `weight` | after a retransmission, the scheduler counts a joined subflow as eight times slower |
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.kernel_cycle import LAB, MPRUN, Edit, change, own_tree, restored, word_parser

_DSS = "\tbool ret = false;\n\n\topts->csum_reqd = READ_ONCE(msk->csum_enabled);\n\tmpext = skb ?"
_LINGER = "\t\tlinger_time = div_u64((u64)READ_ONCE(ssk->sk_wmem_queued) << 32, pace);"
FAULTS = {
    "mapping": (
        Edit("net/mptcp/options.c", _DSS, "\tstatic int mapped;\n" + _DSS),
        Edit(
            "net/mptcp/options.c",
            "\tif (!skb || (mpext && mpext->use_map) || snd_data_fin_enable) {",
            "\tif (!skb || (mpext && mpext->use_map && ++mapped % 1000) || snd_data_fin_enable) {",
        ),
    ),
    "weight": (
        Edit(
            "net/mptcp/protocol.c",
            _LINGER,
            "\t\tif (subflow->mp_join && tcp_sk(ssk)->total_retrans)\n\t\t\tpace = max(pace / 8, 1U);\n" + _LINGER,
        ),
    ),
}
# The longest times of the answers, in s.
VERIFY_S, SEARCH_S = 10.0, 180.0
# The queues hold more than the file, so that only the loss that is asked for loses packets.
TOPOLOGY = """\
version: 1
topology: multi-path
paths: [{rate: 20mbit, rtt: 30ms, queue: 2000packets}, {rate: 20mbit, rtt: 30ms, queue: 2000packets}]
"""
EXPERIMENT = """\
version: 1
hosts: {"*": {mptcp: {path_manager: fullmesh}}}
traffic: [{name: get, tool: http, from: client, to: server, protocol: mptcp, sizes: [4mb]}]
probe: {pings: 0}
"""
SEARCH = """\
version: 1
hosts: {{"*": {{mptcp: {{path_manager: fullmesh}}}}}}
traffic: [{{name: bulk, tool: iperf3, from: client, to: server, protocol: mptcp, duration: 5s}}]
probe: {{pings: 0}}
search:
  vary: {{path0.loss: 0.001%..1%, path1.loss: 0.001%..1%, path1.queue: 20packets..2000packets}}
  violate: bulk.goodput >= 0.9 * plain.bulk.goodput
  control: {{plain: {{kernel: {plain}}}}}
"""
# The points of the search, and the packets that are lost. Nothing else is lost, so that a lost packet of data is the
# only retransmission of its run.
POINTS, PACKETS = 32, 40


class Planted:
    """The folder of the benchmark. is_met: False as soon as a fault is not found, or not in time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.is_met = True
        (folder / "topo.yaml").write_text(TOPOLOGY)
        (folder / "xp.yaml").write_text(EXPERIMENT)

    def call(self, *words: str, among: tuple[int, ...] = (0,)) -> str:
        """Return what a command prints. among: the statuses with an answer."""
        done = subprocess.run([MPRUN, *words], capture_output=True, text=True, cwd=self.folder)
        if done.returncode not in among:
            sys.exit(f"mprun {' '.join(words)} ended with status {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def build(self, tree: Path) -> str:
        """Return the digest of a kernel. All have one name in turn, so that only changes are compiled."""
        started = time.monotonic()
        kernel = json.loads(self.call("kernel", "build", "--source", str(tree), "--name", "planted", "--json"))
        print(f"built in {time.monotonic() - started:.0f} s: {kernel['digest'][:16]}", flush=True)
        return str(kernel["digest"][:16])

    def ask(self, fault: str, sign: str, most_s: float | None, *words: str) -> None:
        """Print the answer of a command and its wall time. sign: a pattern in answers that find the fault."""
        started = time.monotonic()
        answer = self.call(*words, among=(0, 1))
        took_s = time.monotonic() - started
        found, late = re.search(sign, answer) is not None, most_s is not None and took_s > most_s
        self.is_met &= found and not late
        ends = "found" if found else "NOT FOUND"
        print(
            f"\n{fault}: mprun {' '.join(words)}\n{ends} in {took_s:.1f} s{', LATE' if late else ''}\n{answer}",
            flush=True,
        )


def main() -> int:
    asked = word_parser().parse_args()
    with own_tree(asked.source) as (folder, tree):
        planted = Planted(folder)
        plain, kernels = planted.build(tree), {}
        for fault, edits in FAULTS.items():
            with restored(tree, edits):
                for edit in edits:
                    change(tree, edit)
                kernels[fault] = planted.build(tree)
            lab = ("-t", str(LAB / "topo"), "-x", str(LAB / "xp_mptcp"))
            run = json.loads(planted.call(*lab, "--kernel", plain, "--json"))
            planted.ask(fault, r"first packet: ", VERIFY_S, "verify", run["directory"], "--kernel", kernels[fault])
        (folder / "conditions.yaml").write_text(SEARCH.format(plain=plain))
        words = ("-t", "topo", "--kernel", kernels["weight"])
        planted.ask(
            "weight", r"[1-9]\d* violated", SEARCH_S, "search", "-x", "conditions", "--budget", str(POINTS), *words
        )
        faults = ("faults", "-x", "xp", *words, "--control", plain, "--budget", str(PACKETS))
        planted.ask("weight", r"\b[1-9]\d* of \d+ packets separate", None, *faults)
        return 0 if planted.is_met else 1


if __name__ == "__main__":
    sys.exit(main())
