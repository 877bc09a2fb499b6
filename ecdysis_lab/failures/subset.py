"""The informative quarter: failures that add execution paths, defects and representativeness.

Coverage is monotone and submodular, and chosen greedily; a recurring pattern is shown by two tasks while the budget
allows, since what a reviewer cannot see twice is no recurrence. Each pick says what it adds.
"""

from __future__ import annotations

import json
import math
import warnings
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ecdysis_lab.failures.coverage import Coverage
from ecdysis_lab.failures.greedy import greedy
from ecdysis_lab.records import Failure, LabError, Patterns, Pick, Subset

if TYPE_CHECKING:
    import numpy as np


def budget_of(n: int, budget: int | float | None = None) -> int:
    """Number of failures to choose: a number, a share in (0, 1), or None for a quarter rounded up; at most n.

    Raises
    ------
    LabError: a budget that is neither.
    """
    if budget is None:
        return math.ceil(n / 4)
    if isinstance(budget, float) and 0.0 < budget < 1.0:
        return math.ceil(n * budget - 1e-9)
    if not isinstance(budget, bool) and budget >= 1 and float(budget).is_integer():
        return min(int(budget), n)
    raise LabError(f"budget must be a whole number of at least 1 or a share between 0 and 1, got {budget!r}")


def pick_quarter(
    failures: Sequence[Failure],
    patterns: Patterns,
    budget: int | float | None = None,
    pins: Iterable[str] = (),
    excludes: Iterable[str] = (),
    noise_share_cap: bool = True,
    seed: int = 0,
    band: int = 200,
) -> Subset:
    """Choose the informative quarter.

    Parameters
    ----------
    failures : all failures of the round.
    patterns : their patterns.
    budget : how many; see ``budget_of``.
    pins : keys that must be in, first and in this order.
    excludes : keys that must stay out.
    noise_share_cap : whether noise may take at most its share of the failures; pins are never refused.
    seed : seed of the random band and of ties in large inputs.
    band : number of random subsets for the band; 0 for none.

    Returns
    -------
    Subset with a gain and a reason per pick, the coverage after each, and the band of random subsets.

    Raises
    ------
    LabError: unknown pins or excludes, a key in both, more pins than budget, or a wrong budget.
    """
    import numpy as np

    items = sorted(failures, key=lambda f: f.key)
    size = budget_of(len(items), budget)
    pinned, excluded = _overrides([f.key for f in items], pins, excludes, size)
    if not items:
        return Subset((), 0, 0)
    coverage = Coverage(items, patterns, seed)
    noise = sum(label < 0 for label in coverage.labels)
    cap = math.ceil(size * noise / len(items)) if noise_share_cap and noise < len(items) else size
    picks = greedy(items, patterns, coverage, size, pinned, excluded, cap)
    order = [i for i, _ in picks]
    return Subset(
        picks=tuple(pick for _, pick in picks),
        budget=size,
        n_failures=len(items),
        coverage=tuple(round(float(c), 4) for c in coverage.curve(order)),
        random_band=_band(coverage, len(items), len(order), band, np.random.default_rng(seed)),
        origin="person" if pinned or excluded else "automatic",
    )


def _overrides(
    keys: Sequence[str], pins: Iterable[str], excludes: Iterable[str], size: int
) -> tuple[list[int], set[int]]:
    """Positions of pins (in order) and of excludes."""
    at = {key: i for i, key in enumerate(keys)}
    pins, excludes = list(dict.fromkeys(pins)), set(excludes)
    for name, given in (("pins", pins), ("excludes", excludes)):
        unknown = sorted(set(given) - set(at))
        if unknown:
            raise LabError(f"{name}: no failure with the key {', '.join(unknown[:5])}")
    both = sorted(set(pins) & excludes)
    if both:
        raise LabError(f"pins and excludes both hold {', '.join(both[:5])}")
    if len(pins) > size:
        raise LabError(f"pins: {len(pins)} are more than the budget of {size}; raise the budget or drop some")
    return [at[key] for key in pins], {at[key] for key in excludes}


def _band(
    coverage: Coverage, n: int, size: int, rounds: int, rng: np.random.Generator
) -> tuple[tuple[float, float, float], ...]:
    """Per pick the 5th percentile, median and 95th percentile of the coverage of random orders."""
    import numpy as np

    if rounds < 1 or size < 1:
        return ()
    curves = np.stack([coverage.curve(rng.permutation(n)[:size].tolist()) for _ in range(rounds)])
    low, middle, high = np.percentile(curves, [5, 50, 95], axis=0)
    return tuple(
        (round(float(a), 4), round(float(b), 4), round(float(c), 4))
        for a, b, c in zip(low, middle, high, strict=True)
    )


def random_quarter(failures: Sequence[Failure], budget: int | float | None = None, seed: int = 0) -> Subset:
    """A random subset of the same size, for comparison; origin ``"random"``."""
    import numpy as np

    keys = sorted(f.key for f in failures)
    size = budget_of(len(keys), budget)
    chosen = np.random.default_rng(seed).permutation(len(keys))[:size]
    picks = tuple(Pick(keys[i], 0.0, "Drawn at random.") for i in chosen.tolist())
    return Subset(picks, size, len(keys), origin="random")


def all_failures(failures: Sequence[Failure]) -> Subset:
    """Every failure; origin ``"all"``."""
    picks = tuple(Pick(f.key, 0.0, "All failures are taken.") for f in sorted(failures, key=lambda f: f.key))
    return Subset(picks, len(picks), len(picks), origin="all")


def identity_of(failure: Failure) -> dict[str, Any]:
    """What a pick means beyond its key: the same trial in a later harness has the same identity."""
    trial = failure.trajectory.trial
    return {"benchmark": trial.benchmark, "task_id": trial.task_id, "model": trial.model, "seed": trial.seed}


def read_picks(path: Path | str) -> dict[str, dict[str, Any]]:
    """Picks of a ``subset.json``: key -> identity (see ``identity_of``), empty where the file has none.

    Raises
    ------
    LabError: no such file, no JSON, no picks in it, or a pick without a key.
    """
    path = Path(path)
    if not path.is_file():
        raise LabError(f"subset: no such file {path}; give a subset.json that the picker saved")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        keys = [str(pick["key"]) for pick in found["picks"]]
    except (ValueError, KeyError, TypeError) as error:
        raise LabError(f"subset: {path} is no subset.json of the picker ({error!r})") from None
    if not keys:
        raise LabError(f"subset: {path} holds no pick")
    trials = found.get("trials")
    return {key: dict(trials.get(key, {})) if isinstance(trials, dict) else {} for key in keys}


def from_file(path: Path | str, failures: Sequence[Failure], otherwise: Subset | None = None) -> Subset:
    """The subset that a person saved with the picker, for the failures at hand.

    Parameters
    ----------
    path : ``subset.json``.
    failures : failures of this round. A pick is found by its key, or, where the harness has changed since, by
        benchmark, task, model and seed.
    otherwise : what to take where none of the picks fails here, as may be in a later round; None raises.

    Returns
    -------
    Subset of origin ``"person"``, in the order of the file; ``budget`` counts the picks of the file.

    Raises
    ------
    LabError: a file that is missing or no subset, or (without ``otherwise``) none of its picks among the failures.

    Warns
    -----
    UserWarning: picks that are not among the failures of this round; the first ones are named.
    """
    wanted = read_picks(path)
    picks, missing = _found(wanted, failures)
    if missing:
        few = ", ".join(missing[:3])
        said = (
            f"{path}: {len(picks)} of {len(wanted)} picks are among the {len(failures)} failures; not {few}"
        )
        if not picks and otherwise is None:
            raise LabError(f"subset: {said}; pick from this run, with the same model, tasks and seed")
        warnings.warn(said if picks else f"{said}; taking the {otherwise.origin} subset", stacklevel=2)  # type: ignore[union-attr]
    if not picks and otherwise is not None:
        return otherwise
    return Subset(tuple(picks), len(wanted), len(failures), origin="person")


def _found(wanted: Mapping[str, dict[str, Any]], failures: Sequence[Failure]) -> tuple[list[Pick], list[str]]:
    """Picks that are among the failures, by key or by identity, each failure once, and the keys of the others."""
    keys = {f.key for f in failures}
    alike: dict[str, list[str]] = defaultdict(list)
    for failure in failures:
        alike[json.dumps(identity_of(failure), sort_keys=True)].append(failure.key)
    picks: dict[str, Pick] = {}
    missing = []
    for key, identity in wanted.items():
        same = [key] if key in keys else alike.get(json.dumps(identity, sort_keys=True), [])
        found = next((k for k in same if k not in picks), None)
        if found is None:
            missing.append(key)
        else:
            now = "" if found == key else " before the harness changed"
            picks[found] = Pick(found, 0.0, f"Picked by a person{now}.")
    return list(picks.values()), missing
