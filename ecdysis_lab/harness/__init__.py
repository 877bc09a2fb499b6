"""A harness: its source, its rules, the process it runs in, the agent inside it, and trials of both."""

from ecdysis_lab.harness.source import (
    FILES,
    SHIPPED,
    SWITCHES_FILE,
    Harness,
    copy_harness,
    diff_harness,
    identity,
    load_harness,
    sound_harness,
    static_problems,
    switch_harness,
)

__all__ = [
    "FILES",
    "SHIPPED",
    "SWITCHES_FILE",
    "Harness",
    "copy_harness",
    "diff_harness",
    "identity",
    "load_harness",
    "sound_harness",
    "static_problems",
    "switch_harness",
]
