"""Twenty-four failures of three kinds, with markup in every text that a stranger wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ATTACK = '<script>window.hacked = 1</script><img src=x onerror="window.hacked = 2">'


def _call(number: int, name: str, arguments: dict[str, Any], result: str) -> list[dict[str, Any]]:
    call = {"id": f"c{number}", "function": {"name": name, "arguments": json.dumps(arguments)}}
    answer = {"role": "tool", "tool_call_id": f"c{number}", "name": name, "content": result}
    return [{"role": "assistant", "content": None, "tool_calls": [call]}, answer]


def _talk(kind: int, i: int) -> list[dict[str, Any]]:
    details = json.dumps({"user": f"u{i}", "note": ATTACK, "flights": [f"HAT{n:03}" for n in range(40)]})
    talk = [
        {"role": "system", "content": "POLICY: cancel nothing without a yes. " + ATTACK},
        {"role": "user", "content": f"Hello, I am customer {i}. {ATTACK}"},
        {"role": "assistant", "content": "I will look at your reservation."},
        *_call(0, "get_reservation_details", {"reservation_id": f"R{i}"}, details),
        *[{"role": r, "content": f"Small talk {n} of some length. " * 4} for n in range(4) for r in ("assistant", "user")],
    ]  # fmt: skip
    if kind == 0:
        talk += _call(
            1, "book_reservation", {"n": i, "note": ATTACK}, f"Error: payment does not add up {ATTACK}"
        )
    elif kind == 1:
        talk += [{"role": "user", "content": "What would it cost?"}]
        talk += _call(1, "cancel_reservation", {"reservation_id": f"R{i}"}, '{"status": "cancelled"}')
    else:
        for n in range(3):
            talk += _call(n + 1, "search_direct_flight", {"origin": "JFK"}, "[]")
    return [
        *talk,
        {"role": "assistant", "content": "Is there anything else?"},
        {"role": "user", "content": "No."},
    ]


def records() -> list[dict[str, Any]]:
    """JSONL records: kinds 0, 1, 2 in turn over six tasks and two models, one success at the end."""
    out = []
    for i in range(24):
        kind = i % 3
        checks = {"db": kind == 2, "communicate": kind != 2}
        end = "max_steps" if kind == 2 else "user_stop"
        head = {"task_id": str(i % 6), "trial": i // 6, "model": f"model-{'ab'[i % 2]}", "score": 0.0}
        out.append({**head, "termination": end, "checks": checks, "messages": _talk(kind, i)})
    return [*out, {**out[0], "task_id": "9", "score": 1.0}]


def write_jsonl(path: Path) -> Path:
    """The records as a file to import."""
    path.write_text("".join(json.dumps(r) + "\n" for r in records()))
    return path
