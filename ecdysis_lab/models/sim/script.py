"""The simulated agent as a generator: it yields what it does and receives what it is shown.

A completion replays the conversation through the script from its start, so the model keeps no state: the same
messages always bring the same answer.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field

from ecdysis_lab.hooks import Call
from ecdysis_lab.hooks.verdicts import NOTE, REFUSED, REPLY_STOPPED
from ecdysis_lab.models.sim.profiles import Profile, draw
from ecdysis_lab.models.sim.scene import Act, Scene, Slip

Play = Generator[Act, str, bool]
DONE = "Done."


@dataclass
class Script:
    """One trial of one profile.

    Parameters
    ----------
    profile, scene : who plays what.
    seed : trial seed.
    slips : slips that are active in this trial (guidance already applied).

    Attributes
    ----------
    log : slip -> ``"fired"``, ``"corrected"`` or ``"fatal"``.
    """

    profile: Profile
    scene: Scene
    seed: int
    slips: tuple[Slip, ...]
    log: dict[str, str] = field(default_factory=dict)

    # -- small things ------------------------------------------------------------------------------------------

    def lucky(self, slip: str, chance: float, what: str) -> bool:
        """A draw that belongs to this trial and slip."""
        return (
            draw(self.profile.name, self.scene.benchmark, self.scene.task_id, slip, self.seed, what) < chance
        )

    def at(self, where: str) -> list[Slip]:
        """Active slips that enter the plan there."""
        return [s for s in self.slips if s.where == where]

    # -- the play ----------------------------------------------------------------------------------------------

    def play(self) -> Generator[Act, str, None]:
        """The whole conversation; the first value sent in is the user's opening, or the task's text."""
        if self.at("deny"):
            yield from self._deny()
            return
        for consent, turn in self.scene.steps:
            if isinstance(turn, str):
                yield from self._say(turn)
            elif not (yield from self._act(turn, consent)):
                yield from self._say(self.scene.oracle.give_up)
                return
        for slip in self.at("after"):
            wrong = slip.wrong(self.scene, None)
            if wrong:  # acts that nobody asked for
                yield from self._slipped(slip, wrong, None)
        yield from self._answer()

    def _act(self, call: Call, consent: str) -> Play:
        if call in self.scene.writes:
            return (yield from self._write(call, consent))
        return (yield from self._read(call))

    def _deny(self) -> Generator[Act, str, None]:
        """A blunder: look at what is there, then do nothing."""
        acted = False
        for _, turn in self.scene.steps:
            acted = acted or isinstance(turn, Call)
            if isinstance(turn, Call) and self.scene.effect(turn) == "read":
                yield turn
            elif isinstance(turn, str) and not acted:
                yield from self._say(turn)
        self.log[self.at("deny")[0].name] = "fatal"
        yield from self._say(self.scene.oracle.deny)

    def _read(self, call: Call) -> Play:
        for slip in self.at("loop"):
            repeated = slip.wrong(self.scene, call)
            if repeated and slip.name not in self.log:
                return (yield from self._loop(slip, repeated))
        return (yield from self._call(call))

    def _loop(self, slip: Slip, calls: list[Act]) -> Play:
        self.log[slip.name] = "fired"
        for call in calls:
            seen = yield call
            if (NOTE in seen or seen.startswith(REFUSED)) and self.lucky(
                slip.name, self.profile.recover, "note"
            ):
                self.log[slip.name] = "corrected"
                return True
        self.log[slip.name] = "fatal"
        return False

    def _write(self, call: Call, consent: str) -> Play:
        writes = self.scene.writes
        if call is writes[0] and not (yield from self._before_first_write()):
            return False
        for slip in self.at("unconfirmed"):
            wrong = slip.wrong(self.scene, call)
            if wrong:
                return (yield from self._slipped(slip, wrong, call, consent))
        yield from self._say(consent)
        if call is writes[-1] and self.at("skip_last_write"):
            return (yield from self._claim(self.at("skip_last_write")[0], call))
        return (yield from self._call(call))

    def _before_first_write(self) -> Play:
        for slip in (*self.at("before_write"), *self.at("instead_of_write")):
            wrong = slip.wrong(self.scene, None)
            if wrong and not (yield from self._slipped(slip, wrong, None)):
                return False
            if slip.where == "instead_of_write" and self.log.get(slip.name) == "fatal":
                return False
        return True

    def _call(self, call: Call) -> Play:
        """A call of the plan, or the slip that takes its place."""
        for slip in self.at("call"):
            wrong = slip.wrong(self.scene, call)
            if wrong and slip.name not in self.log:
                return (yield from self._slipped(slip, wrong, call))
        return (yield from self._right(call))

    def _right(self, call: Call) -> Play:
        """A legal call: being refused makes the model give up."""
        seen = yield call
        if seen.startswith(REFUSED):
            self.log[f"refused:{call.name}"] = "fatal"
            return False
        return True

    def _slipped(self, slip: Slip, wrong: list[Act], right: Call | None, consent: str = "") -> Play:
        """Do the wrong acts; correct after a refusal or error with the profile's chance, else give up."""
        self.log[slip.name] = "fired"
        harm = False
        for act in wrong:
            if isinstance(act, str):
                yield from self._say(act)
                continue
            seen = yield act
            refused, failed = seen.startswith(REFUSED), self._failed(seen, act)
            if not refused and not failed:
                harm = harm or not slip.form
                continue
            chance = self.profile.recover if refused else self.profile.recover_error
            if not self.lucky(slip.name, chance, "refusal" if refused else "error"):
                self.log[slip.name] = "fatal"
                return False
            self.log[slip.name] = "fatal" if harm else "corrected"
            if right is None:
                return True
            yield from self._say(consent)
            return (yield from self._right(right))
        self.log[slip.name] = "corrected" if slip.form else "fatal"
        return True

    def _failed(self, seen: str, act: Call) -> bool:
        """An error, or nothing found; a write may well return nothing."""
        empty = seen.strip() == "[]" and self.scene.effect(act) != "write"
        return seen.startswith("Error") or empty

    def _claim(self, slip: Slip, call: Call) -> Play:
        """Claim that the last write is done, and make it only if the harness stops the claim."""
        self.log[slip.name] = "fired"
        seen = yield (slip.wrong(self.scene, None) or [DONE])[0]
        if seen.startswith(REPLY_STOPPED) and self.lucky(slip.name, self.profile.recover, "refusal"):
            self.log[slip.name] = "corrected"
            return (yield from self._call(call))
        self.log[slip.name] = "fatal"
        return False

    def _answer(self) -> Generator[Act, str, None]:
        """The last text, or what a slip says in its place."""
        said: Act = self.scene.answer
        for slip in self.at("info"):
            self.log[slip.name] = "fatal"
            said = (slip.wrong(self.scene, None) or [said])[0]
        yield from self._say(str(said))

    def _say(self, text: Act) -> Generator[Act, str, str]:
        """Say it, if anything, or make the call that says it.

        A reply that the harness stops is sent again, until the harness gives way.
        """
        seen = (yield text) if text else ""
        while seen.startswith(REPLY_STOPPED):
            seen = yield text
        return seen
