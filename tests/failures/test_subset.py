"""The informative quarter: choice, reasons, overrides, band."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ecdysis_lab.failures.cards import find_failures
from ecdysis_lab.failures.coverage import Coverage
from ecdysis_lab.failures.subset import (
    all_failures,
    budget_of,
    from_file,
    identity_of,
    pick_quarter,
    random_quarter,
)
from ecdysis_lab.hooks import Call
from ecdysis_lab.records import Failure, LabError, Message, Pattern, Patterns, Subset, Trajectory, Trial


def failure(
    tools: Sequence[str], seed: int, checks: dict[str, bool] | None = None, task: str = "t"
) -> Failure:
    """A failure with the given calls; ``!`` at the end of a tool makes it an error."""
    messages = [Message("user", "hi")]
    for tool in tools:
        messages.append(Message("assistant", None, (Call(tool.rstrip("!"), {"s": seed}),)))
        messages.append(Message("tool", "x", (), "", tool.rstrip("!"), tool.endswith("!")))
    trial = Trial("b", "1", task, "train", "m", "u", "h", seed)
    checks = {"db": False} if checks is None else checks
    return find_failures([Trajectory(trial, "scored", 0.0, "user_stop", checks, tuple(messages))])[0]


def grouped(*groups: Sequence[Failure], noise: Sequence[Failure] = ()) -> Patterns:
    """Patterns of given groups."""
    found = tuple(
        Pattern(j, f"cause {j}", "", tuple(f.key for f in g), g[0].key, tuple({f.task_id for f in g}))
        for j, g in enumerate(groups)
    )
    return Patterns(found, {f.key: (-1, 0.0) for f in noise}, {}, "hdbscan", "none", 1.0, None)


A = [failure(["get", "book!"], i) for i in range(12)]
B = [failure(["get", "cancel"], 100 + i) for i in range(6)]
C = [failure(["find!", "find!"], 200 + i) for i in range(2)]
NOISE = [failure([f"odd_{i}", f"odder_{i}"], 300 + i) for i in range(4)]
ALL = [*A, *B, *C, *NOISE]
PATTERNS = grouped(A, B, C, noise=NOISE)


def test_the_quarter_opens_every_pattern_first_with_a_reason_each() -> None:
    subset = pick_quarter(ALL, PATTERNS)
    assert (
        subset.budget == 6 == len(subset.picks) and subset.n_failures == 24 and subset.origin == "automatic"
    )
    assert {PATTERNS.label(k) for k in subset.keys[:3]} == {0, 1, 2}
    first = subset.picks[0]
    assert first.gain == max(p.gain for p in subset.picks)
    for pick in subset.picks[:3]:
        label = PATTERNS.label(pick.key)
        assert f"opens pattern {label} (cause {label}) with the failed check db" in pick.reason
        assert pick.reason.endswith(".")


def test_reasons_tell_the_new_step_and_the_new_check() -> None:
    other = failure(["get", "book!", "cry!"], 900, {"db": False, "communicate": False})
    patterns = grouped([*A, other])
    subset = pick_quarter([*A, other], patterns, budget=2)
    assert subset.keys[0] == other.key  # it covers all that the others do, and more
    assert "opens pattern 0 (cause 0) with the failed check communicate, db" in subset.picks[0].reason
    assert "adds 4 new tool steps, e.g. book:error → cry:error" in subset.picks[0].reason
    assert "adds 1 new tool step, e.g. book:error → <end>" in subset.picks[1].reason
    assert subset.coverage[0] < subset.coverage[1] <= 1.0


def test_coverage_curve_is_the_sum_of_gains() -> None:
    subset = pick_quarter(ALL, PATTERNS, budget=10)
    assert np.allclose(np.cumsum([p.gain for p in subset.picks]), subset.coverage, atol=1e-3)
    assert list(subset.coverage) == sorted(subset.coverage)
    assert pick_quarter(ALL, PATTERNS, budget=24, noise_share_cap=False).coverage[-1] == pytest.approx(1.0)


def test_greedy_equals_the_plain_greedy_and_is_near_the_best() -> None:
    rng = np.random.default_rng(1)
    names = list("abcdefgh")
    items = [failure(list(rng.choice(names, 4)), i, {"db": bool(i % 3)}) for i in range(14)]
    patterns = grouped(items[:5], items[5:10], noise=items[10:])
    subset = pick_quarter(items, patterns, budget=4, noise_share_cap=False, band=0)
    ordered = sorted(items, key=lambda f: f.key)
    state, plain = Coverage(ordered, patterns), []
    for _ in range(4):
        rest = [i for i in range(14) if i not in plain]
        best = max(rest, key=lambda i: (state.gain(i), -i))
        state.add(best)
        plain.append(best)
    assert subset.coverage[-1] == pytest.approx(float(Coverage(ordered, patterns).curve(plain)[-1]), abs=1e-4)
    fresh = Coverage(ordered, patterns)
    optimum = max(float(fresh.curve(list(c))[-1]) for c in itertools.combinations(range(14), 4))
    assert subset.coverage[-1] >= 0.95 * optimum


def test_gains_only_fall() -> None:
    state = Coverage(sorted(ALL, key=lambda f: f.key), PATTERNS)
    before = [state.gain(i) for i in range(len(ALL))]
    for i in (3, 17, 8):
        state.add(i)
        after = [state.gain(j) for j in range(len(ALL))]
        assert all(b <= a + 1e-9 for a, b in zip(before, after, strict=True))
        before = after


@pytest.mark.parametrize(
    ("n", "budget", "size"),
    [(24, None, 6), (25, None, 7), (1, None, 1), (0, None, 0), (24, 5, 5), (24, 0.5, 12), (24, 0.1, 3), (3, 99, 3),
     (10, 0.3, 3)],
)  # fmt: skip
def test_budget(n: int, budget: Any, size: int) -> None:
    assert budget_of(n, budget) == size


@pytest.mark.parametrize("budget", [0, -1, 1.5, True, 0.0])
def test_wrong_budgets_are_refused(budget: Any) -> None:
    with pytest.raises(
        LabError, match="budget must be a whole number of at least 1 or a share between 0 and 1"
    ):
        pick_quarter(ALL, PATTERNS, budget)


def test_pins_come_first_and_excludes_stay_out() -> None:
    pins, out = [A[7].key, NOISE[2].key], {B[0].key, C[0].key, C[1].key}
    subset = pick_quarter(ALL, PATTERNS, pins=pins, excludes=out)
    assert list(subset.keys[:2]) == pins and not out & set(subset.keys)
    assert subset.origin == "person" and len(subset.picks) == 6
    assert subset.picks[0].reason.startswith("Pinned by hand; it opens pattern 0")
    assert {PATTERNS.label(k) for k in subset.keys} >= {0, 1}


def test_wrong_overrides_are_refused() -> None:
    with pytest.raises(LabError, match="pins: no failure with the key nope"):
        pick_quarter(ALL, PATTERNS, pins=["nope"])
    with pytest.raises(LabError, match="excludes: no failure with the key nope"):
        pick_quarter(ALL, PATTERNS, excludes=["nope"])
    with pytest.raises(LabError, match="pins and excludes both hold"):
        pick_quarter(ALL, PATTERNS, pins=[A[0].key], excludes=[A[0].key])
    with pytest.raises(LabError, match="pins: 3 are more than the budget of 2"):
        pick_quarter(ALL, PATTERNS, budget=2, pins=[a.key for a in A[:3]])


def test_noise_takes_at_most_its_share() -> None:
    capped = pick_quarter(ALL, PATTERNS, budget=12)
    free = pick_quarter(ALL, PATTERNS, budget=12, noise_share_cap=False)
    share = [sum(PATTERNS.label(k) < 0 for k in s.keys) for s in (capped, free)]
    assert share == [2, 4]  # 12 x 4 / 24
    assert len(capped.picks) == 12


def test_all_noise_is_not_capped_away() -> None:
    subset = pick_quarter(NOISE, grouped(noise=NOISE), budget=2)
    assert len(subset.picks) == 2
    assert subset.picks[0].reason.startswith("It fits no pattern (Writes none. Last call odder")
    assert "adds 3 new tool steps" in subset.picks[1].reason  # the same wrong, on another path


def test_identical_failures_fill_the_budget_and_say_so() -> None:
    subset = pick_quarter(A, grouped(A), budget=3)
    assert subset.coverage == (1.0, 1.0, 1.0)
    assert subset.picks[1].gain == 0.0
    assert subset.picks[1].reason == "It repeats what is covered of pattern 0; it fills the budget."


def test_empty_and_single() -> None:
    assert pick_quarter([], grouped()).picks == ()
    one = pick_quarter(A[:1], grouped(A[:1]))
    assert one.keys == (A[0].key,) and one.coverage == (1.0,)


def test_the_choice_beats_the_random_band_and_is_deterministic() -> None:
    subset = pick_quarter(ALL, PATTERNS, noise_share_cap=False, seed=4)  # the random subsets know no cap
    assert subset == pick_quarter(ALL[::-1], PATTERNS, noise_share_cap=False, seed=4)
    assert len(subset.random_band) == len(subset.picks)
    for coverage, (low, middle, high) in zip(subset.coverage, subset.random_band, strict=True):
        assert 0 < low <= middle <= high <= 1
        assert coverage >= high
    assert pick_quarter(ALL, PATTERNS, band=0).random_band == ()


# --- recurring patterns from two tasks

RECUR = [
    [
        failure(["get", f"act_{j}", *(["odd"] * (i % 3))], 1000 + 10 * j + i, task=f"t{j}{i // 2}")
        for i in range(6)
    ]
    for j in range(8)
]
LONELY = [[failure(["get", "alone", f"x{i}"], 2000 + i, task="same") for i in range(4)]]
RECURRING = [*(f for group in (*RECUR, *LONELY) for f in group), *NOISE]
TWICE = grouped(*RECUR, *LONELY, noise=NOISE)


def tasks_of(subset: Subset, patterns: Patterns = TWICE) -> dict[int, set[str]]:
    """Tasks picked, by pattern."""
    by_key = {f.key: f.task_id for f in RECURRING}
    found: dict[int, set[str]] = {}
    for key in subset.keys:
        found.setdefault(patterns.label(key), set()).add(by_key[key])
    return found


@pytest.mark.parametrize(("budget", "twice"), [(2, 1), (3, 1), (4, 2), (15, 7), (16, 8), (24, 8)])
def test_a_recurring_pattern_comes_with_a_second_task_while_the_budget_allows(
    budget: int, twice: int
) -> None:
    found = tasks_of(pick_quarter(RECURRING, TWICE, budget))
    seen = [len(found.get(j, ())) for j in range(8)]
    assert sum(n >= 2 for n in seen) == twice
    assert seen.count(1) == (budget % 2 if budget < 16 else 0), "one alone only where the budget is odd"


def test_what_no_recurring_pattern_needs_goes_to_the_others() -> None:
    found = tasks_of(pick_quarter(RECURRING, TWICE, 20))
    assert 8 in found and -1 in found, "the pattern of one task, and noise"
    assert not {8, -1} & tasks_of(pick_quarter(RECURRING, TWICE, 16)).keys()


def test_the_second_task_says_so() -> None:
    picks = pick_quarter(RECURRING, TWICE, 16).picks
    opened, seconds = picks[:8], picks[8:]
    assert all("opens pattern" in p.reason for p in opened)
    for pick in seconds:
        assert pick.reason.startswith(f"It is the second task of pattern {TWICE.label(pick.key)}")


def test_a_pinned_pattern_gets_its_second_task_and_excluded_tasks_are_none() -> None:
    first, *_ = RECUR[3]
    others = {f.key for f in RECUR[3] if f.task_id != first.task_id}
    free = pick_quarter(RECURRING, TWICE, 2, pins=[first.key])
    assert free.keys[0] == first.key and len(tasks_of(free)[3]) == 2
    held = pick_quarter(RECURRING, TWICE, 3, pins=[first.key], excludes=others)
    assert tasks_of(held).pop(3) == {first.task_id}
    assert [len(t) for j, t in tasks_of(held).items() if j != 3] == [2], "the room goes to another pattern"


def test_two_tasks_cost_less_coverage_than_a_random_pick() -> None:
    for budget in (15, 16, 20):
        subset = pick_quarter(RECURRING, TWICE, budget)
        assert subset.coverage[-1] >= subset.random_band[-1][1]


def test_random_quarter_and_all() -> None:
    random = random_quarter(ALL, seed=3)
    assert random.origin == "random" and len(set(random.keys)) == 6
    assert random == random_quarter(ALL[::-1], seed=3)
    assert random.keys != random_quarter(ALL, seed=4).keys
    assert len(random_quarter(ALL, 0.5, 1).picks) == 12
    every = all_failures(ALL)
    assert every.origin == "all" and every.budget == 24 and set(every.keys) == {f.key for f in ALL}


# --- a person's pick, read back from subset.json


def saved(path: Path, keys: Sequence[str], trials: dict[str, Any] | None = None) -> Path:
    """A subset.json; without ``trials`` as a run folder holds it."""
    picks = [{"key": k, "gain": 0.1, "reason": "r"} for k in keys]
    path.write_text(json.dumps({"picks": picks, "budget": len(keys), "trials": trials}))
    return path


def test_a_saved_pick_is_found_by_key_in_its_order(tmp_path: Path) -> None:
    keys = [B[1].key, A[3].key, NOISE[0].key]
    subset = from_file(saved(tmp_path / "subset.json", keys), ALL)
    assert (list(subset.keys), subset.origin) == (keys, "person")
    assert (subset.budget, subset.n_failures) == (3, 24)
    assert {p.reason for p in subset.picks} == {"Picked by a person."}


def test_a_pick_outlives_a_change_of_the_harness(tmp_path: Path) -> None:
    def moved(f: Failure, key: str) -> Failure:
        trial = replace(f.trajectory.trial, harness="h2")
        return replace(f, key=key, trajectory=replace(f.trajectory, trial=trial))

    later = [moved(f, f"later{i}") for i, f in enumerate(ALL)]
    chosen = [A[2], B[0]]
    trials = {f.key: identity_of(f) for f in chosen}
    subset = from_file(saved(tmp_path / "subset.json", list(trials), trials), later)
    assert subset.keys == ("later2", "later12")
    assert {p.reason for p in subset.picks} == {"Picked by a person before the harness changed."}


def test_picks_that_do_not_fail_any_more_are_said(tmp_path: Path) -> None:
    path = saved(tmp_path / "subset.json", [A[0].key, B[0].key, "gone-1", "gone-2"])
    with pytest.warns(
        UserWarning, match=r"subset.json: 2 of 4 picks are among the 24 failures; not gone-1, gone-2"
    ):
        subset = from_file(path, ALL)
    assert subset.keys == (A[0].key, B[0].key) and subset.budget == 4


def test_a_pick_of_other_failures_is_refused_or_replaced(tmp_path: Path) -> None:
    path = saved(tmp_path / "subset.json", ["gone-1", "gone-2"])
    with pytest.raises(LabError, match=r"subset.json: 0 of 2 picks are among the 24 failures"):
        from_file(path, ALL)
    automatic = pick_quarter(ALL, PATTERNS)
    with pytest.warns(UserWarning, match="taking the automatic subset"):
        assert from_file(path, ALL, otherwise=automatic) is automatic


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "no such file"),
        ("{", "is no subset.json"),
        ("[1]", "is no subset.json"),
        ('{"picks": [{}]}', "is no subset.json"),
        ('{"picks": []}', "holds no pick"),
    ],
)
def test_a_file_that_is_no_subset(tmp_path: Path, text: str | None, said: str) -> None:
    path = tmp_path / "subset.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(LabError, match=f"subset: .*{said}"):
        from_file(path, ALL)
