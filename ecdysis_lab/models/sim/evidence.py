"""Reads the FDCR context back into data, for the simulated reviewer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

LINE = re.compile(r"^\[(\d+)\] (user:|assistant:|call|ok|error) ?(.*)$")


@dataclass(frozen=True)
class Event:
    """One line of an excerpt: ``kind`` is user, assistant, call, ok or error."""

    step: int
    kind: str
    tool: str
    text: str

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of a call."""
        return dict(json.loads(self.text)) if self.kind == "call" else {}


@dataclass(frozen=True)
class Excerpt:
    """One failed trial as the context shows it."""

    trial: str
    pattern: int
    task: str
    checks: tuple[str, ...]
    events: tuple[Event, ...]

    def cite(self, event: Event) -> str:
        """Evidence reference ``trial#step``."""
        return f"{self.trial}#{event.step}"

    def calls(self) -> Iterator[tuple[Event, Event | None]]:
        """Calls, each with the next result of the same tool."""
        for n, event in enumerate(self.events):
            if event.kind == "call":
                rest = (e for e in self.events[n + 1 :] if e.kind in ("ok", "error") and e.tool == event.tool)
                yield event, next(rest, None)


@dataclass(frozen=True)
class Evidence:
    """The whole context.

    Parameters
    ----------
    excerpts : failed trials. acts : tool -> argument objects that succeeded. kinds : tool -> read, write, other.
    policy : its lines. source : the current harness. recurring : ids of the patterns over two tasks or more.
    arguments : tool -> argument names of its schema. talks : whether the agent talks with a user.
    rejected : proposals that a gate rejected in earlier rounds. auxiliary : whether one task is evidence enough.
    """

    excerpts: tuple[Excerpt, ...]
    acts: dict[str, list[dict[str, Any]]]
    kinds: dict[str, str]
    policy: tuple[str, ...]
    source: str
    recurring: frozenset[int] = frozenset()
    rejected: str = ""
    arguments: dict[str, tuple[str, ...]] = field(default_factory=dict)
    talks: bool = True
    auxiliary: bool = False


@dataclass(frozen=True)
class Finding:
    """A cause with its remedy.

    Parameters
    ----------
    cause, what : sentences. guard : template of the ``rules`` editor. pattern : most frequent pattern id.
    tasks : labels of the tasks it is seen on. evidence : references. allow : acts that must stay legal.
    breaks : the first successful act that the remedy would change, or an empty string.
    """

    cause: str
    what: str
    guard: dict[str, Any]
    pattern: int
    tasks: tuple[str, ...]
    evidence: tuple[str, ...]
    allow: tuple[str, ...] = ()
    breaks: Callable[[Evidence], str] = field(default=lambda evidence: "", compare=False)


def _sections(text: str) -> dict[str, str]:
    parts = re.split(r"^# (.+)$", text, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=False))


def parse(text: str) -> Evidence:
    """The context as data; what is not there is empty."""
    sections = _sections(text)

    def section(start: str) -> str:
        return next((body for title, body in sections.items() if title.startswith(start)), "")

    acts: dict[str, list[dict[str, Any]]] = {}
    for name, arguments in re.findall(
        r"^- (\w+) \(used \d+ times\): (\{.*\})$", section("Acts that succeeded"), re.M
    ):
        acts.setdefault(name, []).append(json.loads(arguments))
    tools = re.findall(r"^- (\w+) \((read|write|other); ([\w, ]+)\):", section("Tools"), re.M)
    whole_policy = text.partition("\n# Policy\n")[2].partition("\n# Acts that succeeded")[0]
    return Evidence(
        excerpts=tuple(_excerpts(section("Evidence"))),
        acts=acts,
        kinds={name: kind for name, kind, _ in tools},
        arguments={name: tuple(names.split(", ")) for name, _, names in tools},
        policy=tuple(line.strip("-* ").strip() for line in whole_policy.splitlines() if line.strip("-* #")),
        talks="It talks with a user." in section("Setting"),
        source=text.partition("\n# Current harness\n")[2].partition("\n# Tools\n")[0],
        rejected=section("Proposals rejected"),
        auxiliary="This round" in sections,
        recurring=frozenset(int(p) for p in re.findall(r"^- P(\d+) recurring:", section("Patterns"), re.M)),
    )


def _excerpts(text: str) -> Iterator[Excerpt]:
    folded = re.sub(r"\n {4}", " ", text)  # further lines of an entry are indented
    for block in re.split(r"^## trial ", folded, flags=re.M)[1:]:
        head, *lines = block.strip().splitlines()
        trial, pattern, task, _, checks = (part.strip() for part in head.split("|"))
        named = checks.removeprefix("failed checks:").strip()
        yield Excerpt(
            trial=trial,
            pattern=int(pattern[1:]) if pattern.startswith("P") else -1,
            task=task.removeprefix("task "),
            checks=tuple(c.strip() for c in named.split(",")),
            events=tuple(e for e in map(_event, lines) if e is not None),
        )


def _event(line: str) -> Event | None:
    found = LINE.match(line)
    if found is None:
        return None
    step, kind, rest = int(found[1]), found[2].rstrip(":"), found[3]
    if kind in ("user", "assistant"):
        return Event(step, kind, "", rest)
    tool, _, text = rest.partition(" " if kind == "call" else ": ")
    return Event(step, kind, tool, text)
