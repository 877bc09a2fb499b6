"""Does the accommodation ratio t find the planted quirks? SIMULATED models; real judgement code.

``python tests/benchmarks/accommodation.py [--seeds 5] [--first-seed 0] [--rounds 3] [--json] [--data FOLDER]``

Per domain, training model (``sim/small``, ``sim/quirky``) and seed: 20 training tasks, two trials each, patterns, a
quarter, the review, and every change it proposes over some rounds. At hand besides: ``sim/medium`` and ``sim/large``
on the same tasks (``same``), or on 20 test tasks only, as an experiment leaves them (``other``). Truth of a change: the cause (``quirk`` or ``defect``) of the planted slip
that its remedy belongs to where a cited trial made that slip, else of the slip that made the cited trials fail.
``bag_padding`` and ``first_payment_method`` are quirks that ``sim/quirky`` shares with a model at hand, so that nobody
could call them one model's own from these traces; ``own`` counts them as no quirk, ``planted`` as a quirk. ``shown``
asks only whether some other model makes the slip in a failure at hand: a defect that their tasks do not bring out
cannot be told from a quirk. Rows: the whole rule, and each of its two signals alone. Precision and recall are those of
"model-specific" over the changes that are decided; recall counts undecided ones as missed.
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

from ecdysis_lab.evaluate.accommodation import Judgement, ratio
from ecdysis_lab.evaluate.accommodation_facts import Evidence, judge_round
from ecdysis_lab.failures.embedding import embedder
from ecdysis_lab.harness import load_harness
from ecdysis_lab.models.sim.profiles import PROFILES
from ecdysis_lab.models.sim.provider import slips_of
from ecdysis_lab.models.sim.scene import BLUNDER
from ecdysis_lab.records import Change, Failure
from ecdysis_lab.review.context import short
from ecdysis_lab.review.editors.rules import RulesEditor
from ecdysis_lab.store import Store

TRUTHS = ("own", "planted", "shown")
SPLITS = {"same": "train", "other": "test"}
TRAINED, AT_HAND = ("sim/small", "sim/quirky"), ("sim/medium", "sim/large")
SLIP_OF_ARGUMENT = {
    "expression": "expression_form", "total_baggages": "number_as_text", "reservation_id": "reservation_id_form",
    "order_id": "order_id_form", "payment_id": "payment_id_form", "payment_method_id": "payment_id_form",
    "item_ids": "list_as_text", "flights[].date": "date_form", "zip": "zip_form", "origin": "airport_form",
    "destination": "airport_form", "reason": "reason_form", "country": "country_form",
    "product_id": "item_for_product",
}  # fmt: skip
SLIP_OF_TOOL = {"send_certificate": "apology_certificate", "transfer_to_human_agents": "transfer_early"}
SLIP_OF_KIND = {"known_tools": "unknown_tool", "repeat_breaker": "loop", "unfinished_work": "stop_early"}


@dataclass(frozen=True)
class Case:
    """One change: the judgement, and the planted slips behind the trials it cites."""

    domain: str
    model: str
    seed: int
    judgement: Judgement
    slips: tuple[str, ...]
    elsewhere: frozenset[str]

    def true(self, kind: str) -> bool:
        """Whether most of its slips are model-specific, by one of ``TRUTHS``."""
        shared = {q for m in AT_HAND for q in PROFILES[m.removeprefix("sim/")].quirks}
        quirks = {s.name for s in (*slips_of(f"tau2/{self.domain}"), BLUNDER) if s.quirk}
        specific = {"own": quirks - shared, "planted": quirks, "shown": set(self.slips) - self.elsewhere}[
            kind
        ]
        return 2 * sum(s in specific for s in self.slips) > len(self.slips)


def slip_of(change: Change, truth: dict[str, Any]) -> str:
    """The planted slip that a change answers in a trial."""
    guard = change.guard or {}
    named = guard.get("argument") or (re.findall(r"^Argument `(.+?)`", str(guard.get("text"))) or [""])[0]
    told = SLIP_OF_TOOL.get(str(guard.get("tool")), "")
    wanted = SLIP_OF_KIND.get(str(guard.get("kind")), SLIP_OF_ARGUMENT.get(named, told))
    if guard.get("kind") == "argument_names":
        wanted = "extra_argument" if None in guard["names"].values() else "argument_name"
    return wanted if wanted in truth["slips"] else str(truth["fatal"])


def cases_of(store: Store, domain: str, model: str, seed: int, rounds: int) -> dict[str, list[Case]]:
    """Every change that the rounds propose, judged by what is at hand: ``same`` or ``other`` tasks."""
    made: dict[str, list[Case]] = {where: [] for where in SPLITS}
    hand = {w: {m: at_hand(store, domain, m, split, seed) for m in AT_HAND} for w, split in SPLITS.items()}
    elsewhere = {
        w: frozenset(s for fs in by.values() for f in fs for s in slips_in(store, f.key))
        for w, by in hand.items()
    }
    for p in proposals.proposals(store, domain, model, seed, rounds):
        keys = {short(f.key): f.key for f in p.failures}
        cited = [dict.fromkeys(keys[e.partition("#")[0]] for e in c.evidence) for c in p.spec.changes]
        slips = [
            tuple(slip_of(c, t.truth) for k in ks if (t := store.get(k, with_truth=True)))
            for c, ks in zip(p.spec.changes, cited, strict=True)
        ]
        for where, judgements in judged(store, p, hand, seed).items():
            pairs = zip(judgements, slips, strict=True)
            made[where] += [Case(domain, model, seed, d, s, elsewhere[where]) for d, s in pairs]
    return made


def judged(
    store: Store, p: proposals.Proposal, hand: dict[str, Any], seed: int
) -> dict[str, list[Judgement]]:
    """Judgements on one proposal, for each kind of traces at hand."""
    with tempfile.TemporaryDirectory() as folder:
        candidate = RulesEditor().edit(proposals.empty().path, p.spec, Path(folder) / "candidate")
        found = Evidence(
            "ecdysis", p.n, "", p.spec.changes, p.failures, p.patterns, proposals.empty(),
            load_harness(candidate.path), p.model,
        )  # fmt: skip
        embed = embedder("auto", store)
        return {w: judge_round(found, others, embedder=embed, seed=seed) for w, others in hand.items()}


def slips_in(store: Store, key: str) -> set[str]:
    """Names of the planted slips of a trial."""
    trajectory = store.get(key, with_truth=True)
    return set(trajectory.truth["slips"]) if trajectory else set()


def at_hand(store: Store, domain: str, model: str, split: str, seed: int) -> list[Failure]:
    """Failures of a model on the tasks of a split."""
    return proposals.failures_of(domain, proposals.trials_of(store, domain, model, split, seed))


def signals(judgement: Judgement) -> dict[str, bool | None]:
    """The judgement, and what each signal would say alone."""
    others = [c for m, c in judgement.fired.items() if m != judgement.model]
    own = judgement.fired.get(judgement.model, (0, 0))[0] > 0
    seen = [n for m, (n, _) in judgement.seen.items() if m != judgement.model]
    auxiliary = judgement.reasons[0].startswith("auxiliary")
    return {
        "rule": judgement.model_specific,
        "pattern alone": auxiliary or not any(seen),
        "trigger alone": own and not any(n for n, _ in others),
    }


def table(cases: Sequence[Case], truth: str) -> dict[str, dict[str, float | int | None]]:
    """Per rule: counts, precision and recall of model-specific."""
    out: dict[str, dict[str, float | int | None]] = {}
    for name in ("rule", "pattern alone", "trigger alone"):
        pairs = [(signals(c.judgement)[name], c.true(truth)) for c in cases]
        hit, said, real = (
            sum(bool(a) and b for a, b in pairs),
            sum(bool(a) for a, _ in pairs),
            sum(b for _, b in pairs),
        )
        out[name] = {
            "precision": round(hit / said, 3) if said else None,
            "recall": round(hit / real, 3) if real else None,
            "hit": hit,
            "said": said,
            "real": real,
            "undecided": sum(a is None for a, _ in pairs),
            "changes": len(pairs),
        }
    return out


def measure(seeds: Sequence[int], rounds: int, data: Path) -> dict[str, Any]:
    """Tables over all kinds of truth and of traces at hand, and t beside the planted one."""
    store = Store(data)
    every: dict[str, list[Case]] = {where: [] for where in SPLITS}
    for domain in testbed.DOMAINS:
        for model in TRAINED:
            for seed in seeds:
                for where, cases in cases_of(store, domain, model, seed, rounds).items():
                    every[where] += cases
    return {
        "simulated": True,
        "seeds": len(seeds),
        "changes": len(every["same"]),
        "tables": {w: {t: table(cases, t) for t in TRUTHS} for w, cases in every.items()},
        "ratios": [row for w, cases in every.items() for row in ratios(w, cases)],
        "wrong": [wrong(w, c) for w, cases in every.items() for c in cases
                  if c.judgement.model_specific not in (None, c.true("own"))],
    }  # fmt: skip


def ratios(where: str, cases: Sequence[Case]) -> list[dict[str, Any]]:
    """t by domain and model, beside the planted share."""
    rows = []
    for domain, model in dict.fromkeys((c.domain, c.model) for c in cases):
        mine = [c for c in cases if (c.domain, c.model) == (domain, model)]
        true = {f"t_{kind}": round(sum(c.true(kind) for c in mine) / len(mine), 3) for kind in TRUTHS}
        t = ratio([c.judgement for c in mine])
        rows.append({"at_hand": where, "domain": domain, "model": model, "changes": len(mine),
                     "t": t if t is None else round(t, 3), **true})  # fmt: skip
    return rows


def wrong(where: str, case: Case) -> dict[str, Any]:
    """A judgement that differs from the truth ``own``."""
    d = case.judgement
    return {"case": f"{where} tasks, {case.domain}, {case.model}, seed {case.seed}, {d.id}", "what": d.what[:70],
            "slips": case.slips, "said": d.word, "reasons": d.reasons}  # fmt: skip


def main() -> None:
    """Print the tables, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--data", type=Path, default=testbed.DATA)
    asked = parser.parse_args()
    seeds = range(asked.first_seed, asked.first_seed + asked.seeds)
    found = measure(seeds, asked.rounds, asked.data)
    if asked.json:
        print(json.dumps(found))
        return
    print(
        f"SIMULATED, {found['changes']} changes over {found['seeds']} seeds, 2 domains, {', '.join(TRAINED)}"
    )
    for where, tables in found["tables"].items():
        for truth, rows in tables.items():
            for name, row in rows.items():
                print(f"{where:6s} {truth:8s} {name:14s}", "  ".join(f"{k} {v}" for k, v in row.items()))
    for row in found["ratios"]:
        print(row)
    for row in found["wrong"]:
        print("differs from own:", *row.values(), sep="\n    ")


if __name__ == "__main__":
    main()
