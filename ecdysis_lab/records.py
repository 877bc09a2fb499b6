"""The frozen dataclasses that flow through the lab, and every Protocol, on one page.

``Task -> Trajectory -> Failure -> Pattern -> Subset -> Spec -> Candidate -> Decision``; a stage imports this
module and the stages before it. Gold answers appear in none of these types.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Protocol, get_args, get_origin, get_type_hints

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
Effect = Literal["read", "write", "other"]
"""What one call does to an environment: looks, changes, or neither."""


def tool_key(call: Call) -> str:
    """Name and arguments of a call as one comparable string."""
    return f"{call.name} {json.dumps(call.arguments, sort_keys=True, default=str)}"


Decision = Literal[
    "accepted", "rejected", "no_spec", "no_change", "no_failures", "failed", "mended", "repeated"
]
"""How a round, or an edit within it, ended; only an edit is ``mended`` or ``repeated``."""


@dataclass(frozen=True)
class Task:
    """One benchmark item, without its gold answer.

    Parameters
    ----------
    id : the benchmark's own identifier.
    benchmark : the name by which it is loaded.
    split : ``"train"`` or ``"test"``.
    scenario : the user's hidden instructions (shown to reviewers only at disclosure ``scenario``), or the text of the
        task where there is no user.
    """

    id: str
    benchmark: str
    split: str
    scenario: str = ""


@dataclass(frozen=True)
class Oracle:
    """How a task is done, for simulated models and tests only.

    Parameters
    ----------
    turns : what a flawless agent does, in order: a call, or a text that it says. A text right before a write asks for
        the user's consent; the last one ends the trial.
    give_up : said, or called, where the agent gives up after a call that went wrong.
    deny : said, or called, where it does nothing although there is something to do.
    user_calls : calls of a user who has tools of his own, in order; a text of ``turns`` asks for each.
    """

    turns: tuple[str | Call, ...]
    give_up: str | Call = "I could not do this."
    deny: str | Call = "There is nothing to do here."
    user_calls: tuple[Call, ...] = ()

    @property
    def calls(self) -> tuple[Call, ...]:
        """The gold calls in order."""
        return tuple(turn for turn in self.turns if isinstance(turn, Call))


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
    action : ``"rewrite"``, ``"realize"`` (a reply taken as calls), ``"refuse"``, ``"annotate"``, ``"pass_through"``
        (after three refusals) or ``"fault"``.
    rule : the rule's name, or the fault's kind.
    tool : tool concerned, or an empty string.
    before, after : arguments or text on both sides of a rewrite; the reply, and the calls that it was realized as.
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
    model, user_model : LiteLLM names; no ``user_model`` where no model plays a user.
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
    writes : tools of the calls that changed the environment, in order.
    dialogue : whether a user took part, who can be asked and told.
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
    writes: tuple[str, ...] = ()
    dialogue: bool = True


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
    auxiliary : whether nothing of a recurring pattern was left to pick from.
    """

    picks: tuple[Pick, ...]
    budget: int
    n_failures: int
    coverage: tuple[float, ...] = ()
    random_band: tuple[tuple[float, float, float], ...] = ()
    origin: str = "automatic"
    auxiliary: bool = False

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
class GateResult:
    """What one gate said of one candidate.

    Parameters
    ----------
    name, asks : of the gate. outcome : ``skipped`` where the run did not ask for this gate.
    reason : one sentence; may be empty where the gate was passed. numbers : its figures.
    seconds : wall clock, without the trials that were run for it.
    """

    name: str
    outcome: Literal["passed", "rejected", "skipped"]
    reason: str = ""
    numbers: dict[str, Any] = field(default_factory=dict)
    asks: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Judged:
    """A candidate, by hash, and every gate that ran on it, in order."""

    candidate: str
    gates: tuple[GateResult, ...]


@dataclass(frozen=True)
class Edit:
    """What became of one failure that went to the editor by itself.

    Parameters
    ----------
    failure, task : trial key and task id. parent, harness : hashes in force before and after.
    decision : of the edit; ``mended`` where an earlier edit had done it, ``repeated`` where the failure was handed over
        before with the same harness, and so was not again. gate : the one that decided, if one did.
    reason : its sentence. candidate : hash, empty where nothing was edited. gates : that ran on it, in order.
    gained : (task#seed) that an accepted edit won. editor_calls : of the editor. usage : of review and editor.
    changes : what was asked for; empty where the editor read the failure and no spec.
    """

    failure: str
    task: str
    parent: str
    harness: str
    decision: Decision
    gate: str = ""
    reason: str = ""
    candidate: str = ""
    gates: tuple[GateResult, ...] = ()
    gained: tuple[str, ...] = ()
    editor_calls: int = 0
    usage: Usage = field(default_factory=Usage)
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True)
class RoundRecord:
    """One round as ``record.json``, the ledger and ``summary.json`` tell it.

    Parameters
    ----------
    round : from 1. failures, patterns, recurring, subset : counts.
    decision : how it ended. gate : the gate that decided, empty where none did. reason : why, in one sentence.
    score_before, score_after : summed training score; after is None when no rerun was needed to decide.
    gained, lost : (task#seed) that flipped. editor_calls : calls of the editor.
    harness : hash in force after the round. candidate : hash of the last candidate, or an empty string.
    seconds : wall clock by phase. usage : consumption of review and editor. notes : what was left out.
    parent : hash in force before the round. candidates : all that were judged, with every gate that ran.
    ended : why the training ended with this round; empty where it went on, or ran out of rounds.
    """

    round: int
    failures: int
    patterns: int
    recurring: int
    subset: int
    decision: Decision
    gate: str
    reason: str
    score_before: float
    score_after: float | None
    gained: tuple[str, ...]
    lost: tuple[str, ...]
    editor_calls: int
    harness: str
    candidate: str
    seconds: dict[str, float]
    usage: Usage
    notes: tuple[str, ...] = ()
    parent: str = ""
    candidates: tuple[Judged, ...] = ()
    ended: str = ""


class OneSentence(Exception):
    """An exception whose message says all; a notebook shows it without a traceback."""

    def _render_traceback_(self) -> list[str]:
        """What IPython shows instead of a traceback."""
        return [f"ecdysis-lab: {self}"]


class LabError(OneSentence):
    """A mistake of the user's: the CLI prints the message and exits with 2."""


class Stopped(OneSentence):
    """Work ends before its end with everything kept, for example at a budget; the same command goes on."""


class Terminated(KeyboardInterrupt):
    """SIGTERM arrived: work ends as after Ctrl-C, and the same command goes on."""


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
    """A set of tasks with an official scorer: all that the lab knows of a domain.

    Attributes
    ----------
    name : by which :func:`ecdysis_lab.benchmarks.load_benchmark` finds it: registry name or ``module:factory``.
    version : of the package or data behind it; part of a trial's identity, so it has to change with tools, tasks,
        scorer or slips.
    about : what the agent does, as a phrase that follows "an agent for".
    policy : rules the agent has to follow. system_prompt : its whole prompt, the policy included.
    tools : schemas ``{"name", "description", "parameters", "kind"}``; kind is ``"read"`` where no call of the tool can
        change anything, so that hooks may call it, else ``"write"`` or ``"other"``. ``"reads": True`` marks a tool that
        does both; hooks may call it, and ``Environment.read`` sees to it that nothing changes.
    user : who talks to the agent: ``"model"`` (a dialogue), ``"scripted"`` or ``"none"`` (the task's text opens).
    opening : the agent's first message, which the benchmark sends itself, or an empty string.
    human : shipped harness, or folder, that people wrote for it; empty where there is none.
    slips : dotted path ``module:NAME`` of the slips that simulated models make on it; empty where there are none.

    Two more it may have: ``max_steps``, the most messages of a trial where its rules set a limit of their own, and
    ``clean(task_id) -> bool``, whether the gold of a task can be reached at all. Results are then told of all tasks,
    and of the clean ones apart.
    """

    name: str
    version: str
    about: str
    policy: str
    system_prompt: str
    tools: list[dict[str, Any]]
    user: Literal["model", "scripted", "none"]
    opening: str
    human: str
    slips: str

    def tasks(self, split: str, n: int | None = None, seed: int = 0) -> list[Task]:
        """Tasks of a split (``train``, ``test`` or ``all``); ``n`` drawn by seed, None for all."""
        ...

    def run(self, task: Task, trial: Trial, agent: Agent, user: Any, limits: dict[str, int]) -> Trajectory:
        """Run one trial and score it with the official evaluator."""
        ...

    def environment(self, task_id: str) -> Environment:
        """A fresh live environment of a task."""
        ...

    def effect(self, call: Call) -> Effect:
        """What a call does, by its tool or by its arguments (one SQL tool both reads and writes)."""
        ...

    def facts(self, task_id: str, seen: Sequence[Message] = ()) -> dict[str, str]:
        """Persons, ids, amounts of a task that no harness may hold: text -> kind.

        ``seen`` are the messages of a trial of it; what they show belongs to the task as well.
        """
        ...

    def oracle(self, task_id: str) -> Oracle | None:
        """How a task is done; only ``sim`` and tests may ask. None where that is not known."""
        ...


class Editor(Protocol):
    """Turns a spec into an edited harness."""

    name: str

    def edit(
        self,
        harness: Path,
        spec: Spec,
        out: Path,
        feedback: str = "",
        evidence: Mapping[str, str] | None = None,
    ) -> Candidate:
        """Edit a copy of ``harness`` into ``out`` once.

        Parameters
        ----------
        harness : folder of the current harness. spec : what to change. out : folder to create.
        feedback : a gate's reason against an earlier candidate.
        evidence : what the spec rests on, text by file name (``EVIDENCE.md``, ``POLICY.md``, ``TOOLS.md``).
        """
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


def from_json(kind: Any, data: Any) -> Any:
    """A value of a type from its plain JSON form, as ``asdict`` and JSON leave it.

    Parameters
    ----------
    kind : a dataclass, or ``tuple[X, ...]``, ``dict[str, X]`` and the like of dataclasses.
    data : plain JSON; null stays None whatever the type says.

    Raises
    ------
    TypeError: a field that the dataclass does not know, or one that it misses.
    """
    made = _maker(kind)
    return made(data) if made else data


@cache
def _maker(kind: Any) -> Callable[[Any], Any] | None:
    """What makes a value of a type out of plain JSON; None where plain JSON is the value."""
    origin, inner = get_origin(kind), [a for a in get_args(kind) if a not in (Ellipsis, type(None))]
    if is_dataclass(kind):
        return _record_maker(kind)
    if kind is Path:
        return Path
    if origin is dict:
        value = _maker(inner[1])
        return value and (lambda data: {k: value(v) for k, v in data.items()})
    if origin is tuple:
        item = _maker(inner[0])  # no tuple here mixes records with other values
        return (lambda data: None if data is None else tuple(map(item, data))) if item else _tuple
    return _maker(inner[0]) if origin is UnionType and len(inner) == 1 else None


def _tuple(data: Any) -> tuple[Any, ...] | None:
    return None if data is None else tuple(data)


def _record_maker(kind: Any) -> Callable[[Any], Any]:
    hints = get_type_hints(kind)
    makers = [(f.name, maker) for f in fields(kind) if (maker := _maker(hints[f.name]))]

    def make(data: Any) -> Any:
        if data is None:
            return None
        return kind(**data | {name: maker(data[name]) for name, maker in makers if name in data})

    return make if makers else lambda data: None if data is None else kind(**data)
