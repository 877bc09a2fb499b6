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
from ecdysis_lab.models.sim.slips import Scene, Slip

Act = str | Call
"""What the agent does in a turn: say a text, or make one call."""
Play = Generator[Act, str, bool]

FINAL = "Everything you asked for has been taken care of. Is there anything else I can help you with?"
DENIED = (
    "I have looked into this, and our policy does not allow anything further here. Is there anything else?"
)
GIVE_UP = "I am sorry, I could not complete this request. Is there anything else?"
HUMAN = "YOU ARE BEING TRANSFERRED TO A HUMAN AGENT. PLEASE HOLD ON."


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
        return draw(self.profile.name, self.scene.domain, self.scene.task_id, slip, self.seed, what) < chance

    def at(self, where: str) -> list[Slip]:
        """Active slips that enter the plan there."""
        return [s for s in self.slips if s.where == where]

    # -- the play ----------------------------------------------------------------------------------------------

    def play(self) -> Generator[Act, str, None]:
        """The whole conversation; the first value sent in is the user's opening."""
        writes = self.scene.writes
        if self.at("deny"):
            yield from self._deny()
            return
        yield from self._identify()
        for call in self._opening_plan():
            last = bool(writes) and call is writes[-1]
            fine = (yield from self._write(call, last)) if call in writes else (yield from self._read(call))
            if not fine:
                yield from self._say(GIVE_UP)
                return
            if call.name == "transfer_to_human_agents":
                yield from self._say(HUMAN)
                return
        fine = yield from self._extras()
        yield from self._finish(fine)

    def _opening_plan(self) -> list[Call]:
        user = self.scene.user.get("user_id")
        reads = [c for c in self.scene.plan if c not in self.scene.writes]
        if reads or not user:
            return self.scene.plan
        return [Call("get_user_details", {"user_id": user}), *self.scene.plan]

    def _identify(self) -> Generator[Act, str, None]:
        if not any(self.scene.kinds.get(c.name) == "read" for c in self._opening_plan()):
            yield from self._say(
                "I can help with that. Could you tell me your name and zip code, so that I can verify you?"
            )

    def _deny(self) -> Generator[Act, str, None]:
        """A blunder: read what is there, then turn the customer away."""
        yield from self._identify()
        reads = [c for c in self._opening_plan() if self.scene.kinds.get(c.name) == "read"]
        for call in reads:  # noqa: UP028 - a list takes no results, which are sent in here
            yield call
        self.log[self.at("deny")[0].name] = "fatal"
        yield from self._say(DENIED)

    def _read(self, call: Call) -> Play:
        for slip in self.at("loop"):
            repeated = slip.wrong(self.scene, call)
            if repeated and slip.name not in self.log:
                return (yield from self._loop(slip, repeated))
        return (yield from self._call(call))

    def _loop(self, slip: Slip, calls: list[Call]) -> Play:
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

    def _write(self, call: Call, last: bool) -> Play:
        first = call is self.scene.writes[0]
        if first:
            fine = yield from self._before_first_write()
            if not fine:
                return False
        for slip in self.at("unconfirmed"):
            wrong = slip.wrong(self.scene, call)
            if wrong:
                return (yield from self._slipped(slip, wrong, call, confirm=True))
        if last and self.at("skip_last_write"):
            return (yield from self._claim(self.at("skip_last_write")[0], call))
        yield from self._confirm(call)
        return (yield from self._call(call))

    def _before_first_write(self) -> Play:
        for slip in (*self.at("before_write"), *self.at("instead_of_write")):
            for call in slip.wrong(self.scene, None) or ():
                fine = yield from self._slipped(slip, [call], None)
                if not fine:
                    return False
                if slip.where == "instead_of_write" and self.log[slip.name] == "fatal":
                    yield from self._say(HUMAN)
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

    def _slipped(self, slip: Slip, wrong: list[Call], right: Call | None, confirm: bool = False) -> Play:
        """Make the wrong calls; correct after a refusal or error with the profile's chance, else give up."""
        self.log[slip.name] = "fired"
        harm = False
        for call in wrong:
            seen = yield call
            refused, failed = seen.startswith(REFUSED), self._failed(seen)
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
            if confirm:
                yield from self._confirm(right)
            return (yield from self._right(right))
        self.log[slip.name] = "corrected" if slip.form else "fatal"
        return True

    @staticmethod
    def _failed(seen: str) -> bool:
        return seen.startswith("Error") or seen.strip() == "[]"

    def _claim(self, slip: Slip, call: Call) -> Play:
        """Confirm the last write, claim that it is done, and make it only if the harness stops the claim."""
        yield from self._confirm(call)
        self.log[slip.name] = "fired"
        seen = yield f"I have made that change for you. {self._figures()}{FINAL}"
        if seen.startswith(REPLY_STOPPED) and self.lucky(slip.name, self.profile.recover, "refusal"):
            self.log[slip.name] = "corrected"
            return (yield from self._call(call))
        self.log[slip.name] = "fatal"
        return False

    def _extras(self) -> Play:
        """Acts that nobody asked for, after the plan."""
        for slip in self.at("after"):
            for call in slip.wrong(self.scene, None) or ():
                yield from self._confirm(call)
                yield from self._slipped(slip, [call], None)
        return True

    def _confirm(self, call: Call) -> Generator[Act, str, None]:
        details = ", ".join(f"{k}: {v}" for k, v in call.arguments.items())
        yield from self._say(
            f"To confirm, I will do this: {call.name.replace('_', ' ')} ({details}). Do you confirm (yes/no)?"
        )

    def _finish(self, fine: bool) -> Generator[Act, str, None]:
        silent = self.at("info")
        for slip in silent:
            self.log[slip.name] = "fatal"
        figures = "" if silent else self._figures()
        yield from self._say(figures + (FINAL if self.scene.writes else DENIED))

    def _figures(self) -> str:
        parts = [f"For your question, the figure is {c}." for c in self.scene.communicate]
        return " ".join(parts) + " " if parts else ""

    def _say(self, text: str) -> Generator[Act, str, str]:
        """Say it; a reply that the harness stops is sent again, until the harness gives way."""
        seen = yield text
        while seen.startswith(REPLY_STOPPED):
            seen = yield text
        return seen
