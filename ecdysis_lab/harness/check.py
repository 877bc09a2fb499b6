"""``ecdysis-lab check``: what a harness does to legal acts, to illegal ones, and to recorded traces.

A harness that refuses what is legal costs more than it saves, so the flawless agent (gold plan, no slip) comes first:
it has to keep accuracy 1.0 with no refusal.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ecdysis_lab.harness.host import HarnessFault, Host
from ecdysis_lab.harness.probe import probe
from ecdysis_lab.harness.replay import Replay, replay
from ecdysis_lab.harness.rollout import Setup, rollout
from ecdysis_lab.harness.source import Harness, static_problems
from ecdysis_lab.hooks import Call, Done, Refuse
from ecdysis_lab.records import Benchmark, Intervention, LabError, Trajectory, tool_key
from ecdysis_lab.store import Store


@dataclass(frozen=True)
class Violation:
    """An illegal call in its situation.

    Parameters
    ----------
    call : the call. rule : the policy line it breaks, in words.
    messages : the conversation before it. done : calls executed before it, run on a fresh environment first.
    """

    call: Call
    rule: str
    messages: tuple[dict[str, str], ...] = ()
    done: tuple[Call, ...] = ()


def structure(harness: Harness, benchmark: Benchmark) -> dict[str, Any]:
    """Static policy, probe and size: ``{"problems", "probe", "files", "lines", "switched_off", "prompt_tokens"}``.

    ``prompt_tokens`` is what the contract adds to the tool schemas and ``brief`` to the prompt for the scenario of the
    first training task (characters / 4).
    """
    problems = [f"{p.file}:{p.line} {p.what}" for p in static_problems(harness)]
    task = benchmark.tasks("train", 1)[0]
    fault = probe(harness, benchmark, task.id) if not problems else None
    return {
        "problems": problems,
        "probe": f"a hook breaks on a plain call: {fault}" if fault else "ok" if not problems else "not run",
        "files": sorted(harness.files),
        "lines": sum(len(text.splitlines()) for text in harness.files.values()),
        "switched_off": [*harness.disabled, *(k for k, on in harness.switches["layers"].items() if not on)],
        "prompt_tokens": _added_tokens(harness, benchmark) if not problems and fault is None else None,
    }


def _added_tokens(harness: Harness, benchmark: Benchmark) -> int:
    task = benchmark.tasks("train", 1)[0]
    with Host(harness, benchmark.policy, benchmark.tools, benchmark.environment(task.id).read) as host:
        described = [host.describe(dict(t)) if host.has("describe") else t for t in benchmark.tools]
        brief = host.brief(task.scenario) if host.has("brief") else ""
    grown = len(json.dumps(described)) - len(json.dumps(benchmark.tools))
    return max(0, grown + len(brief)) // 4


def flawless(harness: Harness, benchmark: Benchmark, store: Store, workers: int = 1) -> dict[str, Any]:
    """The flawless agent over all tasks: ``{"tasks", "accuracy", "refusals", "altered", "examples"}``."""
    tasks = benchmark.tasks("all")
    left = rollout(Setup(benchmark.name, "sim/flawless"), tasks, harness, [0], store, workers=workers)
    acts = [(t, i) for t in left for i in t.interventions]
    refused = [(t, i) for t, i in acts if i.action == "refuse"]
    altered = [
        (t, i)
        for t, i in acts
        if i.action == "realize" or (i.action == "rewrite" and not same_meaning(i.before, i.after))
    ]
    return {
        "tasks": len(tasks),
        "accuracy": sum(t.success for t in left) / len(tasks),
        "refusals": len(refused),
        "altered": len(altered),
        "examples": [_told(t, i) for t, i in (*refused, *altered)][:10],
    }


def _told(trajectory: Trajectory, act: Intervention) -> str:
    return (
        f"task {trajectory.trial.task_id}: {act.action} {act.tool} by {act.rule}: {act.reason or act.after}"
    )


def violations(harness: Harness, benchmark: Benchmark, cases: Sequence[Violation]) -> dict[str, Any]:
    """Illegal calls: ``{"calls", "refused", "missed"}``; a refusal must name a rule and a valid option."""
    missed = [
        f"{case.rule}: {tool_key(case.call)}" for case in cases if not _refuses(harness, benchmark, case)
    ]
    return {"calls": len(cases), "refused": len(cases) - len(missed), "missed": missed}


def _refuses(harness: Harness, benchmark: Benchmark, case: Violation) -> bool:
    environment = benchmark.environment(benchmark.tasks("all")[0].id)
    with Host(harness, benchmark.policy, benchmark.tools, environment.read) as host:
        for call in case.done:
            result, error = environment.call(call)
            host.add_done(Done(call, result, error))
        for message in case.messages:
            host.add_message(message["role"], message["content"])
        try:
            verdict = host.check(case.call, 50)
        except HarnessFault as fault:
            raise LabError(f"violations: {case.rule}, {tool_key(case.call)}: {fault}") from None
    return isinstance(verdict, Refuse) and bool(verdict.rule and verdict.option)


def read_violations(path: Path) -> list[Violation]:
    """Illegal calls from a JSON file: a list of ``{"call": {"name", "arguments"}, "rule", "messages", "done"}``.

    Raises
    ------
    LabError: not readable; the record and the field are named.
    """
    try:
        records = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError) as why:
        raise LabError(f"violations: cannot read {path}: {why}") from why
    if not isinstance(records, list):
        raise LabError(f"violations: {path} holds no JSON list")
    out = []
    for n, record in enumerate(records):
        try:
            done = tuple(Call(c["name"], c["arguments"]) for c in record.get("done", ()))
            call = Call(record["call"]["name"], record["call"]["arguments"])
            out.append(Violation(call, record["rule"], tuple(record.get("messages", ())), done))
        except (KeyError, TypeError, AttributeError) as why:
            raise LabError(f"violations: {path}, record {n}: field {why} is missing or malformed") from why
    return out


def traces(harness: Harness, benchmark: Benchmark, recorded: Iterable[Trajectory]) -> dict[str, Any]:
    """Recorded traces through the harness, passing and failing apart.

    Returns
    -------
    ``{"passing": …, "failing": …}``, each ``{"trajectories", "calls", "refused", "altered", "rejected_by_environment",
    "by_rule", "stopped", "other_text", "broken", "acts"}``. ``refused``, ``altered`` and ``by_rule`` count acts that
    the environment accepted, ``rejected_by_environment`` those that it rejected itself, ``stopped`` trajectories with
    any, ``other_text`` those in which the model would have read another prompt, schemas or notes, ``broken`` those in
    which a hook broke. ``acts`` lists every one: trajectory, task, step, call (or reply), what, rule, reason, and
    whether the environment rejected it.
    """
    groups: dict[str, list[tuple[Trajectory, Replay]]] = {"passing": [], "failing": []}
    for trajectory in recorded:
        left = replay(trajectory, harness, benchmark)
        groups["passing" if trajectory.success else "failing"].append((trajectory, left))
    return {name: _count(replays) for name, replays in groups.items()}


def _count(replays: Sequence[tuple[Trajectory, Replay]]) -> dict[str, Any]:
    differences = [d for _, r in replays for d in r.differences]
    return {
        "trajectories": len(replays),
        "calls": sum(r.calls for _, r in replays),
        "refused": sum(d.what == "refused" for d in differences),
        "altered": sum(d.what == "altered" for d in differences),
        "rejected_by_environment": sum(len(r.rejected) for _, r in replays),
        "by_rule": dict(Counter(d.rule for d in differences).most_common()),
        "stopped": sum(bool(r.differences or r.rejected) for _, r in replays),
        "other_text": sum(r.other_text for _, r in replays),
        "broken": sum(bool(r.faults) for _, r in replays),
        "acts": [act for t, r in replays for act in _acts(t, r)],
    }


def _acts(trajectory: Trajectory, left: Replay) -> list[dict[str, Any]]:
    found = [(d, False) for d in left.differences] + [(d, True) for d in left.rejected]
    return [
        {"trajectory": left.key, "task": trajectory.trial.task_id, "step": d.step, "call": d.act, "what": d.what,
         "rule": d.rule, "reason": d.reason, "rejected_by_environment": rejected}
        for d, rejected in sorted(found, key=lambda pair: pair[0].step)
    ]  # fmt: skip


def same_meaning(before: Any, after: Any) -> bool:
    """Whether two argument objects differ in form only: the same words and numbers, in any order and case."""
    return _words(before) == _words(after)


def _words(value: Any) -> list[str]:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    text = re.sub(r"(?<=\d),(?=\d{3})", "", text.lower())
    words = re.findall(r"[a-z]+|\d+(?:\.\d+)?", text)
    return sorted(f"{float(w):g}" if w[0].isdigit() else w for w in words)


def report(found: dict[str, Any]) -> str:
    """The findings as lines for a person."""
    lines = []
    for part, values in found.items():
        lines.append(f"{part}:")
        items = values.items() if isinstance(values, dict) else [("", values)]
        for name, value in items:
            acts = value.get("acts", []) if isinstance(value, dict) else []
            value = {k: v for k, v in value.items() if k != "acts"} if acts else value
            lines.append(f"  {name}: {json.dumps(value, ensure_ascii=False)}")
            lines += [f"    {_act_line(act)}" for act in acts]
    return "\n".join(lines)


def _act_line(act: dict[str, Any]) -> str:
    also = " (the environment rejected it too)" if act["rejected_by_environment"] else ""
    where = f"{act['trajectory'][:12]}, task {act['task']}, step {act['step']}"
    return (
        f"{where}: {act['what']}{also} by {act['rule'] or 'no named rule'}: {act['call']} · {act['reason']}"
    )
