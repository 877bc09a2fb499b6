"""Does the accommodation ratio t find the planted quirks? SIMULATED models; real decision code.

``python tests/benchmarks/accommodation.py [--seeds 5] [--rounds 3] [--json] [--data FOLDER]``

Per domain, training model (``sim/small``, ``sim/quirky``) and seed: 20 training tasks, two trials each, patterns, a
quarter, the review, and every change it proposes over some rounds. At hand besides: ``sim/medium`` and ``sim/large`` on
20 test tasks, as an experiment leaves them. Truth of a change: the cause (``quirk`` or ``defect``) of the planted slip
that its remedy belongs to where a cited trial made that slip, else of the slip that made the cited trials fail.
``bag_padding`` and ``first_payment_method`` are quirks that ``sim/quirky`` shares with a model at hand, so that nobody
could call them one model's own from these traces; ``own`` counts them as no quirk, ``planted`` as a quirk.
Rows: the whole rule, and each of its two signals alone. Precision and recall are those of "model-specific".
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import proposals
import testbed

from ecdysis_lab import harness as harnesses
from ecdysis_lab.accommodation import Decision, ratio
from ecdysis_lab.accommodation_run import Round, judge_round
from ecdysis_lab.context import short
from ecdysis_lab.editors.rules import RulesEditor
from ecdysis_lab.embed import embedder
from ecdysis_lab.records import Change, Failure
from ecdysis_lab.sim.profiles import PROFILES
from ecdysis_lab.sim.slips import BLUNDER, CATALOGUE
from ecdysis_lab.store import Store

TRAINED, AT_HAND = ("sim/small", "sim/quirky"), ("sim/medium", "sim/large")
SLIP_OF_ARGUMENT = {
    "expression": "expression_form", "total_baggages": "number_as_text", "reservation_id": "reservation_id_form",
    "order_id": "order_id_form", "payment_id": "payment_id_form", "payment_method_id": "payment_id_form",
    "item_ids": "list_as_text", "flights[].date": "date_form", "zip": "zip_form", "origin": "airport_form",
    "destination": "airport_form", "reason": "reason_form", "country": "country_form",
    "product_id": "item_for_product",
}  # fmt: skip
SLIP_OF_KIND = {"known_tools": "unknown_tool", "repeat_breaker": "loop", "unfinished_work": "stop_early"}


@dataclass(frozen=True)
class Case:
    """One change: the decision, and the planted slips behind the trials it cites."""

    domain: str
    model: str
    seed: int
    decision: Decision
    slips: tuple[str, ...]

    def true(self, own_only: bool) -> bool:
        """Whether most of its slips are quirks; with ``own_only`` those that no model at hand has."""
        shared = {q for m in AT_HAND for q in PROFILES[m.removeprefix("sim/")].quirks}
        quirks = {s.name for s in (*CATALOGUE[self.domain], BLUNDER) if s.quirk}
        counted = quirks - shared if own_only else quirks
        return 2 * sum(s in counted for s in self.slips) > len(self.slips)


def slip_of(change: Change, truth: dict[str, Any]) -> str:
    """The planted slip that a change answers in a trial."""
    guard = change.guard or {}
    named = guard.get("argument") or (re.findall(r"^Argument `(.+?)`", str(guard.get("text"))) or [""])[0]
    wanted = SLIP_OF_KIND.get(str(guard.get("kind")), SLIP_OF_ARGUMENT.get(named, ""))
    if guard.get("kind") == "argument_names":
        wanted = "extra_argument" if None in guard["names"].values() else "argument_name"
    return wanted if wanted in truth["slips"] else str(truth["fatal"])


def cases_of(store: Store, domain: str, model: str, seed: int, rounds: int, splits: Sequence[str]) -> list[Case]:
    """Every change that the rounds propose, judged."""
    others = {m: [f for s in splits for f in at_hand(store, domain, m, s, seed)] for m in AT_HAND}
    made = []
    for p in proposals.proposals(store, domain, model, seed, rounds):
        with tempfile.TemporaryDirectory() as folder:
            candidate = RulesEditor().edit(proposals.empty().path, p.spec, Path(folder) / "candidate")
            found = Round(
                "ecdysis", p.n, "", p.spec.changes, p.failures, p.patterns, proposals.empty(),
                harnesses.load(candidate.path), model,
            )  # fmt: skip
            decisions = judge_round(found, others, embedder=embedder("auto", store), seed=seed)
        keys = {short(f.key): f.key for f in p.failures}
        for change, decision in zip(p.spec.changes, decisions, strict=True):
            cited = dict.fromkeys(keys[e.partition("#")[0]] for e in change.evidence)
            truths = [t.truth for k in cited if (t := store.get(k, with_truth=True))]
            made.append(Case(domain, model, seed, decision, tuple(slip_of(change, t) for t in truths)))
    return made


def at_hand(store: Store, domain: str, model: str, split: str, seed: int) -> list[Failure]:
    """Failures of a model on the tasks of a split."""
    return proposals.failures_of(domain, proposals.trials_of(store, domain, model, split, seed))


def signals(decision: Decision) -> dict[str, bool]:
    """The decision, and what each signal would say alone."""
    elsewhere = any(n for m, (n, _) in decision.fired.items() if m != decision.model)
    own = decision.fired.get(decision.model, (0, 0))[0] > 0
    auxiliary = decision.reasons[0].startswith("auxiliary")
    return {
        "rule": bool(decision.model_specific),
        "pattern alone": auxiliary or not any(n for n, _ in decision.seen.values()),
        "trigger alone": own and not elsewhere,
    }


def table(cases: Sequence[Case], own_only: bool) -> dict[str, dict[str, float | int | None]]:
    """Per rule: counts, precision and recall of model-specific."""
    out: dict[str, dict[str, float | int | None]] = {}
    for name in ("rule", "pattern alone", "trigger alone"):
        pairs = [(signals(c.decision)[name], c.true(own_only)) for c in cases]
        hit, said, real = sum(a and b for a, b in pairs), sum(a for a, _ in pairs), sum(b for _, b in pairs)
        out[name] = {
            "precision": round(hit / said, 3) if said else None,
            "recall": round(hit / real, 3) if real else None,
            "hit": hit,
            "said": said,
            "real": real,
            "changes": len(pairs),
        }
    return out


def measure(seeds: int, rounds: int, data: Path) -> dict[str, Any]:
    """Tables over both kinds of truth, and t per domain and model beside the planted one."""
    store = Store(data)
    every: list[Case] = []
    ratios = []
    for domain in testbed.DOMAINS:
        for model in TRAINED:
            cases = [c for s in range(seeds) for c in cases_of(store, domain, model, s, rounds)]
            every += cases
            true = [sum(c.true(own) for c in cases) / len(cases) if cases else None for own in (True, False)]
            t = ratio([c.decision for c in cases])
            ratios.append({"domain": domain, "model": model, "changes": len(cases), "t": t,
                           "t_own": true[0], "t_planted": true[1]})  # fmt: skip
    wrong = [
        {"id": f"{c.domain} {c.model} seed {c.seed} {c.decision.id}", "what": c.decision.what[:70],
         "slips": c.slips, "said": c.decision.word, "reasons": c.decision.reasons}
        for c in every
        if bool(c.decision.model_specific) != c.true(True)
    ]  # fmt: skip
    return {
        "simulated": True,
        "seeds": seeds,
        "changes": len(every),
        "own": table(every, True),
        "planted": table(every, False),
        "ratios": ratios,
        "wrong": wrong,
    }


def main() -> None:
    """Print the tables, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--data", type=Path, default=testbed.DATA)
    asked = parser.parse_args()
    found = measure(asked.seeds, asked.rounds, asked.data)
    if asked.json:
        print(json.dumps(found))
        return
    print(
        f"SIMULATED, {found['changes']} changes over {found['seeds']} seeds, 2 domains, {', '.join(TRAINED)}"
    )
    for truth in ("own", "planted"):
        for name, row in found[truth].items():
            print(f"{truth:8s} {name:14s}", "  ".join(f"{k} {v}" for k, v in row.items()))
    for row in found["ratios"]:
        print({k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()})
    for row in found["wrong"]:
        print("wrong:", row["id"], row["what"], row["slips"], row["said"], *row["reasons"], sep="\n    ")


if __name__ == "__main__":
    main()
