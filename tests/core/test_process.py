# SPDX-License-Identifier: Apache-2.0
"""Logs of a run's processes."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from mprun.agent import process
from mprun.agent.process import LimitedLog


def test_a_descendant_may_print_when_its_program_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "STOP_TIMEOUT_S", 0.01)
    log = LimitedLog(str(tmp_path / "flow.out"), 8)
    descendant = os.dup(log.target)
    log.start()
    log.finish()
    os.write(descendant, b"afterwards")
    os.close(descendant)
    deadline = time.monotonic() + 10
    while log.printed_bytes < 10:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    log.finish()
    assert (tmp_path / "flow.out").read_bytes() == b"afterwar"
