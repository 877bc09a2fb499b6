"""What a person decides about a subset: pins, excludes, budget. Plain Python, so it is tested without a browser.

``PickerState`` recomputes the pick after every override, says what the override cost in coverage, can undo
each of them, and keeps ``subset.json`` on disk in step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ecdysis_lab.failures.subset import budget_of, identity_of, pick_quarter
from ecdysis_lab.records import Failure, LabError, Patterns, Subset
from ecdysis_lab.store import Run

COLOURINGS = ("pattern", "termination", "failed check", "model")


@dataclass(frozen=True)
class Choice:
    """The decisions that fix a subset: undo goes back to the previous one."""

    budget: int
    pins: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Override:
    """One decision: ``act`` (pin, unpin, exclude, include, budget), its key, and the coverage it cost.

    ``cost`` is coverage before minus coverage after, in [-1, 1]; negative where coverage rose.
    """

    act: str
    key: str
    cost: float


class PickerState:
    """The state of a ``FailurePicker``.

    Parameters
    ----------
    failures : failures of one round.
    patterns : their patterns.
    path : ``subset.json`` to keep in step and to re-open from; None keeps nothing on disk.
    budget : number, share or None for a quarter; a budget set by hand in ``path`` wins while this is unchanged.
    seed : seed of the random band.

    Raises
    ------
    LabError: a wrong budget, or a file at ``path`` that is damaged or belongs to other failures.
    """

    def __init__(
        self,
        failures: Sequence[Failure],
        patterns: Patterns,
        path: Path | str | None = None,
        budget: int | float | None = None,
        seed: int = 0,
    ) -> None:
        self.failures = {f.key: f for f in sorted(failures, key=lambda f: f.key)}
        self.patterns, self.path, self.seed, self.asked = patterns, Path(path) if path else None, seed, budget
        self.labels = {key: p.id for p in patterns.patterns for key in p.members}
        self.choice = Choice(budget_of(len(self.failures), budget))
        self.history: list[tuple[Choice, Override]] = []
        self.message = ""
        self.colour_by = COLOURINGS[0]
        self._listeners: list[Callable[[], None]] = []
        self._automatic: dict[int, Subset] = {}
        self._reopen()
        self.subset = self._pick(self.choice)
        self._chosen = (self.subset, frozenset(self.subset.keys))
        self.current = next(iter(self.subset.keys or self.failures), "")
        self.save()

    # --- what the widgets show

    @property
    def automatic(self) -> Subset:
        """The seeded pick of the same size without any override, with its random band."""
        size = self.choice.budget
        if size not in self._automatic:
            items = list(self.failures.values())
            self._automatic[size] = pick_quarter(items, self.patterns, size or None, seed=self.seed)
        return self._automatic[size]

    @property
    def cost(self) -> float:
        """Coverage that all overrides together cost against the automatic pick, in [-1, 1]."""
        return round(_end(self.automatic) - _end(self.subset), 4)

    def label(self, key: str) -> int:
        """Pattern id of a failure, -1 for noise."""
        return self.labels.get(key, -1)

    def mark(self, key: str) -> str:
        """``pinned``, ``excluded``, ``picked`` or an empty string."""
        if key in self.choice.pins:
            return "pinned"
        if key in self.choice.excludes:
            return "excluded"
        if (
            self._chosen[0] is not self.subset
        ):  # asked once per failure: a look into a tuple would take n² steps
            self._chosen = (self.subset, frozenset(self.subset.keys))
        return "picked" if key in self._chosen[1] else ""

    def category(self, key: str) -> str:
        """What a failure is coloured by at present, as text."""
        failure, label = self.failures[key], self.label(key)
        return {
            "pattern": "noise" if label < 0 else f"P{label} {self.patterns.patterns[label].name}",
            "termination": failure.termination or "unknown",
            "failed check": ", ".join(failure.failed_checks) or "not disclosed",
            "model": failure.model,
        }[self.colour_by]

    def group(self, key: str) -> list[str]:
        """Failures of the same pattern (or all noise), in a fixed order."""
        return [k for k in self.failures if self.label(k) == self.label(key)]

    # --- what a person does

    def listen(self, call: Callable[[], None]) -> None:
        """Call this after every change."""
        self._listeners.append(call)

    def open(self, key: str) -> None:
        """Make a failure the current one; an unknown key is refused with a message."""
        if key in self.failures:
            self.current, self.message = key, ""
        else:
            self.message = f"No failure has the key {key!r}."
        self._tell()

    def press(self, key: str) -> None:
        """Act on a key: ← and → move, ``p`` pins, ``x`` excludes, ``u`` undoes; others do nothing."""
        if key in ("ArrowLeft", "ArrowRight"):
            self.move(1 if key == "ArrowRight" else -1)
        elif key in ("p", "x", "u"):
            {"p": self.pin, "x": self.exclude, "u": self.undo}[key]()

    def move(self, step: int) -> None:
        """Go to the next (1) or previous (-1) failure of the current pattern, round at the ends."""
        if self.failures:
            group = self.group(self.current)
            self.open(group[(group.index(self.current) + step) % len(group)])

    def colour(self, by: str) -> None:
        """Colour the map by pattern, termination, failed check or model.

        Raises
        ------
        LabError: another name.
        """
        if by not in COLOURINGS:
            raise LabError(f"colour by: unknown {by!r}; choose one of {', '.join(COLOURINGS)}")
        self.colour_by = by
        self._tell()

    def pin(self, key: str | None = None) -> None:
        """Pin a failure into the subset, or take the pin away; the current one where no key is given."""
        key = key or self.current
        pins, excludes = self.choice.pins, tuple(k for k in self.choice.excludes if k != key)
        if key in pins:
            self._decide("unpin", key, replace(self.choice, pins=tuple(k for k in pins if k != key)))
        else:
            self._decide("pin", key, replace(self.choice, pins=(*pins, key), excludes=excludes))

    def exclude(self, key: str | None = None) -> None:
        """Keep a failure out of the subset, or let it in again; the current one where no key is given."""
        key = key or self.current
        excludes, pins = self.choice.excludes, tuple(k for k in self.choice.pins if k != key)
        if key in excludes:
            out = tuple(k for k in excludes if k != key)
            self._decide("include", key, replace(self.choice, excludes=out))
        else:
            self._decide("exclude", key, replace(self.choice, pins=pins, excludes=(*excludes, key)))

    def set_budget(self, budget: int) -> None:
        """Allow so many failures in the subset."""
        if budget != self.choice.budget:
            self._decide("budget", "", replace(self.choice, budget=int(budget)))

    def undo(self) -> None:
        """Take the last decision back, exactly."""
        if not self.history:
            self.message = "Nothing to undo."
            self._tell()
            return
        self.choice, undone = self.history.pop()
        self.subset = self._pick(self.choice)
        self._kept(f"Undone: {undone.act} {undone.key[:8]}".rstrip() + ".")

    def _decide(self, act: str, key: str, choice: Choice) -> None:
        try:
            subset = self._pick(choice)
        except LabError as refused:  # more pins than budget, an unknown key: nothing changes
            self.message = f"Not done: {refused}."
            self._tell()
            return
        override = Override(act, key, round(_end(self.subset) - _end(subset), 4))
        self.history.append((self.choice, override))
        self.choice, self.subset = choice, subset
        self._kept(cost_text(override))

    def _kept(self, message: str) -> None:
        """Save and tell; a disk that says no must not hide behind a callback, so it becomes the message."""
        try:
            self.save()
            self.message = message
        except LabError as error:
            self.message = f"NOT SAVED: {error}"
        self._tell()

    def _pick(self, choice: Choice) -> Subset:
        items, size = list(self.failures.values()), choice.budget or None
        args = (items, self.patterns, size, choice.pins, choice.excludes)
        if not (choice.pins or choice.excludes):
            self._automatic.setdefault(choice.budget, pick_quarter(*args, seed=self.seed))
            return self._automatic[choice.budget]
        return pick_quarter(*args, seed=self.seed, band=0)

    def _tell(self) -> None:
        for call in self._listeners:
            call()

    # --- subset.json

    @property
    def banded(self) -> Subset:
        """The subset with the random band of its size."""
        return replace(self.subset, random_band=self.automatic.random_band[: len(self.subset.picks)])

    def save(self) -> None:
        """Replace ``subset.json`` at once: the fields of ``Subset``, and the decisions behind them."""
        if self.path is None:
            return
        own = {
            "pins": self.choice.pins,
            "excludes": self.choice.excludes,
            "asked": self.asked,
            "seed": self.seed,
            "trials": {key: identity_of(self.failures[key]) for key in self.subset.keys},
        }
        Run(self.path.parent).write_json(self.path.name, {**asdict(self.banded), **own})

    def _reopen(self) -> None:
        found = Run(self.path.parent).read_json(self.path.name) if self.path else None
        if found is None:
            return
        try:
            pins, excludes = (tuple(str(k) for k in found[name]) for name in ("pins", "excludes"))
            asked, budget = found["asked"], int(found["budget"])
        except (KeyError, TypeError, ValueError) as error:
            raise LabError(f"{self.path} is no subset of the picker ({error!r}); move it away") from None
        unknown = [k for k in (*pins, *excludes) if k not in self.failures]
        if unknown:
            raise LabError(
                f"{self.path} pins or excludes {len(unknown)} failures that are not among these "
                f"{len(self.failures)} (e.g. {unknown[0]}); choose another out folder, or move the file away"
            )
        size = budget if asked == self.asked and budget >= 1 else self.choice.budget
        size = max(min(size, len(self.failures)), len(pins))
        self.choice = Choice(size, pins, excludes)
        if pins or excludes:
            self.message = f"Re-opened: {len(pins)} pinned, {len(excludes)} excluded."


def cost_text(override: Override) -> str:
    """An override and its coverage cost as a sentence."""
    cost = 100 * override.cost
    said = (
        "costs no coverage"
        if abs(cost) < 0.05
        else f"{'costs' if cost > 0 else 'adds'} {abs(cost):.1f} points"
    )
    what = f"{override.act} {override.key[:8]}".rstrip()
    return f"{what[0].upper()}{what[1:]} {said}" + (" of coverage." if "points" in said else ".")


def _end(subset: Subset) -> float:
    return subset.coverage[-1] if subset.coverage else 0.0
