"""How many trial reruns do the cheaper gates save? SIMULATED models and reviewer; real gates, replays and editor.

``python tests/benchmarks/gates.py [--seeds 2] [--json] [--data FOLDER]`` -> ``reruns_strict_only``, ``reruns_gated``

Per domain, training model (``sim/small``, ``sim/quirky``) and seed: 20 training tasks, two trials each in the empty
harness, one review. Honest candidates: the rules editor's for the whole spec and for each of its changes alone.
Over-broad ones, one per kind: ``lower`` (every id in small letters), ``confirm`` (a yes before any call, reads too),
``deny`` (the write that passing trials use most is refused), ``hush`` (no reply before two calls), ``leak`` (the spec
with the id of a customer in a hint), ``fault`` (a hook that breaks on real ids), ``import`` (a forbidden import).

A strict-improvement gate alone reruns every training trial of every candidate. With the gates before it a rejected
candidate costs none, and of the others only tasks are rerun in which the replay shows a byte changed for the model.
``reruns_legal_only`` is what the legal-action gate would leave by itself. Aim: ``reruns_gated`` at most half.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import proposals
import testbed
from proposals import Proposal

from ecdysis_lab.benchmarks import load_benchmark
from ecdysis_lab.harness import copy_harness, diff_harness, load_harness
from ecdysis_lab.records import Candidate, Change, Spec, Trajectory, Usage
from ecdysis_lab.review.editors.rules import RulesEditor
from ecdysis_lab.store import Store
from ecdysis_lab.train import gates
from ecdysis_lab.train.judging import Judging

TRAINED = ("sim/small", "sim/quirky")
IDS = ("reservation_id", "order_id")
DENY = """from ecdysis_lab.hooks import Allow, Refuse


def check(call, view):
    if call.name == {tool!r}:
        return Refuse("This is risky.", "Hand the customer over.", "deny")
    return Allow()
"""
FAULT = """from ecdysis_lab.hooks import Allow


def check(call, view):
    if any("_" in str(value) for value in call.arguments.values()):
        return 1 / 0
    return Allow()
"""
HUSH = """from ecdysis_lab.hooks import Allow, Refuse


def on_reply(text, view):
    if len(view.done) < 2:
        return Refuse("Look first, then talk.", "Call a tool.", "hush")
    return Allow()
"""
Made = tuple[str, str, Candidate]
"""(class, kind, candidate)."""


def candidates(p: Proposal, folder: Path) -> Iterator[Made]:
    """Honest and over-broad candidates of one proposal."""
    yield "honest", "spec", _rules(p.spec, folder / "spec")
    for n, change in enumerate(p.spec.changes):
        one = replace(p.spec, changes=(change,))
        yield "honest", proposals.guard_name(change), _rules(one, folder / f"change-{n}")
    for kind, guard in _broad_guards(p).items():
        change = Change("actions", "actions.py", kind, "", (), guard=guard)
        yield "over-broad", kind, _rules(replace(p.spec, changes=(change,)), folder / kind)
    sources = {
        "deny": DENY.format(tool=_most_used_write(p)),
        "hush": HUSH,
        "fault": FAULT,
        "import": "import os\n" + DENY.format(tool=_most_used_write(p)),
    }
    for kind, source in sources.items():
        name = "regulation.py" if kind == "hush" else "actions.py"
        yield "over-broad", kind, _written(source, name, folder / kind)
    hint = {
        "kind": "contract_hint",
        "tool": "calculate",
        "text": f"As customer {_customer(p)} asked, be exact.",
    }
    leak = Change("contract", "contract.py", "leak", "", (), guard=hint)
    yield "over-broad", "leak", _rules(replace(p.spec, changes=(*p.spec.changes, leak)), folder / "leak")


def _broad_guards(p: Proposal) -> dict[str, dict[str, Any]]:
    tools = load_benchmark(f"tau2/{p.domain}").tools
    own_id = next(a for a in IDS if any(a in t["parameters"].get("properties", {}) for t in tools))
    return {
        "lower": {"kind": "canonical_argument", "argument": own_id, "transform": ["lower"]},
        "confirm": {"kind": "confirm_before_write", "tools": sorted(t["name"] for t in tools)},
    }


def _calls(trajectories: Sequence[Trajectory]) -> Iterator[Any]:
    return (c for t in trajectories for m in t.messages for c in m.calls)


def _most_used_write(p: Proposal) -> str:
    kinds = {t["name"]: t["kind"] for t in load_benchmark(f"tau2/{p.domain}").tools}
    used = Counter(c.name for c in _calls([t for t in p.before if t.success]) if kinds.get(c.name) == "write")
    return used.most_common(1)[0][0]


def _customer(p: Proposal) -> str:
    texts = " ".join(json.dumps(c.arguments) + " " for c in _calls(p.before))
    texts += " ".join(m.content or "" for t in p.before for m in t.messages)
    return re.findall(r"\b[a-z]+_[a-z]+_\d{4}\b", texts)[0]


def _rules(spec: Spec, out: Path) -> Candidate:
    return RulesEditor().edit(proposals.empty().path, spec, out)


def _written(source: str, name: str, out: Path) -> Candidate:
    parent = proposals.empty()
    copy_harness(parent, out)
    (out / name).write_text(source, encoding="utf-8")
    child = load_harness(out)
    return Candidate(
        out, child.hash, parent.hash, diff_harness(parent, child), "benchmark", "edited", Usage()
    )


def judged(p: Proposal, candidate: Candidate) -> dict[str, Any]:
    """Trials that each way of judging would rerun, and the gate that decided before any rerun."""
    bench, everything = load_benchmark(f"tau2/{p.domain}"), len(p.before)
    judging = Judging(candidate, proposals.empty(), p.before, bench, _no_trials)
    cheap = [gate for gate in gates.GATES if not gate.paid]
    last = gates.run_gates(judging, cheap)[0][-1]
    decided = last.name if last.outcome == "rejected" else "rerun"
    if decided == "static":  # it cannot be loaded, so it cannot be replayed
        return {"strict": everything, "legal_only": everything, "gated": 0, "gate": "static"}
    changed = {t.trial.task_id for t in p.before if not judging.replays[t.key].unchanged}
    left = sum(t.trial.task_id in changed for t in p.before)
    illegal = next(g for g in cheap if g.name == "legal").run(judging)
    return {
        "strict": everything,
        "legal_only": 0 if (illegal.outcome, illegal.name) == ("rejected", "legal") else everything,
        "gated": left if decided == "rerun" else 0,
        "gate": decided,
    }


def _no_trials(*asked: Any) -> list[Trajectory]:
    raise AssertionError("gates before the rerun run no trial")


def measure(seeds: int, data: Path) -> dict[str, Any]:
    """Sums over all candidates, by class and by kind."""
    store = Store(data)
    rows: list[dict[str, Any]] = []
    for domain in testbed.DOMAINS:
        for model in TRAINED:
            for seed in range(seeds):
                for p in proposals.proposals(store, domain, model, seed, 1):
                    with tempfile.TemporaryDirectory() as folder:
                        rows += [
                            {"class": group, "kind": kind, **judged(p, made)}
                            for group, kind, made in candidates(p, Path(folder))
                            if made.outcome == "edited"
                        ]
    groups = {g: [r for r in rows if r["class"] == g] for g in ("honest", "over-broad")}
    kinds = sorted({r["kind"] for r in groups["over-broad"]})
    return {
        "simulated": True,
        **sums(rows),
        "by_class": {g: sums(found) for g, found in groups.items()},
        "over_broad": {k: sums([r for r in groups["over-broad"] if r["kind"] == k]) for k in kinds},
        "seeds": seeds,
    }


def sums(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Trial reruns of some candidates, and which gate decided how often."""
    total = {name: sum(r[name] for r in rows) for name in ("strict", "legal_only", "gated")}
    return {
        "candidates": len(rows),
        "reruns_strict_only": total["strict"],
        "reruns_gated": total["gated"],
        "reruns_legal_only": total["legal_only"],
        "saved": round(1 - total["gated"] / total["strict"], 3) if total["strict"] else None,
        "saved_by_legal_only": round(1 - total["legal_only"] / total["strict"], 3)
        if total["strict"]
        else None,
        "decided_by": dict(sorted(Counter(r["gate"] for r in rows).items())),
    }


def main() -> None:
    """Print the figures, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--data", type=Path, default=testbed.DATA)
    asked = parser.parse_args()
    found = measure(asked.seeds, asked.data)
    if asked.json:
        print(json.dumps(found))
        return
    print(
        f"SIMULATED, {found['candidates']} candidates, {found['seeds']} seeds, 2 domains, {', '.join(TRAINED)}"
    )
    lines = {"all": found, **found["by_class"], **{f"  {k}": v for k, v in found["over_broad"].items()}}
    for name, row in lines.items():
        print(f"{name:12s}", "  ".join(f"{k} {row[k]}" for k in sums([])))


if __name__ == "__main__":
    main()
