"""The crash benchmark at a small size: kills fall while work is under way, and each kind of damage makes it red."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "crash.py"
pytestmark = pytest.mark.slow


def storm(*options: str) -> tuple[int, dict[str, Any]]:
    left = subprocess.run(
        [sys.executable, str(SCRIPT), "--json", *options],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert left.stdout, left.stderr
    return left.returncode, json.loads(left.stdout)


def test_kills_at_work_lose_and_repeat_nothing() -> None:
    code, found = storm("--kills", "3")
    assert (found["repeated"], found["differing"], found["broken"], code) == (0, [], [], 0)
    assert found["kills_in_work"] == 3 == sum(found["by_phase"].values())
    assert found["trials_done_at_kill"]["min"] >= 1
    assert found["trials_done_at_kill"]["max"] > found["trials_done_at_kill"]["min"]


def test_a_store_that_never_has_a_trial_is_red() -> None:
    """The other two damages (``--break files``, ``--break again``) take minutes and are run by hand."""
    code, found = storm("--kills", "1", "--break", "have")
    assert code == 1 and found["repeated"]
