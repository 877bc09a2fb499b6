"""Whole rounds with an editor that is a model: calls as the server counts them, and no key in any file."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tau2")

from openai_server import OpenAIServer, Reply, Request, call, text

from ecdysis_lab.records import RoundRecord
from ecdysis_lab.review import editors
from ecdysis_lab.store import Run, Store
from ecdysis_lab.train.loop import Trainer
from ecdysis_lab.train.settings import configure

CANARY = "canary-b81f-in-no-file"
SILENT = "from ecdysis_lab.hooks import Allow\n\n\ndef check(call, view):\n    return Allow()\n"
FORBIDDEN = "import os\n\n\n" + SILENT
ROLES = ("analyst", "critic", "engineer", "moderator")


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)


class Desk:
    """Plays reviewer and editor, and counts who was asked.

    Parameters
    ----------
    sources : what the editor writes into ``actions.py``, in turn; the last one again and again.
    """

    def __init__(self, *sources: str) -> None:
        self.sources, self.asked = sources, Counter[str]()
        self.evidence = ""

    def __call__(self, request: Request) -> Reply:
        system, *_ = (str(m["content"]) for m in request.body["messages"])
        if system.startswith("You edit the runtime harness"):
            return self._edit()
        if "coding" in system.lower() or request.body.get("tools"):
            return self._opencode(request)
        role = next(iter(re.findall(r"^Role: (\w+)", system, re.M)), "alone").lower()
        self.asked[role] += 1
        shown = str(request.body["messages"][1]["content"])
        return text(_spec(shown) if role in ("moderator", "alone") else "Nothing to add.")

    def _source(self) -> str:
        self.asked["editor"] += 1
        return self.sources[min(self.asked["editor"], len(self.sources)) - 1]

    def _edit(self) -> Reply:
        return text(f"<<<<<<< SEARCH actions.py\n=======\n{self._source()}>>>>>>> REPLACE\n")

    def _opencode(self, request: Request) -> Reply:
        said = request.body["messages"]
        if any(m["role"] == "assistant" for m in said):
            return text("Done.")
        where = re.search(r"Working directory: (\S+)", json.dumps(said).replace("\\n", "\n"))
        assert where is not None
        return call("write", filePath=f"{where[1]}/actions.py", content=self._source())


def _spec(context: str) -> str:
    """A spec that cites a trial of each task that is shown of the first recurring pattern (or the only trial)."""
    trials = re.findall(r"^## trial ([0-9a-f]{8}) \| (\w+) \| task (\w+) \|", context, re.M)
    recurring = {f"P{n}" for n in re.findall(r"^- P(\d+) recurring:", context, re.M)}
    first = next((p for _, p, _ in trials if p in recurring), trials[0][1])
    cited = {task: trial for trial, pattern, task in reversed(trials) if pattern == first}
    change = {
        "layer": "actions",
        "what": "look before each call",
        "why": "it slips",
        "evidence": [f"{trial}#1" for trial in cited.values()],
    }
    return json.dumps({"patterns": [], "changes": [change], "rejected": [], "notes": ""})


def train(root: Path, desk: Desk, **other: Any) -> tuple[RoundRecord, ...]:
    """A small run whose reviewer and editor are the desk."""
    with OpenAIServer(desk) as server:
        base: dict[str, Any] = {
            "train_tasks": 8, "trials": 1, "rounds": 2, "seed": 2, "start": "empty", "embedder": "tfidf", "debate": 1,
            "review_model": "openai/x", "api_base": server.url, "editor": "litellm", "workers": 1,
        }  # fmt: skip
        arm, settings = other.pop("arm", "ecdysis"), configure(**(base | other))
        trained = Trainer(settings, arm, Run.open(root, "run", settings.model_dump()), Store(root)).train()
        assert {r.headers["authorization"] for r in server.requests} == {f"Bearer {CANARY}"}
    return trained.rounds


def files_with_key(root: Path) -> list[str]:
    return [str(p) for p in root.rglob("*") if p.is_file() and CANARY.encode() in p.read_bytes()]


def test_one_review_and_one_edit_a_round(tmp_path: Path) -> None:
    desk = Desk(SILENT)
    rounds = train(tmp_path, desk)
    assert [(r.decision, r.gate, r.editor_calls) for r in rounds] == [("rejected", "improvement", 1)] * 2
    assert desk.asked == {**dict.fromkeys(ROLES, 2), "editor": 2}
    assert [r.usage.calls for r in rounds] == [5, 5]
    assert files_with_key(tmp_path) == []


@pytest.mark.parametrize("first, told", [(FORBIDDEN, "import of 'os'"), ("def check(call, view):\n    return 1 / 0\n", "ZeroDivisionError")])  # fmt: skip
def test_the_reason_of_a_cheap_gate_goes_back_once_and_both_calls_count(
    first: str, told: str, tmp_path: Path
) -> None:
    desk = Desk(first, SILENT)
    (only,) = train(tmp_path, desk, rounds=1)
    assert (only.gate, only.editor_calls, desk.asked["editor"]) == ("improvement", 2, 2)
    assert (only.usage.calls, only.usage.prompt_tokens) == (6, 600), "four turns and two edits"
    asked = (tmp_path / "runs/run/rounds/ecdysis-1/candidate-1.editor.jsonl").read_text(encoding="utf-8")
    assert told in asked and "A gate rejected the last candidate" in asked
    assert files_with_key(tmp_path) == []


def test_one_edit_a_failure_where_each_is_handed_over_alone(tmp_path: Path) -> None:
    desk = Desk(SILENT)
    (only,) = train(tmp_path, desk, rounds=1, arm="self-evolution")
    assert only.failures >= 3
    assert desk.asked == {"editor": only.failures}, "nobody reviews: the editor reads the failure itself"
    assert only.editor_calls == only.failures
    assert files_with_key(tmp_path) == []


@pytest.mark.slow
@pytest.mark.needs("opencode")
def test_a_round_with_the_real_opencode_leaves_no_key(tmp_path: Path) -> None:
    desk = Desk(SILENT)
    (only,) = train(tmp_path, desk, rounds=1, editor="opencode")
    assert (only.gate, only.editor_calls, desk.asked["editor"]) == ("improvement", 1, 1)
    assert (tmp_path / "runs/run/rounds/ecdysis-1/candidate-0/actions.py").read_text() == SILENT
    assert files_with_key(tmp_path) == []


@pytest.mark.needs("opencode")
def test_the_key_goes_to_the_server_it_is_for_and_to_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    base = "http://127.0.0.1:9/v1"
    assert editors.for_run("opencode", "openai/x", base).api_key_env == "OPENAI_API_KEY"
    assert editors.for_run("opencode", "hosted_vllm/x", base).api_key_env is None
    monkeypatch.delenv("OPENAI_API_KEY")
    assert editors.for_run("opencode", "openai/x", base).api_key_env is None


def test_reviewers_and_the_editor_are_asked_at_temperature_zero_and_with_their_own_limit(
    tmp_path: Path,
) -> None:
    made = configure(
        model="openai/x", review_model="openai/x", editor="litellm", api_base="http://127.0.0.1:9/v1",
        temperature=0.7, timeout_seconds=30, review_timeout_seconds=1234,
    )  # fmt: skip
    trainer = Trainer(made, "ecdysis", Run.open(tmp_path, "run", made.model_dump()), Store(tmp_path))
    asked = trainer.editor.params  # type: ignore[attr-defined]
    for params in (made.review_params, asked):
        assert (params.temperature, params.timeout_seconds, params.api_base) == (0.0, 1234, made.api_base)
    assert made.params("openai/x").temperature == 0.7
