"""One record of each foreign format to a trajectory.

Known fields are copied and everything else is left at the door, gold answers among it: nothing of a task
passes but its id, and of an official score only its value and which check passed.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ecdysis_lab.failures.tracefile import Unreadable
from ecdysis_lab.hooks import Call
from ecdysis_lab.records import Message, Status, Trajectory, Trial
from ecdysis_lab.store.foreign import ForeignText, clean, each_text, parse_json

INFRA_ENDS = frozenset({"infrastructure_error", "infra_error", "unexpected_error", "timeout"})
MAX_SEED = 2**53  # whole numbers below it survive JSON and SQLite
MAX_WORD = 500  # characters of an id or a name
CHECK_NAMES = ("db", "communicate", "action", "env_assertion", "nl_assertion")
_FAILED = re.compile(
    r"""\s*(error\b|traceback \(most recent|\{\s*["']error["']\s*:(?!\s*(null|none|false|""|'')))""",
    re.IGNORECASE,
)


class BadRecord(Exception):
    """A damaged record: ``args`` are the field and what is wrong with it."""


def _tau_bench(record: Any, run: dict[str, str]) -> Trajectory:
    """A τ-bench v1 record ``{task_id, reward, info, traj, trial}`` (sierra-research/tau-bench ``run.py``)."""
    record = _mapping(record, "record")
    raw_info = record.get("info")
    info = raw_info if isinstance(raw_info, dict) else {}
    messages = _messages(record.get("traj"), "traj", empty="error" in info)
    trial = _trial("tau-bench", _task_id(record), _integer(record, "trial"), _word(record, "model"))
    if "error" in info:  # run.py writes the exception there, with reward 0
        why = clean(str(info["error"]), MAX_WORD)
        return Trajectory(trial, "infra_error", None, "infra_error", {}, messages, error=why)
    score = _score(record.get("reward"), "reward")
    raw_reward = info.get("reward_info")
    reward = raw_reward.get("info") if isinstance(raw_reward, dict) else {}
    checks = _tau_bench_checks(reward if isinstance(reward, dict) else {}, score)
    return Trajectory(trial, "scored", score, _tau_bench_end(messages), checks, messages)


def _tau_bench_checks(reward: dict[str, Any], score: float) -> dict[str, bool]:
    """Which checks passed. v1 overwrites the database result where it also checked the outputs."""
    if "r_actions" in reward:
        return {"db": bool(reward["r_actions"])}
    if "r_outputs" in reward:
        checks = {"communicate": bool(reward["r_outputs"])}
        # Outputs right and yet no reward: only the database is left to blame.
        return {**checks, "db": score >= 1.0} if checks["communicate"] else checks
    return {}


def _tau_bench_end(messages: Sequence[Message]) -> str:
    """How a v1 conversation ended; v1 does not record it."""
    if not messages:
        return "unknown"
    last = messages[-1]
    if last.role == "user" and "###STOP###" in (last.content or ""):
        return "user_stop"
    return "transfer" if last.role == "tool" and last.name.startswith("transfer") else "max_steps"


def _tau2(record: Any, run: dict[str, str]) -> Trajectory:
    """One τ² simulation (``tau2/data_model/simulation.py``), of either results shape."""
    record = _mapping(record, "record")
    end = _word(record, "termination_reason") or "unknown"
    reward = record.get("reward_info")
    # A full context window is the trial's own outcome; without a score anything else never finished.
    unscored = reward is None and end != "context_window_exceeded"
    lost = end in INFRA_ENDS or bool(record.get("skipped")) or unscored
    status: Status = "user_fault" if end == "user_error" else "infra_error" if lost else "scored"
    messages = _messages(record.get("messages"), "messages", empty=status != "scored")
    seed = _integer(record, "seed", "trial")
    benchmark = f"tau2/{run['domain']}" if run.get("domain") else "tau2"
    trial = _trial(benchmark, _task_id(record), seed, run.get("model", ""), run.get("user", ""))
    seconds = record.get("duration")
    seconds = float(seconds) if isinstance(seconds, int | float) and math.isfinite(seconds) else 0.0
    if status != "scored":
        return Trajectory(trial, status, None, end, {}, messages, seconds=seconds, error=end)
    reward = _mapping(reward, "reward_info") if reward is not None else {"reward": 0.0}
    score = _score(reward.get("reward"), "reward_info.reward")
    return Trajectory(trial, "scored", score, end, _tau2_checks(reward), messages, seconds=seconds)


def _tau2_checks(reward: dict[str, Any]) -> dict[str, bool]:
    parts = reward.get("reward_breakdown")
    parts = parts if isinstance(parts, dict) else {}
    named = {str(k).lower(): v for k, v in parts.items() if isinstance(v, int | float)}
    return {name: named[name] >= 1.0 for name in CHECK_NAMES if name in named}


def _chat(record: Any, run: dict[str, str]) -> Trajectory:
    """One line of JSONL: ``messages``, ``score``; optional ``task_id``, ``model``, ``trial``, ``checks``."""
    record = _mapping(record, "record")
    error = record.get("error")
    lost = record.get("status") == "infra_error" or (bool(error) and record.get("score") is None)
    messages = _messages(record.get("messages"), "messages", empty=lost)
    task = _task_id(record) if record.get("task_id") is not None else _opening(messages)
    trial = _trial("jsonl", task, _integer(record, "seed", "trial"), _word(record, "model"))
    end = _word(record, "termination") or ("infra_error" if lost else "unknown")
    if lost:
        why = clean(str(error or end), MAX_WORD)
        return Trajectory(trial, "infra_error", None, end, {}, messages, error=why)
    score = record.get("score", record.get("reward"))
    checks = record.get("checks")
    checks = checks if isinstance(checks, dict) else {}
    passed = {clean(k, MAX_WORD): v for k, v in checks.items() if isinstance(v, bool)}
    return Trajectory(trial, "scored", _score(score, "score"), end, passed, messages)


def _opening(messages: Sequence[Message]) -> str:
    """A task name for a record without one: the same opening by the user counts as the same task."""
    text = next((m.content or "" for m in messages if m.role == "user"), "")
    return f"opening-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _trial(benchmark: str, task: str, seed: int, model: str = "", user: str = "") -> Trial:
    return Trial(benchmark, "imported", task, "imported", model or "unknown", user or "unknown", "", seed)


def tau2_run(info: Any) -> dict[str, str]:
    """Domain, models and limits of a τ² run; nothing else of its header passes."""
    info = info if isinstance(info, dict) else {}
    part = {
        k: info.get(k) if isinstance(info.get(k), dict) else {}
        for k in ("agent_info", "user_info", "environment_info")
    }
    return {
        "domain": clean(str(part["environment_info"].get("domain_name") or ""), MAX_WORD),
        "model": clean(str(part["agent_info"].get("llm") or ""), MAX_WORD),
        "user": clean(str(part["user_info"].get("llm") or ""), MAX_WORD),
    }


def _mapping(value: Any, field: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadRecord(field, f"expected an object, found {type(value).__name__}")
    return value


def _task_id(record: dict[str, Any]) -> str:
    if record.get("task_id") is None:
        raise BadRecord("task_id", "missing")
    return _word(record, "task_id")


def _word(record: dict[str, Any], *fields: str, at: str = "") -> str:
    """An id or a name on one line, whole numbers as digits; empty where no field has one."""
    field = next((f for f in fields if record.get(f) is not None and record[f] != ""), None)
    if field is None:
        return ""
    value = record[field]
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, (bool, Unreadable)) or not isinstance(value, (str, int)):
        kind = value if isinstance(value, Unreadable) else type(value).__name__
        raise BadRecord(f"{at}{field}", f"expected text or a whole number, found {kind}")
    text = " ".join(clean(str(value)).split())
    if len(text) > MAX_WORD:
        raise BadRecord(f"{at}{field}", f"{len(text):,} characters; at most {MAX_WORD} are read")
    return text


def _integer(record: dict[str, Any], *fields: str) -> int:
    field = next((f for f in fields if record.get(f) is not None), fields[0])
    value = record.get(field)
    value = 0 if value is None else value
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadRecord(field, f"expected a whole number, found {value!r}"[:80])
    if abs(value) >= MAX_SEED:
        raise BadRecord(field, f"expected a whole number below 2**53, found one of {len(str(value))} digits")
    return value


def _score(value: Any, field: str) -> float:
    if value is None:
        raise BadRecord(field, "missing")
    if not isinstance(value, int | float) or not math.isfinite(value) or not 0.0 <= value <= 1.0:
        raise BadRecord(field, f"expected a number in [0, 1], found {value!r}"[:80])
    return float(value)


def _messages(items: Any, field: str, empty: bool = False) -> tuple[Message, ...]:
    if empty and not items:
        return ()
    if not isinstance(items, list) or not items:
        raise BadRecord(field, "expected a list of messages" if items else "missing or empty")
    flat: list[Any] = []
    for item in items:  # τ² groups the results of parallel calls
        grouped = item.get("tool_messages") if isinstance(item, dict) else None
        flat += grouped if isinstance(grouped, list) else [item]
    names: dict[str, str] = {}
    out = []
    for i, item in enumerate(flat):
        message = _message(item, f"{field}[{i}]")
        names.update({c.id: c.name for c in message.calls if c.id})
        if message.role == "tool" and not message.name:
            message = replace(message, name=names.get(message.call_id, ""))
        out.append(message)
    return tuple(out)


def _message(item: Any, field: str) -> Message:
    item = _mapping(item, field)
    role = {"function": "tool", "developer": "system"}.get(str(item.get("role")), item.get("role"))
    if role not in ("user", "assistant", "tool", "system"):
        raise BadRecord(f"{field}.role", f"unknown role {role!r}"[:80])
    content = _text(item.get("content"), f"{field}.content")
    if role == "tool":
        call_id = _word(item, "tool_call_id", "id", at=f"{field}.")
        failed = bool(item["error"]) if isinstance(item.get("error"), bool) else _looks_failed(content or "")
        return Message("tool", content, (), call_id, _word(item, "name", at=f"{field}."), failed)
    raw = item.get("tool_calls") or (
        [{"function": item["function_call"]}] if item.get("function_call") else []
    )
    if not isinstance(raw, list):
        raise BadRecord(f"{field}.tool_calls", "expected a list")
    return Message(str(role), content, tuple(_call(c, f"{field}.tool_calls[{j}]") for j, c in enumerate(raw)))


def _text(content: Any, field: str) -> str | None:
    if content is None or (isinstance(content, str) and not isinstance(content, Unreadable)):
        return content and clean(content)
    if isinstance(content, list):  # OpenAI content parts
        return clean("\n".join(str(p.get("text", "")) for p in content if isinstance(p, dict)))
    raise BadRecord(field, f"expected text, found {type(content).__name__}")


def _looks_failed(content: str) -> bool:
    """Formats without an error flag start an error's text with the word, or return ``{"error": …}``."""
    return bool(_FAILED.match(content))


def _call(item: Any, field: str) -> Call:
    item = _mapping(item, field)
    function = item.get("function") if isinstance(item.get("function"), dict) else item
    name, raw = function.get("name"), function.get("arguments")
    if not isinstance(name, str) or not name:
        raise BadRecord(f"{field}.name", "missing")
    return Call(
        _word(function, "name", at=f"{field}."),
        _arguments(raw, f"{field}.arguments"),
        _word(item, "id", at=f"{field}."),
    )


def _arguments(raw: Any, field: str) -> dict[str, Any]:
    """Arguments of a call; what is no JSON object is the model's own malformed call, part of what happened."""
    if not isinstance(raw, str):
        try:
            found = each_text(raw or {}, clean)
        except ForeignText as why:
            raise BadRecord(field, str(why)) from None
        return found if isinstance(found, dict) else {"_raw": found}
    try:
        found = parse_json(raw) if raw.strip() else {}
    except ForeignText:
        found = None
    return found if isinstance(found, dict) else {"_raw": clean(raw)}


READERS: dict[str, Callable[[Any, dict[str, str]], Trajectory]] = {
    "tau-bench": _tau_bench,
    "tau2": _tau2,
    "jsonl": _chat,
}
