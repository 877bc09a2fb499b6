"""The frozen dataclasses that flow through the lab, and every Protocol, on one page.

``Task -> Trajectory -> Failure -> Pattern -> Subset -> Spec -> Candidate -> Decision``; a stage imports this
module and the stages before it. Gold answers appear in none of these types.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from ecdysis_lab.hooks import Call

Layer = Literal["contract", "skills", "actions", "regulation"]
LAYER_FILES: dict[str, str] = {
    "contract": "contract.py",
    "skills": "skills.py",
    "actions": "actions.py",
    "regulation": "regulation.py",
}
Status = Literal["scored", "infra_error", "user_fault"]
Disclosure = Literal["transcript", "checks", "scenario"]


@dataclass(frozen=True)
class Task:
    """One benchmark item, without its gold answer.

    Parameters
    ----------
    id : the benchmark's own identifier.
    benchmark : registry name, e.g. ``"tau2/airline"``.
    split : ``"train"`` or ``"test"``.
    scenario : the user's hidden instructions (shown to reviewers only at disclosure ``scenario``).
    """

    id: str
    benchmark: str
    split: str
    scenario: str = ""


@dataclass(frozen=True)
class Message:
    """One message of a conversation in OpenAI chat terms.

    Parameters
    ----------
    role : ``"user"``, ``"assistant"``, ``"tool"`` or ``"system"``.
    content : text, or None for a message that only calls tools.
    calls : tool calls of an assistant message.
    call_id : for a tool message, the call it answers.
    name : for a tool message, the tool.
    error : for a tool message, whether the environment rejected the call.
    """

    role: str
    content: str | None = None
    calls: tuple[Call, ...] = ()
    call_id: str = ""
    name: str = ""
    error: bool = False


@dataclass(frozen=True)
class Usage:
    """What model calls consumed; adds up with ``+``. ``cost_usd`` is None when any price is unknown."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = 0.0
    seconds: float = 0.0
    attempts: int = 0

    def __add__(self, other: Usage) -> Usage:
        known = self.cost_usd is not None and other.cost_usd is not None
        return Usage(
            self.calls + other.calls,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            (self.cost_usd or 0.0) + (other.cost_usd or 0.0) if known else None,
            self.seconds + other.seconds,
            self.attempts + other.attempts,
        )


@dataclass(frozen=True)
class Completion:
    """One answer of a model.

    Parameters
    ----------
    text : the text part, or None.
    calls : tool calls with parsed arguments.
    malformed : raw tool calls whose arguments are no JSON object: ``(name, raw arguments)``.
    finish : the provider's finish reason.
    usage : what this answer cost, retries included.
    """

    text: str | None
    calls: tuple[Call, ...]
    malformed: tuple[tuple[str, str], ...]
    finish: str
    usage: Usage


@dataclass(frozen=True)
class Intervention:
    """One act of the harness inside a trial.

    Parameters
    ----------
    step : index into ``Trajectory.context`` of the message it concerns.
    hook : ``"describe"``, ``"brief"``, ``"check"``, ``"observe"`` or ``"on_reply"``.
    action : ``"rewrite"``, ``"refuse"``, ``"annotate"``, ``"pass_through"`` (after three refusals) or ``"fault"``.
    rule : the rule's name, or the fault's kind.
    tool : tool concerned, or an empty string.
    before, after : arguments or text on both sides of a rewrite.
    reason : text the model was shown, or the fault's message.
    """

    step: int
    hook: str
    action: str
    rule: str = ""
    tool: str = ""
    before: Any = None
    after: Any = None
    reason: str = ""


@dataclass(frozen=True)
class Trial:
    """The identity of one run of one task; its ``key`` is the store's primary key.

    Parameters
    ----------
    benchmark, version : registry name and version of the benchmark package.
    task_id, split : the task.
    model, user_model : LiteLLM names.
    model_params : JSON text of the sampling parameters and ``api_base`` (never a key).
    harness : SHA-256 of the harness folder.
    seed : seed of this trial.
    limits : JSON text of step and error limits.
    """

    benchmark: str
    version: str
    task_id: str
    split: str
    model: str
    user_model: str
    harness: str
    seed: int
    model_params: str = "{}"
    limits: str = "{}"

    @property
    def key(self) -> str:
        """First 24 hex digits of the SHA-256 over all fields."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:24]


@dataclass(frozen=True)
class Trajectory:
    """What a trial left.

    Parameters
    ----------
    trial : identity.
    status : ``scored``, ``infra_error`` (never scored) or ``user_fault`` (counted apart).
    score : official benchmark score in [0, 1]; None unless ``scored``.
    termination : the benchmark's reason, e.g. ``"user_stop"``, ``"max_steps"``.
    checks : failed or passed official checks by name, e.g. ``{"db": False, "communicate": True}``.
    messages : the environment's transcript; it never sees the harness.
    context : the model's own view after the system prompt: refusals and annotations included.
    shown : SHA-256 of the system prompt and tool schemas the model saw.
    harness_tokens : tokens that the harness added to prompt and schemas (estimate: characters / 4).
    interventions : acts of the harness.
    usage : consumption by role (``agent``, ``user``).
    seconds : wall clock of the trial.
    error : message of an infrastructure error or user fault; of a trial that the model's own outcome ended,
        ``"reason: sentence"`` (see :attr:`reason`); else an empty string.
    truth : planted cause, for ``sim`` models only; reviewers, editors and gates never get it.
    reused_from : key of the trial whose result was taken over because nothing that the model sees had changed.
    """

    trial: Trial
    status: Status
    score: float | None
    termination: str
    checks: dict[str, bool]
    messages: tuple[Message, ...]
    context: tuple[Message, ...] = ()
    shown: str = ""
    harness_tokens: int = 0
    interventions: tuple[Intervention, ...] = ()
    usage: dict[str, Usage] = field(default_factory=dict)
    seconds: float = 0.0
    error: str = ""
    truth: dict[str, Any] = field(default_factory=dict)
    reused_from: str = ""

    @property
    def key(self) -> str:
        """Key of the trial."""
        return self.trial.key

    @property
    def success(self) -> bool:
        """Whether the official score is 1 (τ² scores are 0 or 1)."""
        return self.score is not None and self.score >= 1.0

    @property
    def reason(self) -> str:
        """Why the model's own outcome ended a scored trial: ``context_full``, ``refusal``, ``empty``,
        ``reasoning_only`` or ``malformed``; else an empty string.
        """
        return self.error.partition(":")[0] if self.status == "scored" else ""

    @property
    def cost_usd(self) -> float | None:
        """Cost over all roles, None when unknown."""
        return sum(self.usage.values(), Usage()).cost_usd

    @property
    def faults(self) -> tuple[Intervention, ...]:
        """Harness faults in this trial."""
        return tuple(i for i in self.interventions if i.action == "fault")


@dataclass(frozen=True)
class Failure:
    """A scored trajectory below the threshold, with its evidence card.

    Parameters
    ----------
    key : trial key.
    task_id, model : where it happened.
    score : official score.
    termination : why the trial ended.
    failed_checks : names of the failed official checks; empty at disclosure ``transcript``.
    first_bad : index into ``trajectory.messages`` of the first thing that went wrong, or None.
    first_bad_what : that thing in one line, e.g. ``"get_order_details: Error: Order not found"``.
    path : tool-outcome tokens in order, e.g. ``("get_order_details:error", "cancel:ok")``.
    card : the evidence card as text; no system prompt, no ids of tasks or trials, no gold.
    trajectory : the trajectory itself.
    """

    key: str
    task_id: str
    model: str
    score: float
    termination: str
    failed_checks: tuple[str, ...]
    first_bad: int | None
    first_bad_what: str
    path: tuple[str, ...]
    card: str
    trajectory: Trajectory


@dataclass(frozen=True)
class Pattern:
    """A group of failures with one cause.

    Parameters
    ----------
    id : 0 is the largest.
    name : terms from class-based TF-IDF over errors and tools.
    quote : one line of the medoid's card.
    members : failure keys.
    medoid : key of the most central member.
    tasks : distinct task ids.
    """

    id: int
    name: str
    quote: str
    members: tuple[str, ...]
    medoid: str
    tasks: tuple[str, ...]

    @property
    def recurring(self) -> bool:
        """Whether it spans at least two distinct tasks."""
        return len(self.tasks) >= 2


@dataclass(frozen=True)
class Patterns:
    """All patterns of one round.

    Parameters
    ----------
    patterns : by falling size.
    noise : failure key -> (nearest pattern id or -1, similarity in [0, 1]).
    layout : failure key -> (x, y), for plotting only.
    method : ``"hdbscan"`` or ``"signature"``.
    embedder : name of the embedder, or ``"none"``.
    tokens_seen : share of card tokens that the embedder saw, in [0, 1].
    stability : mean ARI over subsamples, or None.
    warnings : sentences for the reader.
    """

    patterns: tuple[Pattern, ...]
    noise: dict[str, tuple[int, float]]
    layout: dict[str, tuple[float, float]]
    method: str
    embedder: str
    tokens_seen: float
    stability: float | None
    warnings: tuple[str, ...] = ()

    @property
    def recurring(self) -> tuple[Pattern, ...]:
        """Patterns over at least two tasks."""
        return tuple(p for p in self.patterns if p.recurring)

    def label(self, key: str) -> int:
        """Pattern id of a failure, -1 for noise."""
        return next((p.id for p in self.patterns if key in p.members), -1)


@dataclass(frozen=True)
class Pick:
    """One failure of the subset, and what it adds: ``gain`` in coverage units, ``reason`` as a sentence."""

    key: str
    gain: float
    reason: str


@dataclass(frozen=True)
class Subset:
    """The informative quarter.

    Parameters
    ----------
    picks : in the order chosen.
    budget : how many were allowed.
    n_failures : how many there were.
    coverage : coverage in [0, 1] after each pick.
    random_band : per pick (5th percentile, median, 95th percentile) of random subsets.
    origin : ``"automatic"``, ``"person"``, ``"all"`` or ``"random"``.
    """

    picks: tuple[Pick, ...]
    budget: int
    n_failures: int
    coverage: tuple[float, ...] = ()
    random_band: tuple[tuple[float, float, float], ...] = ()
    origin: str = "automatic"

    @property
    def keys(self) -> tuple[str, ...]:
        """Trial keys in the order chosen."""
        return tuple(p.key for p in self.picks)


@dataclass(frozen=True)
class Change:
    """One change the Moderator asks for.

    Parameters
    ----------
    layer, file : one of the four layers and its file.
    what, why : sentences for the editor.
    evidence : references ``trial#step``.
    must_still_allow : acts of passing trials that have to stay legal.
    guard : optional template for the ``rules`` editor, ``{"kind": ..., **parameters}``.
    pattern : id of the pattern it answers.
    """

    layer: str
    file: str
    what: str
    why: str
    evidence: tuple[str, ...]
    must_still_allow: tuple[str, ...] = ()
    guard: dict[str, Any] | None = None
    pattern: int | None = None


@dataclass(frozen=True)
class Spec:
    """The Moderator's structured change list. ``dropped`` holds changes that failed validation, with reasons."""

    patterns: tuple[str, ...]
    changes: tuple[Change, ...]
    rejected: tuple[str, ...] = ()
    notes: str = ""
    dropped: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Review:
    """What the debate left: ``outcome`` is ``"spec"`` or ``"no_spec"``; ``turns`` are ``(role, text)``."""

    outcome: Literal["spec", "no_spec"]
    spec: Spec | None
    turns: tuple[tuple[str, str], ...]
    usage: Usage
    reason: str = ""


@dataclass(frozen=True)
class Candidate:
    """An edited copy of the harness.

    Parameters
    ----------
    path : folder.
    hash : its identity.
    parent : hash of the harness it came from.
    diff : unified diff against the parent.
    editor : registry name.
    outcome : ``"edited"``, ``"no_change"`` or ``"failed"``.
    usage : consumption of the editor.
    notes : what was left out and why, stray files dropped, errors.
    """

    path: Path
    hash: str
    parent: str
    diff: str
    editor: str
    outcome: Literal["edited", "no_change", "failed"]
    usage: Usage = field(default_factory=Usage)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Decision:
    """Accepted or rejected, with the gate that decided and its numbers.

    Parameters
    ----------
    accepted : the decision.
    gate : ``"static"``, ``"probe"``, ``"leak"``, ``"legal"``, ``"coverage"`` or ``"improvement"``.
    reason : one sentence.
    score_before, score_after : summed training score, None when the rerun was not reached.
    gained, lost : task ids that flipped up and down.
    numbers : further figures of the gate (e.g. sign-test p).
    """

    accepted: bool
    gate: str
    reason: str
    score_before: float | None = None
    score_after: float | None = None
    gained: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    numbers: dict[str, Any] = field(default_factory=dict)


class LabError(Exception):
    """A mistake of the user's: the CLI prints the message and exits with 2."""


class Stopped(Exception):
    """Work ends before its end with everything kept, for example at a budget; the same command goes on."""


class Environment(Protocol):
    """A live environment of one task, for replays."""

    def call(self, call: Call) -> tuple[str, bool]:
        """Execute a call; returns (result text, error)."""
        ...

    def read(self, tool: str, arguments: dict[str, Any]) -> Any:
        """Call a read-only tool off the record: what ``call`` would return, parsed, or None on an error."""
        ...


class Agent(Protocol):
    """The model inside its harness, as a benchmark drives it."""

    def start(self, environment: Environment) -> None:
        """Begin a trial on a live environment."""
        ...

    def user_says(self, text: str) -> Message:
        """Answer a user message: an assistant message with text or calls."""
        ...

    def tools_return(self, results: Sequence[Message]) -> Message:
        """Answer tool results: an assistant message with text or calls."""
        ...

    def close(self) -> None:
        """The conversation is over; may be called again."""
        ...


class Benchmark(Protocol):
    """A set of tasks with an official scorer."""

    name: str
    version: str
    policy: str
    system_prompt: str
    greeting: str
    tools: list[dict[str, Any]]
    human: str  # name or folder of the harness that was written by hand; "" where there is none
    user_acts: bool  # whether the simulated user has tools of its own

    def tasks(self, split: str, n: int | None = None, seed: int = 0) -> list[Task]:
        """Tasks of a split; ``n`` drawn by seed, None for all."""
        ...

    def run(self, task: Task, trial: Trial, agent: Agent, user: Any, limits: dict[str, int]) -> Trajectory:
        """Run one trial and score it with the official evaluator."""
        ...

    def environment(self, task_id: str) -> Environment:
        """A fresh live environment of a task."""
        ...

    def oracle(self, task_id: str) -> dict[str, Any]:
        """Gold plan of a task; only ``sim`` and tests may ask."""
        ...


class Editor(Protocol):
    """Turns a spec into an edited harness."""

    name: str

    def edit(self, harness: Path, spec: Spec, out: Path, feedback: str = "") -> Candidate:
        """Edit a copy of ``harness`` into ``out`` once."""
        ...


class Embedder(Protocol):
    """Text to unit vectors."""

    name: str

    def encode(self, texts: Sequence[str]) -> tuple[Any, float]:
        """Array of shape (n, d) with unit rows, and the share of tokens seen in [0, 1]."""
        ...


Progress = Callable[[str, int, int], None]
"""Called with (what, done, total) while long work runs."""


def to_json(record: Any) -> str:
    """A record as compact JSON text with sorted keys; paths become strings."""
    return json.dumps(asdict(record), sort_keys=True, default=str, ensure_ascii=False)


def message_from(data: dict[str, Any]) -> Message:
    """A ``Message`` from its ``asdict`` form."""
    return Message(**{**data, "calls": tuple(Call(**c) for c in data.get("calls", ()))})


def trajectory_from(data: dict[str, Any]) -> Trajectory:
    """A ``Trajectory`` from its ``asdict`` form."""
    return Trajectory(
        **{
            **data,
            "trial": Trial(**data["trial"]),
            "messages": messages_from(data["messages"]),
            "context": messages_from(data["context"]),
            "interventions": tuple(Intervention(**i) for i in data["interventions"]),
            "usage": {role: Usage(**u) for role, u in data["usage"].items()},
        }
    )


def messages_from(items: Iterable[dict[str, Any]]) -> tuple[Message, ...]:
    """Messages from their ``asdict`` forms."""
    return tuple(message_from(m) for m in items)
