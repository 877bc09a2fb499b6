"""An arm on recorded trials: nothing is run again, so the gates that need trials are skipped, and say so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ecdysis_lab.harness.source import Harness
from ecdysis_lab.records import Candidate, GateResult, LabError, RoundRecord, Task, Trajectory
from ecdysis_lab.store import Run, Store
from ecdysis_lab.train.arm_run import ArmRun
from ecdysis_lab.train.gates import Gate, skipped
from ecdysis_lab.train.judging import Judging
from ecdysis_lab.train.settings import Settings

NOT_RUN = "recorded trials are not run again, and a stopped act is not yet a success"


class Recorded(ArmRun):
    """One arm inside a run folder, on trials that others left.

    Parameters
    ----------
    settings, name, run, store, shared : as for :class:`ecdysis_lab.train.arm_run.ArmRun`.
    trials : what training has to see, in order.
    """

    reruns = False

    def __init__(
        self,
        settings: Settings,
        name: str,
        run: Run,
        store: Store,
        *,
        trials: Sequence[Trajectory],
        **shared: Any,
    ) -> None:
        super().__init__(settings, name, run, store, **shared)
        self.trials = tuple(trials)

    def rollout(
        self,
        harness: Harness,
        what: str,
        tasks: Sequence[Task] | None = None,
        seeds: Sequence[int] | None = None,
    ) -> list[Trajectory]:
        """The recorded trials of the tasks, whatever harness is in force.

        Raises
        ------
        LabError: trials of certain seeds are asked for.
        """
        if seeds is not None:
            raise LabError(f"{what}: trials on fresh seeds need an agent model; {NOT_RUN}")
        wanted = {t.id for t in (self.tasks if tasks is None else tasks)}
        found = [t for t in self.trials if t.trial.task_id in wanted]
        self.rests_on.add(t.key for t in found)
        return found

    def write_record(self, record: RoundRecord, candidate: Candidate | None) -> None:
        """As for any arm; the reason of an acceptance says what it does not rest on."""
        if record.decision == "accepted":
            record = replace(
                record, reason=f"{record.reason}; gates that need trials were skipped, for {NOT_RUN}"
            )
        super().write_record(record, candidate)

    def runnable(self, gates: Sequence[Gate]) -> Sequence[Gate]:
        """The gates; those that need trials are skipped, which stands in the record."""
        return [replace(gate, check=_not_run) if gate.paid else gate for gate in gates]


def _not_run(judging: Judging) -> GateResult:
    return skipped(NOT_RUN)
