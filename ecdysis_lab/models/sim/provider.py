"""The LiteLLM provider ``sim``: from a request to the next act of the script, the user, or the reviewer."""

from __future__ import annotations

import importlib
import json
import re
import threading
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

from ecdysis_lab.hooks import Call
from ecdysis_lab.models.sim.profiles import HEED_LOST_PER_1000_TOKENS, PROFILES, Profile, draw
from ecdysis_lab.models.sim.scene import BLUNDER, Act, Scene, Slip, possible
from ecdysis_lab.models.sim.script import DONE, Script
from ecdysis_lab.records import Benchmark, LabError

_registering = threading.Lock()
SKILLS = re.compile(r"<skills>\n(.*)\n</skills>", re.S)


_KNOWN: dict[str, Benchmark] = {}


def introduce(name: str, benchmark: Benchmark) -> None:
    """Let the simulated models know a benchmark that was loaded in this process, by the name it was asked for.

    Raises
    ------
    LabError: its slips are not where it says.
    """
    _KNOWN[name] = benchmark
    slips_of(name)


def known(name: str) -> Benchmark:
    """A benchmark that was introduced.

    Raises
    ------
    LabError: it was not loaded in this process.
    """
    if name not in _KNOWN:
        raise LabError(
            f"benchmark: the simulated models were not shown {name!r}; load it before they are asked"
        )
    return _KNOWN[name]


@cache
def _scene(benchmark: str, task_id: str) -> Scene:
    bench = known(benchmark)
    oracle = bench.oracle(task_id)
    if oracle is None:
        raise LabError(f"benchmark: {benchmark!r} has no oracle, so that no simulated model can play it")
    task = next(t for t in bench.tasks("all") if t.id == task_id)
    read = bench.environment(task_id).read
    return Scene(benchmark.rpartition("/")[2], task_id, oracle, bench.effect, task.scenario, read)


@cache
def slips_of(benchmark: str) -> tuple[Slip, ...]:
    """The slips that a benchmark names; none where it names none."""
    path = known(benchmark).slips
    module, _, name = path.partition(":")
    try:
        return tuple(getattr(importlib.import_module(module), name)) if path else ()
    except (ImportError, AttributeError) as why:
        raise LabError(f"benchmark {benchmark!r}: no slips at {path!r} ({why})") from None


@cache
def susceptible(benchmark: str, task_id: str) -> tuple[Slip, ...]:
    """Slips that this task can bring out, whichever model runs it."""
    scene = _scene(benchmark, task_id)
    return tuple(
        s
        for s in slips_of(benchmark)
        if possible(s, scene) and draw("susceptible", scene.benchmark, task_id, s.name) < s.share
    )


@cache
def _plain_descriptions(benchmark: str) -> dict[str, str]:
    return {t["name"]: json.dumps([t["description"], t["parameters"]]) for t in known(benchmark).tools}


def guidance(benchmark: str, system: str, tools: Sequence[dict[str, Any]]) -> list[str]:
    """What the harness added to prompt and schemas: one text per paragraph of skills and per described tool."""
    found = SKILLS.search(system)
    texts = found.group(1).split("\n\n") if found else []
    plain = _plain_descriptions(benchmark)
    for tool in (t["function"] for t in tools):
        shown = json.dumps([tool.get("description"), tool.get("parameters")])
        if shown != plain.get(tool["name"], ""):
            texts.append(f"{tool['name']}: {_added(plain.get(tool['name'], ''), shown)}")
    return texts


@lru_cache(maxsize=4096)
def _added(before: str, after: str) -> str:
    """The middle of ``after`` that is not in ``before`` (common start and end cut off)."""
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        start += 1
    end = 0
    while end < min(len(before), len(after)) - start and before[-1 - end] == after[-1 - end]:
        end += 1
    return after[start : len(after) - end]


def active(
    profile: Profile, benchmark: str, task_id: str, seed: int, texts: Sequence[str]
) -> tuple[Slip, ...]:
    """Slips that come out in this trial, given the guidance shown."""
    tokens = sum(map(len, texts)) / 4
    heed = profile.heed * max(0.0, 1 - HEED_LOST_PER_1000_TOKENS * tokens / 1000)
    out = []
    for slip in susceptible(benchmark, task_id):
        mine = (profile.name, benchmark, task_id, slip.name, seed)
        if slip.quirk and slip.name not in profile.quirks:
            continue
        hinted = any(re.search(slip.hint, t, re.I | re.S) for t in texts)
        if draw(*mine, "slip") < profile.slip and not (hinted and draw(*mine, "heed") < heed):
            out.append(slip)
    if (
        _scene(benchmark, task_id).writes
        and draw(profile.name, benchmark, task_id, seed, "blunder") < profile.blunder
    ):
        out.append(BLUNDER)
    return tuple(out)


def _script(
    model: str, metadata: dict[str, Any], seed: int, system: str, tools: Sequence[dict[str, Any]]
) -> Script:
    profile = PROFILES[model.removeprefix("sim/")]
    benchmark, task_id = metadata["benchmark"], metadata["task_id"]
    texts = guidance(benchmark, system, tools)
    slips = active(profile, benchmark, task_id, seed, texts)
    return Script(profile, _scene(benchmark, task_id), seed, slips)


def _events(messages: Sequence[dict[str, Any]]) -> list[str]:
    """What the model was shown between its own turns; the first is what opened the trial."""
    events: list[str] = []
    buffer: list[str] = []
    for message in messages:
        if message["role"] == "assistant":
            if buffer or events:
                events.append("\n".join(buffer))
                buffer = []
        elif message["role"] != "system":
            buffer.append(message.get("content") or "")
    return [*events, "\n".join(buffer)]


def _play(script: Script, messages: Sequence[dict[str, Any]]) -> Act:
    play = script.play()
    try:
        act = next(play)
        for event in _events(messages)[1:]:
            act = play.send(event)
    except StopIteration:
        return script.scene.answer or DONE
    return act


def truth(
    model: str,
    metadata: dict[str, Any],
    seed: int,
    messages: Sequence[dict[str, Any]],
    tools: Sequence[dict[str, Any]],
) -> dict[str, Any]:
    """Planted causes of a finished trial, for tests and for scoring the analysis only.

    Parameters
    ----------
    model, metadata, seed : as the trial ran. messages, tools : the conversation as the model saw it.

    Returns
    -------
    ``{"slips": {name: "fired" | "corrected" | "fatal"}, "fatal": name or None, "cause": "defect" | "quirk" | None}``
    """
    script = _script(model, metadata, seed, messages[0]["content"], tools)
    _play(script, messages)
    log = script.log
    fatal = next((n for n, what in log.items() if what == "fatal"), None) or next(
        (n for n, what in log.items() if what == "fired"), None
    )  # a slip that the trial ended in
    cause = next((s.cause for s in script.slips if s.name == fatal), None)
    return {"slips": dict(script.log), "fatal": fatal, "cause": cause}


def agent_act(model: str, request: dict[str, Any]) -> Act:
    """The agent's next act for a request ``{"messages", "tools", "seed", "metadata"}``."""
    messages = request["messages"]
    script = _script(model, request["metadata"], request["seed"], messages[0]["content"], request["tools"])
    return _play(script, messages)


def user_plan(metadata: dict[str, Any]) -> tuple[Call, ...]:
    """What a user with tools of his own has to do in a task, in order; nothing outside of a task."""
    oracle = known(metadata["benchmark"]).oracle(metadata["task_id"]) if "task_id" in metadata else None
    return oracle.user_calls if oracle else ()


def register() -> None:
    """Make LiteLLM know the provider ``sim``; calling it again changes nothing."""
    import litellm

    from ecdysis_lab.models.sim.custom_llm import SimLLM

    with _registering:  # threads of one rollout may all be the first to ask
        if any(entry["provider"] == "sim" for entry in litellm.custom_provider_map):
            return
        litellm.custom_provider_map.append({"provider": "sim", "custom_handler": SimLLM()})
    free = {
        "input_cost_per_token": 0.0,
        "output_cost_per_token": 0.0,
        "litellm_provider": "sim",
        "mode": "chat",
    }
    litellm.register_model({f"sim/{name}": dict(free) for name in (*PROFILES, "user", "reviewer")})
