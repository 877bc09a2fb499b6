"""Trajectories from elsewhere: τ-bench v1 lists, τ² results, JSONL of chat messages, our own store.

Gold is dropped at the door by copying known fields only: nothing of a task but its id, and of an official
score only which check passed. Damaged records are reported by file, record and field; the rest imports.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ecdysis_lab.hooks import Call
from ecdysis_lab.records import LabError, Message, Status, Trajectory, Trial

FORMATS = ("tau-bench", "tau2", "jsonl", "store")
INFRA_ENDS = frozenset({"infrastructure_error", "infra_error", "unexpected_error", "timeout", "judge_stop"})
CHECK_NAMES = ("db", "communicate", "action", "env_assertion", "nl_assertion")


@dataclass(frozen=True)
class Damaged:
    """A record that did not import: ``record`` counts from 0 in its file, ``what`` says what is wrong."""

    file: str
    record: int
    field: str
    what: str


@dataclass(frozen=True)
class Imported:
    """What an import gave.

    Parameters
    ----------
    trajectories : all good records, infrastructure errors among them (``status`` tells).
    damaged : records left out, and why.
    infra : how many of the trajectories are infrastructure errors.
    format : the format read; several joined by ``+`` for a mixed folder.
    """

    trajectories: tuple[Trajectory, ...]
    damaged: tuple[Damaged, ...]
    infra: int
    format: str

    def counts(self) -> str:
        """One line for a user: imported, infrastructure errors, damaged."""
        n, bad = len(self.trajectories), len(self.damaged)
        return f"{n} trajectories imported ({self.format}), {self.infra} infrastructure errors, {bad} damaged records"


class _Bad(Exception):
    """A record is damaged: ``(field, what)``."""


def load(path: str | Path, format: str | None = None) -> Imported:
    """Read trajectories from a file or a folder.

    Parameters
    ----------
    path : a file, or a folder (a τ² results folder, a store, or any folder of such files).
    format : one of ``tau-bench``, ``tau2``, ``jsonl``, ``store``; None detects it.

    Returns
    -------
    Imported, in the order of the files' names and of the records in them.

    Raises
    ------
    LabError: no such path, an unknown format, or a file in which no known format was found.
    """
    path = Path(path)
    if format is not None and format not in FORMATS:
        raise LabError(f"unknown format {format!r}; choose one of {', '.join(FORMATS)}")
    if not path.exists():
        raise LabError(f"nothing to import at {path}: no such file or folder")
    if format == "store" or (format is None and _is_store(path)):
        return _from_store(path)
    found: list[Trajectory] = []
    damaged: list[Damaged] = []
    formats: set[str] = set()
    for file, known in _files(path, format):
        records, name, broken = _records(file, known)
        formats.add(name)
        damaged += broken
        for number, record in records:
            try:
                found.append(_READERS[name](record))
            except _Bad as bad:
                damaged.append(Damaged(str(file), number, *bad.args))
    unique = _distinct(found)
    infra = sum(t.status == "infra_error" for t in unique)
    return Imported(tuple(unique), tuple(damaged), infra, "+".join(sorted(formats)))


def _is_store(path: Path) -> bool:
    return path.is_dir() and any(path.glob("*.sqlite*"))


def _from_store(path: Path) -> Imported:
    from ecdysis_lab.store import Store

    found = tuple(Store(path).trajectories())
    return Imported(found, (), sum(t.status == "infra_error" for t in found), "store")


def _files(path: Path, format: str | None) -> Iterator[tuple[Path, str | None]]:
    if path.is_file():
        simulations = path.parent / "simulations"
        if path.name == "results.json" and format in (None, "tau2") and simulations.is_dir():
            path = path.parent
        else:
            yield path, format
            return
    if (path / "simulations").is_dir():
        yield from ((f, "tau2") for f in sorted((path / "simulations").glob("*.json")))
        return
    files = sorted(f for f in path.rglob("*") if f.suffix in (".json", ".jsonl") and f.is_file())
    if not files:
        raise LabError(f"nothing to import in {path}: no .json or .jsonl file in the folder")
    yield from ((f, format) for f in files)


def _records(file: Path, format: str | None) -> tuple[list[tuple[int, Any]], str, list[Damaged]]:
    """Records of a file with their numbers, the format, and what could not be parsed."""
    text = file.read_text(encoding="utf-8", errors="replace").lstrip("\ufeff")
    if format == "jsonl" or file.suffix == ".jsonl":
        records, damaged = _json_lines(text, file)
    else:
        records, damaged = _json_document(text, file)
    if format is None:
        format = next((name for _, r in records if (name := _format_of(r))), None)
    if format is None:
        if not damaged:
            raise LabError(f"{file}: no known format found in it; choose one with --format: {', '.join(FORMATS)}")
        format = "jsonl" if file.suffix == ".jsonl" else "unknown"
    return records, format, damaged


def _json_lines(text: str, file: Path) -> tuple[list[tuple[int, Any]], list[Damaged]]:
    records: list[tuple[int, Any]] = []
    damaged: list[Damaged] = []
    # Not splitlines(): a line separator inside a JSON string is legal and must not cut the record.
    for number, line in enumerate(row for row in text.split("\n") if row.strip()):
        try:
            records.append((number, json.loads(line)))
        except json.JSONDecodeError as error:
            damaged.append(Damaged(str(file), number, "json", f"not valid JSON: {error.msg}, column {error.colno}"))
    return records, damaged


def _json_document(text: str, file: Path) -> tuple[list[tuple[int, Any]], list[Damaged]]:
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        records = _salvaged(text)
        what = f"not valid JSON: {error.msg}, line {error.lineno} column {error.colno}; nothing after it was read"
        return list(enumerate(records)), [Damaged(str(file), len(records), "json", what)]
    if isinstance(document, list):
        return list(enumerate(document)), []
    if isinstance(document, dict) and isinstance(document.get("simulations"), list):
        context = _tau2_context(document.get("info"))
        runs = [{**s, "_run": context} if isinstance(s, dict) else s for s in document["simulations"]]
        return list(enumerate(runs)), []
    return [(0, document)], []


def _salvaged(text: str) -> list[Any]:
    """The complete records at the start of a JSON list that breaks off (a run killed while it saved)."""
    decoder, records = json.JSONDecoder(), []
    at = text.find("[") + 1 if text.lstrip().startswith("[") else len(text)
    while True:
        while at < len(text) and text[at] in " \t\r\n,":
            at += 1
        try:
            record, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError:
            return records
        records.append(record)


def _format_of(record: Any) -> str | None:
    keys = set(record) if isinstance(record, dict) else set()
    if {"traj", "reward"} <= keys:
        return "tau-bench"
    if "messages" in keys and keys & {"termination_reason", "reward_info"}:
        return "tau2"
    return "jsonl" if "messages" in keys else None


def _tau2_context(info: Any) -> dict[str, str]:
    """Domain, models and limits of a τ² run; nothing else of its header passes."""
    info = info if isinstance(info, dict) else {}
    part = {k: info.get(k) if isinstance(info.get(k), dict) else {} for k in ("agent_info", "user_info", "environment_info")}
    return {
        "domain": str(part["environment_info"].get("domain_name") or ""),
        "model": str(part["agent_info"].get("llm") or ""),
        "user": str(part["user_info"].get("llm") or ""),
    }


def _tau_bench(record: Any) -> Trajectory:
    """A τ-bench v1 record ``{task_id, reward, info, traj, trial}`` (sierra-research/tau-bench ``run.py``)."""
    record = _mapping(record, "record")
    raw_info = record.get("info")
    info = raw_info if isinstance(raw_info, dict) else {}
    messages = _messages(record.get("traj"), "traj", empty="error" in info)
    trial = _trial("tau-bench", _task_id(record), seed=_integer(record, "trial"), model=str(record.get("model") or ""))
    if "error" in info:  # run.py writes the exception there, with reward 0
        return Trajectory(trial, "infra_error", None, "infra_error", {}, messages, error=str(info["error"])[:500])
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


def _tau2(record: Any) -> Trajectory:
    """One τ² simulation (``tau2/data_model/simulation.py``), of either results shape."""
    record = _mapping(record, "record")
    run: dict[str, str] = record.get("_run") or {}
    end = str(record.get("termination_reason") or "unknown")
    reward = record.get("reward_info")
    lost = end in INFRA_ENDS or bool(record.get("skipped")) or (reward is None and end != "context_window_exceeded")
    status: Status = "user_fault" if end == "user_error" else "infra_error" if lost else "scored"
    messages = _messages(record.get("messages"), "messages", empty=status != "scored")
    seed = _integer(record, "seed", "trial")
    domain = run.get("domain") or ""
    trial = _trial(f"tau2/{domain}" if domain else "tau2", _task_id(record), seed, run.get("model", ""), run.get("user", ""))
    seconds = record.get("duration")
    seconds = float(seconds) if isinstance(seconds, int | float) else 0.0
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


def _chat(record: Any) -> Trajectory:
    """One line of JSONL: ``messages`` and ``score``, optional ``task_id``, ``model``, ``trial``, ``checks``."""
    record = _mapping(record, "record")
    error = record.get("error")
    lost = record.get("status") == "infra_error" or (bool(error) and record.get("score") is None)
    messages = _messages(record.get("messages"), "messages", empty=lost)
    task = str(record["task_id"]) if record.get("task_id") is not None else _opening(messages)
    trial = _trial("jsonl", task, _integer(record, "seed", "trial"), str(record.get("model") or ""))
    end = str(record.get("termination") or ("infra_error" if lost else "unknown"))
    if lost:
        return Trajectory(trial, "infra_error", None, end, {}, messages, error=str(error or end)[:500])
    score = record.get("score", record.get("reward"))
    checks = record.get("checks")
    passed = {str(k): v for k, v in checks.items() if isinstance(v, bool)} if isinstance(checks, dict) else {}
    return Trajectory(trial, "scored", _score(score, "score"), end, passed, messages)


_READERS: dict[str, Callable[[Any], Trajectory]] = {"tau-bench": _tau_bench, "tau2": _tau2, "jsonl": _chat, "unknown": _chat}


def _opening(messages: Sequence[Message]) -> str:
    """A task name for a record without one: the same opening by the user counts as the same task."""
    text = next((m.content or "" for m in messages if m.role == "user"), "")
    return f"opening-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _trial(benchmark: str, task: str, seed: int, model: str = "", user: str = "") -> Trial:
    return Trial(benchmark, "imported", task, "imported", model or "unknown", user or "unknown", "", seed)


def _distinct(found: Sequence[Trajectory]) -> list[Trajectory]:
    """The same, with a fresh seed for every trial that repeats an identity (files rarely number their trials)."""
    taken: set[str] = set()
    out: list[Trajectory] = []
    for trajectory in found:
        while trajectory.key in taken:
            trial = replace(trajectory.trial, seed=trajectory.trial.seed + 1)
            trajectory = replace(trajectory, trial=trial)
        taken.add(trajectory.key)
        out.append(trajectory)
    return out


def _mapping(value: Any, field: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _Bad(field, f"expected an object, found {type(value).__name__}")
    return value


def _task_id(record: dict[str, Any]) -> str:
    if record.get("task_id") is None:
        raise _Bad("task_id", "missing")
    return str(record["task_id"])


def _integer(record: dict[str, Any], *fields: str) -> int:
    value = next((record[f] for f in fields if record.get(f) is not None), 0)
    if isinstance(value, bool) or not isinstance(value, int):
        raise _Bad(fields[0], f"expected a whole number, found {value!r}"[:80])
    return value


def _score(value: Any, field: str) -> float:
    if value is None:
        raise _Bad(field, "missing")
    if not isinstance(value, int | float) or not math.isfinite(value) or not 0.0 <= value <= 1.0:
        raise _Bad(field, f"expected a number in [0, 1], found {value!r}"[:80])
    return float(value)


def _messages(items: Any, field: str, empty: bool = False) -> tuple[Message, ...]:
    if empty and not items:
        return ()
    if not isinstance(items, list) or not items:
        raise _Bad(field, "expected a list of messages" if items else "missing or empty")
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
        raise _Bad(f"{field}.role", f"unknown role {role!r}"[:80])
    content = _text(item.get("content"), f"{field}.content")
    if role == "tool":
        call_id = str(item.get("tool_call_id") or item.get("id") or "")
        failed = bool(item["error"]) if isinstance(item.get("error"), bool) else _looks_failed(content or "")
        return Message("tool", content, (), call_id, str(item.get("name") or ""), failed)
    raw = item.get("tool_calls") or ([{"function": item["function_call"]}] if item.get("function_call") else [])
    if not isinstance(raw, list):
        raise _Bad(f"{field}.tool_calls", "expected a list")
    return Message(str(role), content, tuple(_call(c, f"{field}.tool_calls[{j}]") for j, c in enumerate(raw)))


def _text(content: Any, field: str) -> str | None:
    if content is None or isinstance(content, str):
        return content
    if isinstance(content, list):  # OpenAI content parts
        return "\n".join(str(p.get("text", "")) for p in content if isinstance(p, dict))
    raise _Bad(field, f"expected text, found {type(content).__name__}")


def _looks_failed(content: str) -> bool:
    """Formats without an error flag start an error's text with the word, or return ``{"error": …}``."""
    return content.lstrip().lower().startswith(("error", '{"error"', "{'error'", "traceback (most recent"))


def _call(item: Any, field: str) -> Call:
    item = _mapping(item, field)
    function = item.get("function") if isinstance(item.get("function"), dict) else item
    name = function.get("name")
    if not isinstance(name, str) or not name:
        raise _Bad(f"{field}.name", "missing")
    raw = function.get("arguments")
    try:
        arguments = json.loads(raw) if isinstance(raw, str) and raw.strip() else raw or {}
    except json.JSONDecodeError:
        arguments = None
    if not isinstance(arguments, dict):
        arguments = {"_raw": raw}  # the model's own malformed call: part of what happened, not damage
    return Call(name, arguments, str(item.get("id") or ""))
