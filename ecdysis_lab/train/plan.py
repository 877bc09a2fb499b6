"""What a run will take and what it can show, before its first call: the smallest gain, calls, tokens, cost by arm.

Counts are those of a run whose every round edits once, reruns every training trial and reuses none; what is not counted
is said. What a trial takes is the mean of earlier trials of the same benchmark, model and user where the store has any,
else a typical figure; which of the two is said. A price that nobody knows stays unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from ecdysis_lab.benchmarks import load_benchmark
from ecdysis_lab.records import Usage
from ecdysis_lab.review.editors import chosen, price_of
from ecdysis_lab.store import Store
from ecdysis_lab.train.arms import ARMS, Arm
from ecdysis_lab.train.gates import sign_test_p
from ecdysis_lab.train.settings import Settings

SIGNIFICANT = 0.05
ROLES = 3  # that speak in each round of a debate; the Moderator closes it
ALONE_TOKENS = 15_000  # of a call about a single failure: contract, one transcript, tools, policy, harness
ANSWER_TOKENS = 1_500  # of a review turn or an edit
USER_SHARE = 0.2  # of a typical trial's tokens, where a model plays the user
NOT_COUNTED = (
    "the editor's second call, the turns that a debate reads again as it grows, the reruns of pruning"
)
COUNTS = (
    "training_trials",
    "test_trials",
    "agent_calls",
    "review_calls",
    "editor_calls",
    "tokens",
    "cost_usd",
)


@dataclass(frozen=True)
class Trials:
    """What one trial of a model takes.

    Parameters
    ----------
    calls : of the agent. prompt_tokens, completion_tokens : of agent and user. cost_usd : None where unknown.
    failing : share of trials that fail. about : where the figures come from.
    """

    calls: float
    prompt_tokens: float
    completion_tokens: float
    cost_usd: float | None
    failing: float
    about: str

    @property
    def tokens(self) -> float:
        """Tokens of agent and user."""
        return self.prompt_tokens + self.completion_tokens


TYPICAL = Trials(
    12, 75_000, 2_000, None, 0.5, "a typical trial: 12 agent calls, 77,000 tokens, one of two fails"
)
# Calls and tokens: means of 25 trials of a 1.5B model on DBBench, tests/benchmarks/real/README.md.
TYPICAL_ALONE = Trials(
    2, 1_800, 290, None, 0.5, "a typical trial without a user: 2 agent calls, 2,100 tokens, one of two fails"
)


def plan(settings: Settings, store: Store) -> dict[str, Any]:
    """Smallest detectable gains, and a row of expected counts for each arm, A/A evaluation and paired trials included.

    Parameters
    ----------
    settings : of the run. store : earlier trials.

    Returns
    -------
    ``{"smallest_gain": {"train", "test"}, "arms": [row, ...], "others": [row, ...], "total": row, "basis":
    [sentence, ...]}``; a row has the keys ``arm`` (in ``others``: the setting that asks for it) and ``COUNTS``, and a
    gain those of :func:`smallest_gain`.
    """
    known = {model: trials_of_model(settings, store, model) for model in settings.models}
    rows, started = [], False
    for name in settings.arms:
        arm = ARMS[name]
        rows.append({"arm": name, **_row(settings, arm, known, start=arm.trains and not started)})
        started = started or arm.trains
    others = _others(settings, known, started=started)
    return {
        "smallest_gain": {
            "train": smallest_gain(settings.train_tasks, settings.trials),
            "test": smallest_gain(settings.test_tasks, settings.trials),
        },
        "arms": rows,
        "others": others,
        "total": {name: _sum(row[name] for row in [*rows, *others]) for name in COUNTS},
        "basis": [f"{model}: {trials.about}" for model, trials in known.items()],
    }


def smallest_gain(tasks: int, trials: int) -> dict[str, Any]:
    """The smallest gain that a sign test by task tells from chance.

    Parameters
    ----------
    tasks, trials : of one side of the comparison.

    Returns
    -------
    ``net_tasks``: tasks that have to rise while none falls, None where there are too few; ``points``: what that is of
    accuracy at least, where each of them wins one trial.
    """
    needed = next((n for n in range(1, tasks + 1) if sign_test_p(n, 0) < SIGNIFICANT), None)
    points = None if needed is None else 100 * needed / (tasks * trials)
    return {"tasks": tasks, "trials": trials, "net_tasks": needed, "points": points}


def trials_of_model(settings: Settings, store: Store, model: str) -> Trials:
    """What a trial of a model takes, by its earlier trials on this benchmark."""
    earlier = store.trajectories(benchmark=settings.benchmark, model=model, status="scored")
    user = settings.user_model if load_benchmark(settings.benchmark).user == "model" else ""
    found = [t for t in earlier if not t.reused_from and t.trial.user_model == user]
    if not found:
        typical = TYPICAL if user else TYPICAL_ALONE
        return replace(typical, cost_usd=_typical_cost(typical, model, user))
    usages = [sum(t.usage.values(), Usage()) for t in found]
    costs = [u.cost_usd for u in usages if u.cost_usd is not None]
    return Trials(
        calls=fmean(t.usage.get("agent", Usage()).calls for t in found),
        prompt_tokens=fmean(u.prompt_tokens for u in usages),
        completion_tokens=fmean(u.completion_tokens for u in usages),
        cost_usd=fmean(costs) if len(costs) == len(usages) else None,
        failing=fmean(not t.success for t in found),
        about=f"the mean of {len(found)} earlier trials on {settings.benchmark}",
    )


def _typical_cost(typical: Trials, model: str, user: str) -> float | None:
    """Of a typical trial, agent and user each at its own price."""
    share = USER_SHARE if user else 0.0
    parts = ((model, 1 - share), (user, share)) if user else ((model, 1.0),)
    return _sum(
        _cost(name, part * typical.prompt_tokens, part * typical.completion_tokens) for name, part in parts
    )


def _others(settings: Settings, known: Mapping[str, Trials], *, started: bool) -> list[dict[str, Any]]:
    """Trials of the start harness that belong to no arm: A/A evaluation, and those that pair the other models.

    Parameters
    ----------
    settings, known : of the run. started : whether an arm has run the start harness with the training model.
    """
    every, own = settings.train_tasks * settings.trials, known[settings.model]
    paired = [m for m in settings.models if not (started and m == settings.model)] if settings.paired else []
    asked = {
        "noise_floor": [(own, settings.noise_floor * every)] if settings.noise_floor else [],
        "paired": [(known[model], every) for model in paired],
    }
    return [{"arm": name, **_trial_counts(trials)} for name, trials in asked.items() if trials]


def _trial_counts(asked: list[tuple[Trials, int]]) -> dict[str, Any]:
    """Counts of training trials that nobody reviews."""
    return {
        "training_trials": sum(n for _, n in asked),
        "test_trials": 0,
        "agent_calls": round(sum(n * t.calls for t, n in asked)),
        "review_calls": 0,
        "editor_calls": 0,
        "tokens": round(sum(n * t.tokens for t, n in asked)),
        "cost_usd": _sum(t.cost_usd if t.cost_usd is None else n * t.cost_usd for t, n in asked),
    }


def _row(settings: Settings, arm: Arm, known: Mapping[str, Trials], *, start: bool) -> dict[str, Any]:
    """Counts of one arm; ``start`` where it is the one that has to run the start harness."""
    own, every = known[settings.model], settings.train_tasks * settings.trials
    test = settings.test_tasks * settings.trials
    edits = _edits(settings, arm, round(own.failing * every))
    training = _training_trials(settings, arm, edits) + every * start
    asked = [(own, training), *((known[model], test) for model in settings.models)]
    review, prompt = edits * _turns(settings, arm), _prompt_tokens(settings, arm)
    calls = review + (0 if _ruled(settings) else edits)
    return {
        "training_trials": training,
        "test_trials": test * len(settings.models),
        "agent_calls": round(sum(n * t.calls for t, n in asked)),
        "review_calls": review,
        "editor_calls": edits,
        "tokens": round(sum(n * t.tokens for t, n in asked)) + calls * (prompt + ANSWER_TOKENS),
        "cost_usd": _sum([
            *(t.cost_usd if t.cost_usd is None else n * t.cost_usd for t, n in asked if n),
            *([_cost(settings.review_model, calls * prompt, calls * ANSWER_TOKENS)] if calls else []),
        ]),
    }  # fmt: skip


def expected_calls(settings: Settings, name: str, failures: int) -> tuple[int, int]:
    """Review calls and editor calls of an arm over all rounds.

    Parameters
    ----------
    settings : of the run. name : of the arm. failures : that a round starts from.
    """
    arm = ARMS[name]
    edits = _edits(settings, arm, failures)
    return edits * _turns(settings, arm), edits


def _edits(settings: Settings, arm: Arm, failures: int) -> int:
    """Calls of the editor over all rounds."""
    return (failures if arm.edits == "failure" else 1) * settings.rounds if arm.trains else 0


def _turns(settings: Settings, arm: Arm) -> int:
    """Review calls before one edit."""
    rules, debate = _ruled(settings), settings.debate if arm.debate is None else arm.debate
    if arm.edits == "failure":
        return int(rules)
    return ROLES * debate + 1 if debate else 2 * rules


def _ruled(settings: Settings) -> bool:
    """Whether the editor is the one without a model, which needs the guards of a review."""
    return chosen(settings.editor, settings.review_model, settings.api_base or None) == "rules"


def _training_trials(settings: Settings, arm: Arm, edits: int) -> int:
    """Reruns of candidates, and of both sides where gains are confirmed."""
    every = settings.train_tasks * settings.trials
    if (
        arm.edits == "failure" and not arm.rollback
    ):  # each on its own task, which after an edit runs before it too
        own = 2 * edits - settings.rounds
        return own * settings.trials + (settings.rounds - 1) * every if edits else 0
    confirmed = 2 * settings.repeats if arm.edits == "round" else 0
    return settings.rounds * every * (1 + confirmed) if edits else 0


def _prompt_tokens(settings: Settings, arm: Arm) -> int:
    return ALONE_TOKENS if arm.edits == "failure" else settings.context_tokens


def _cost(model: str, prompt: float, completion: float) -> float | None:
    price = price_of(model)
    return None if price is None else prompt * price[0] + completion * price[1]


def _sum(values: Iterable[Any]) -> Any:
    """The sum, or None where one is unknown."""
    found = list(values)
    return None if None in found else sum(found)


def lines(found: Mapping[str, Any]) -> list[str]:
    """The plan as text, a line an arm."""
    gains = [_gain_line(name, gain) for name, gain in found["smallest_gain"].items()]
    table = [
        ("arm", *COUNTS),
        *(
            (row["arm"], *map(_cell, COUNTS, (row[c] for c in COUNTS)))
            for row in [*found["arms"], *found["others"]]
        ),
    ]
    table.append(("total", *(_cell(c, found["total"][c]) for c in COUNTS)))
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    shown = [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))]
        )
        for row in table
    ]
    said = f"expected where every round edits once and no rerun is saved; not counted: {NOT_COUNTED}. Trials as in"
    return [*gains, *shown, f"{said} {'; '.join(found['basis'])}"]


def _gain_line(side: str, gain: Mapping[str, Any]) -> str:
    about = f"{side}: {gain['tasks']} tasks x {gain['trials']} trials"
    if gain["net_tasks"] is None:
        return f"{about}: too few tasks for a sign test to tell any gain from chance"
    return (
        f"{about}: the smallest gain that is no chance (sign test by task, p < {SIGNIFICANT}) is {gain['net_tasks']} "
        f"tasks that rise while none falls, {gain['points']:.1f} points of accuracy or more"
    )


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "unknown"
    return f"{value:.2f}" if name == "cost_usd" else f"{value:,}"
