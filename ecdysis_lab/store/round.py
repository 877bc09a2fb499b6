"""One round of a run: what it saw, what was proposed, and how it ended, under the names of its files.

Reading a file gives its record, or None where the round has not come that far; assigning replaces the file at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ecdysis_lab.records import (
    Candidate,
    Edit,
    Failure,
    LabError,
    Patterns,
    Review,
    RoundRecord,
    Subset,
    from_json,
)

if TYPE_CHECKING:
    from ecdysis_lab.store.run import Run

T = TypeVar("T")
FAILURES = "failures.json"


class _File(Generic[T]):
    """A JSON file of a round as an attribute."""

    def __init__(self, name: str, kind: type[T]) -> None:
        self.name, self.kind = name, kind

    def __get__(self, round: Round, owner: type[Round]) -> T | None:
        return round.run.read(f"{round.place}/{self.name}", self.kind)  # type: ignore[no-any-return]

    def __set__(self, round: Round, record: T) -> None:
        round.run.write_json(f"{round.place}/{self.name}", record)


class Round:
    """The files of one round of one arm.

    Parameters
    ----------
    run : the run. arm, n : whose round, from 1.
    """

    patterns = _File("patterns.json", Patterns)
    subset = _File("subset.json", Subset)
    review = _File("review.json", Review)
    record = _File("record.json", RoundRecord)
    edits = _File("edits.json", tuple[Edit, ...])
    shown = _File("shown.json", tuple[str, ...])  # keys of the failures that the review read

    def __init__(self, run: Run, arm: str, n: int) -> None:
        self.run, self.arm, self.n = run, arm, n
        self.name = f"{arm}-{n}"
        self.place = f"rounds/{self.name}"

    @property
    def failures_path(self) -> Path:
        """Where the failures are written, once the round has any."""
        return self.run.folder / self.place / FAILURES

    @property
    def failures(self) -> tuple[Failure, ...] | None:
        """What failed; the trajectories stay in the store and are None here."""
        name = f"{self.place}/{FAILURES}"
        data = self.run.read_json(name)
        with self.run.told_damage(name):
            whole = None if data is None else [{**failure, "trajectory": None} for failure in data]
            return from_json(tuple[Failure, ...], whole)  # type: ignore[no-any-return]

    @failures.setter
    def failures(self, failures: Iterable[Failure]) -> None:
        bare = [asdict(replace(f, trajectory=None)) for f in failures]  # type: ignore[arg-type]
        self.run.write_json(
            f"{self.place}/{FAILURES}", [{k: v for k, v in f.items() if k != "trajectory"} for f in bare]
        )

    def evidence(self) -> tuple[tuple[Failure, ...], Patterns, Subset]:
        """Failures (without trajectories), patterns and subset.

        Raises
        ------
        LabError: the round has none.
        """
        failures, patterns, subset = self.failures, self.patterns, self.subset
        if failures is None or patterns is None or subset is None:
            raise LabError(
                f"run {self.run.run_id} has no evidence of round {self.n} of arm {self.arm!r} "
                f"in {self.run.folder / self.place}"
            )
        return failures, patterns, subset

    @property
    def context(self) -> str:
        """What the review read; empty where there was none."""
        return self.run.read_text(f"{self.place}/context.md")

    @context.setter
    def context(self, text: str) -> None:
        self.run.write_text(f"{self.place}/context.md", text)

    def debate(self, i: int = 0) -> dict[str, Any] | None:
        """Checkpoint of the debate, or of the talk about the i-th failure where each goes alone."""
        return self.run.read_object(self._debate(i))

    def save_debate(self, state: dict[str, Any], i: int = 0) -> None:
        """Replace that checkpoint."""
        self.run.write_json(self._debate(i), state)

    def _debate(self, i: int) -> str:
        return f"{self.place}/debate-{i}.json" if i else f"{self.place}/debate.json"

    # -- candidates --------------------------------------------------------------------------------------------

    def candidate_path(self, i: int) -> Path:
        """Folder of the i-th candidate, from 0."""
        return self.run.path(f"{self.place}/candidate-{i}")

    def edit_path(self, i: int) -> Path:
        """Folder of the candidate for the i-th failure, from 1, where each goes to the editor alone."""
        return self.run.path(f"{self.place}/edit-{i}")

    def last_candidate(self) -> Path | None:
        """Folder of the last candidate of the round, or None."""
        found = [p for p in (self.run.folder / self.place).glob("candidate-*") if p.is_dir()]
        return max(found, key=lambda p: int(p.name.rpartition("-")[2]), default=None)

    def made(self, path: Path) -> tuple[Candidate, str] | None:
        """What an editor left in a candidate folder, and the feedback it had, or None."""
        name = self._beside(path)
        saved = self.run.read_object(name)
        with self.run.told_damage(name):
            if saved is None:
                return None
            return from_json(Candidate, {**saved["candidate"], "path": path}), saved["feedback"]

    def keep_made(self, candidate: Candidate, feedback: str) -> None:
        """Write down what an editor left, beside its folder."""
        self.run.write_json(self._beside(candidate.path), {"candidate": candidate, "feedback": feedback})

    def _beside(self, path: Path) -> str:
        return f"{self.place}/{path.name}.json"

    @property
    def diff(self) -> str:
        """Unified diff of the last candidate; empty where there was none."""
        return self.run.read_text(f"{self.place}/candidate.diff")

    @diff.setter
    def diff(self, text: str) -> None:
        self.run.write_text(f"{self.place}/candidate.diff", text)
