"""What happened in a run, round by round: as plain data, and as text for a terminal.

It reads what the rounds recorded and knows no order of gates and no list of arms.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from textwrap import fill
from typing import Any

from ecdysis_lab.models.hand import played
from ecdysis_lab.records import Change, Failure, GateResult, LabError, Patterns, RoundRecord, Subset
from ecdysis_lab.store import Round, Run, runs_of
from ecdysis_lab.train.rounds import left_of

WIDTH = 120  # characters of a line of text
SHORT = 8  # characters of a trial key or a hash
Rows = Sequence[Mapping[str, Any]]


# -- as data ---------------------------------------------------------------------------------------------------------


def runs(data: Path | str) -> list[dict[str, Any]]:
    """All runs of a data folder: state, rounds by arm, and from the summary accuracy (training model) and cost."""
    made = []
    for run in runs_of(data):
        summary, config = run.summary or {}, run.config or {}
        model = summary.get("train_model", config.get("model", ""))
        tested = {
            arm: models[model]["accuracy"]
            for arm, models in summary.get("arms", {}).items()
            if model in models
        }
        trained: dict[str, int] = {}
        for round in run.rounds():
            trained[round.arm] = trained.get(round.arm, 0) + bool(round.record)
        arms = dict.fromkeys((*config.get("arms", ()), *config.get("frozen", ()), *tested, *trained))
        made.append(
            {
                "run": run.run_id, "state": run.status["state"], "model": model, "simulated": summary.get("simulated"),
                "arms": list(arms), "rounds": trained, "accuracy": tested,
                "cost_usd": summary.get("cost_usd"), "billed_usd": summary.get("billed_usd"),
            }
        )  # fmt: skip
    return made


def told(run: Run, arm: str | None = None, n: int | None = None) -> dict[str, Any]:
    """What each round of a run saw, proposed and decided.

    Parameters
    ----------
    run : the run. arm, n : one arm, one round number; None for all.

    Raises
    ------
    LabError: no such arm or round; those there are listed.
    """
    every = run.rounds()
    found = [r for r in every if arm in (None, r.arm) and n in (None, r.n)]
    if every and not found:
        asked = " ".join(
            f"{word} {value}" for word, value in (("arm", arm), ("round", n)) if value is not None
        )
        raise LabError(f"show: run {run.run_id} has no {asked}; it has {', '.join(r.name for r in every)}")
    return {
        "run": run.run_id,
        "state": run.status["state"],
        "rounds": [of_round(r) for r in found],
        "left": {name: left_of(run, name) for name in dict.fromkeys(r.arm for r in found)},
        "learned": run.learned if arm is None and n is None else None,
    }


def of_round(round: Round) -> dict[str, Any]:
    """One round, as far as it has come."""
    record, review = round.record, round.review
    spec = review.spec if review else None
    return {
        "arm": round.arm,
        "round": round.n,
        "decision": record.decision if record else None,
        "gate": record.gate if record else "",
        "told": sentence(record) if record else "The round is not finished.",
        "lacked": lacked(record.candidates[-1].gates) if record and record.candidates else "",
        "record": None if record is None else {k: v for k, v in asdict(record).items() if k != "candidates"},
        "saw": _saw(round.failures or (), round.patterns, round.subset),
        "proposed": {
            "reason": review.reason if review else "",
            "changes": [asdict(change) for change in spec.changes] if spec else [],
            "dropped": [{"what": what, "why": why} for what, why in spec.dropped] if spec else [],
            "rejected": list(spec.rejected) if spec else [],
            "notes": spec.notes if spec else "",
        },
        "candidates": [
            {"candidate": j.candidate, "gates": list(map(asdict, j.gates)), "lacked": lacked(j.gates)}
            for j in (record.candidates if record else ())
        ],
        "edits": [asdict(edit) | {"lacked": lacked(edit.gates)} for edit in round.edits or ()],
    }


def sentence(record: RoundRecord) -> str:
    """The decision in one sentence: the gate, the reason, the scores, what it took."""
    last = ", last gate" if record.decision == "accepted" else " by"  # no gate accepts: none of them rejected
    by = f"{last} {record.gate}" if record.gate else ""
    after = "" if record.score_after is None else f" → {record.score_after:g}"
    flips = "".join(
        f", {word} {len(pairs)}"
        for word, pairs in (("gained", record.gained), ("lost", record.lost))
        if pairs
    )
    return (
        f"{record.decision.upper()}{by}: {record.reason}. "
        f"Training score {record.score_before:g}{after}{flips}; editor calls {record.editor_calls}."
    ) + (f" The training ended: {record.ended}." if record.ended else "")


def lacked(gates: Iterable[GateResult]) -> str:
    """What a candidate lacked: what the gate that rejected it asks, and why it did not hold; empty if none did."""
    return next((f"{g.asks} ({g.name}): {g.reason}" for g in gates if g.outcome == "rejected"), "")


def numbers(result: GateResult) -> str:
    """The figures of a gate in one line; long lists are counted."""
    shown = []
    for name, value in result.numbers.items():
        if isinstance(value, float):
            value = f"{value:.3g}"
        elif isinstance(value, (list, tuple, dict)):
            value = len(value)
        shown.append(f"{name.replace('_', ' ')} {value}")
    return ", ".join(shown)


def _saw(failures: Sequence[Failure], patterns: Patterns | None, subset: Subset | None) -> dict[str, Any]:
    by_key, picked = {f.key: f for f in failures}, set(subset.keys if subset else ())
    return {
        "failures": len(failures),
        "tasks": len({f.task_id for f in failures}),
        "patterns": [
            {
                "pattern": p.id, "name": p.name, "failures": len(p.members), "tasks": len(p.tasks),
                "recurring": p.recurring, "picked": len(picked & set(p.members)),
            }
            for p in (patterns.patterns if patterns else ())
        ],
        "picks": [
            {
                "trial": p.key, "task": by_key[p.key].task_id if p.key in by_key else "",
                "pattern": patterns.label(p.key) if patterns else -1,
                "what": by_key[p.key].first_bad_what if p.key in by_key else "", "why": p.reason,
            }
            for p in (subset.picks if subset else ())
        ],
    }  # fmt: skip


# -- as text ---------------------------------------------------------------------------------------------------------


def runs_text(found: Rows) -> str:
    """The list of runs as a table, a line an arm; accuracy in per cent of the model that was trained on."""
    rows = []
    for run in found:
        shown = {"run": run["run"], "state": run["state"], "model": run["model"]}
        cost = "–" if run["cost_usd"] is None else f"{run['cost_usd']:.2f}"
        for arm in run["arms"] or [""]:
            accuracy, rounds = run["accuracy"].get(arm), run["rounds"].get(arm)
            percent = "–" if accuracy is None else f"{100 * accuracy:.1f}"
            rows.append(
                {**shown, "arm": arm, "accuracy %": percent, "rounds": rounds or "", "cost USD": cost}
            )
            shown, cost = dict.fromkeys(shown, ""), ""
    return _table(rows) or "no runs yet"


def text(found: Mapping[str, Any]) -> str:
    """What :func:`told` found, for a terminal."""
    head = f"run {found['run']}: {found['state']}"
    if not found["rounds"]:
        return f"{head}\nno training rounds"
    unspent = {
        arm: {name: value for name, value in budget.items() if value != 0}
        for arm, budget in found["left"].items()
    }
    left = [
        f"not spent by {arm}: {', '.join(map(_left, budget.items()))}"
        for arm, budget in unspent.items()
        if budget
    ]
    return "\n\n".join([head, *map(_round_text, found["rounds"]), "\n".join(left)])


def _left(part: tuple[str, Any]) -> str:
    name, value = part
    return f"{name} {'unknown' if value is None else f'{value:,}'}"


def _round_text(round: Mapping[str, Any]) -> str:
    saw, proposed = round["saw"], round["proposed"]
    parts = [_title(round), _filled(round["told"])]
    if saw["failures"]:
        parts += ["", f"saw {saw['failures']} failures of {saw['tasks']} tasks; patterns:"]
        parts += [
            _table(saw["patterns"]),
            "read:",
            _table([{**p, "trial": p["trial"][:SHORT]} for p in saw["picks"]]),
        ]
    if proposed["changes"]:
        parts += ["", "proposed:", _table([_change_row(c) for c in proposed["changes"]])]
    parts += [_filled(f"dropped: {d['what']} ({d['why']})") for d in proposed["dropped"]]
    parts += [line for c in round["candidates"] if not round["edits"] for line in _candidate_lines(c)]
    for i, edit in enumerate(round["edits"], 1):
        by = f" by {edit['gate']}" if edit["gate"] else ""
        parts += ["", _filled(f"edit {i}, task {edit['task']}: {edit['decision']}{by}: {edit['reason']}")]
        parts += [_gates_text(edit["gates"])] if edit["gates"] else []
    return "\n".join(parts)


def _title(round: Mapping[str, Any]) -> str:
    by_hand = played((round["record"] or {"notes": ()})["notes"])
    title = f"{round['arm']}, round {round['round']}" + (f" ({by_hand})" if by_hand else "")
    return f"{title}\n{'-' * len(title)}"


def _candidate_lines(candidate: Mapping[str, Any]) -> list[str]:
    lacking = [_filled(f"lacked: {candidate['lacked']}")] if candidate["lacked"] else []
    return [
        "",
        f"gates of candidate {candidate['candidate'][:SHORT]}:",
        _gates_text(candidate["gates"]),
        *lacking,
    ]


def _gates_text(gates: Rows) -> str:
    results = [GateResult(**gate) for gate in gates]
    return _table(
        [
            {
                "gate": g.name,
                "outcome": g.outcome,
                "seconds": f"{g.seconds:.2f}",
                "numbers": numbers(g) or g.reason,
            }
            for g in results
        ]
    )


def _change_row(change: Mapping[str, Any]) -> dict[str, Any]:
    made = Change(**change)
    guard = json.dumps(made.guard, ensure_ascii=False) if made.guard else ""
    pattern = "" if made.pattern is None else f"P{made.pattern}"
    return {"file": made.file, "pattern": pattern, "what": made.what, "guard": guard}


def _table(rows: Rows) -> str:
    """Rows as a plain table; the widest cells are cut until it fits ``WIDTH``. An empty text without rows."""
    import pandas as pd

    if not rows:
        return ""
    frame = pd.DataFrame(rows).map(_cell)
    widths = {name: max(len(name), *frame[name].str.len()) for name in frame}
    while sum(widths.values()) + 2 * len(widths) > WIDTH:
        widths[max(widths, key=lambda name: widths[name])] -= 1
    frame = frame.apply(lambda column: column.map(lambda cell: _cut(cell, widths[column.name])))
    lines = frame.rename(columns=lambda name: name.ljust(widths[name])).to_string(index=False).splitlines()
    return "\n".join(f"  {line}".rstrip() for line in lines)


def _cell(value: Any) -> str:
    return " ".join(("yes" if value is True else "no" if value is False else str(value)).split())


def _cut(cell: str, width: int) -> str:
    return cell.ljust(width) if len(cell) <= width else f"{cell[: width - 1]}…"


def _filled(paragraph: str) -> str:
    return fill(" ".join(paragraph.split()), WIDTH, subsequent_indent="  ", break_long_words=False)
