"""Real models: real HTTP and real LiteLLM against a scripted server, from one trial up to the command line."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from openai_server import OpenAIServer, Reply, Request, call, raw_call, reset, status, text

from ecdysis_lab.benchmarks import load_benchmark
from ecdysis_lab.benchmarks.tau2.dialogue import FINAL
from ecdysis_lab.cli import parser
from ecdysis_lab.harness import SHIPPED, load_harness
from ecdysis_lab.harness.rollout import Setup, rollout, run_trial
from ecdysis_lab.hooks import Call
from ecdysis_lab.models import ModelParams, PermanentError, complete
from ecdysis_lab.records import Task, Trajectory
from ecdysis_lab.store import Store

EMPTY = SHIPPED / "empty"
BYE = text("Is there anything else I can help you with?")
READ = Call("get_user_details", {"user_id": "mia_li_3668"})
KEY = "sk-test-0123456789abcdef"
Serve = Callable[..., OpenAIServer]


def airline(n: int = 1) -> list[Task]:
    return load_benchmark("tau2/airline").tasks("test", n, 0)


def read() -> Reply:
    return call(READ.name, **READ.arguments)


def one_read_then_bye(request: Request) -> Reply:
    """A model that looks a user up once and then says good-bye."""
    return BYE if any(m["role"] == "tool" for m in request.body["messages"]) else read()


@pytest.fixture
def serve() -> Iterator[Serve]:
    opened: list[OpenAIServer] = []

    def start(*script: Any, **options: Any) -> OpenAIServer:
        opened.append(OpenAIServer(*script, **options).__enter__())
        return opened[-1]

    yield start
    for server in opened:
        server.__exit__()


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def setup(server: OpenAIServer, **options: Any) -> Setup:
    return Setup("tau2/airline", "openai/scripted", params=ModelParams(api_base=server.url), **options)


def trial(server: OpenAIServer, seed: int = 7, **options: Any) -> Trajectory:
    return run_trial(setup(server, **options), airline()[0], EMPTY, seed)


# -- what goes over the wire -------------------------------------------------------------------------------------


def test_requests_are_those_of_the_openai_protocol(serve: Serve) -> None:
    server = serve(one_read_then_bye)
    left = trial(server)
    assert (left.status, left.termination) == ("scored", "user_stop")
    first, second = server.requests
    for request in server.requests:
        assert request.path == "/v1/chat/completions"
        assert request.headers["authorization"] == f"Bearer {KEY}"
        assert request.headers["content-type"] == "application/json"
        assert (request.body["model"], request.body["temperature"], request.body["seed"]) == (
            "scripted",
            0.0,
            7,
        )
        assert set(request.body) <= {
            "model",
            "messages",
            "tools",
            "temperature",
            "seed",
        }  # no metadata above all
    bench = load_benchmark("tau2/airline")
    assert [t["function"]["name"] for t in first.body["tools"]] == [t["name"] for t in bench.tools]
    assert all(t["type"] == "function" for t in first.body["tools"])
    assert set(first.body["tools"][0]["function"]) == {"name", "description", "parameters"}
    assert first.body["messages"][:2] == [
        {"role": "system", "content": bench.system_prompt},
        {"role": "assistant", "content": bench.opening},
    ]
    assert [m["role"] for m in second.body["messages"]] == [
        "system",
        "assistant",
        "user",
        "assistant",
        "tool",
    ]
    asked, answered = second.body["messages"][-2:]
    assert asked["tool_calls"][0]["function"] == {"name": READ.name, "arguments": json.dumps(READ.arguments)}
    assert answered["tool_call_id"] == asked["tool_calls"][0]["id"]


def test_neither_task_nor_key_is_in_what_is_sent_or_kept(serve: Serve, tmp_path: Path) -> None:
    server = serve(one_read_then_bye)
    (left,) = rollout(setup(server), airline(), load_harness(EMPTY), [0], Store(tmp_path))
    sent = json.dumps([r.body for r in server.requests])
    assert "task_id" not in sent and "metadata" not in sent and KEY not in sent
    assert KEY not in str(left)
    assert not any(KEY.encode() in p.read_bytes() for p in tmp_path.iterdir())


def test_usage_is_counted_as_the_server_says(serve: Serve) -> None:
    left = trial(serve([read(), Reply(content=BYE.content, usage=(250, 30))]))
    agent = left.usage["agent"]
    assert (agent.calls, agent.attempts, agent.prompt_tokens, agent.completion_tokens) == (2, 2, 350, 50)
    assert agent.cost_usd is None and left.cost_usd is None  # a price nobody knows is not $0
    assert agent.seconds > 0 and left.usage["user"].cost_usd == 0.0 and left.truth == {}


def test_calls_are_executed_and_scored_officially(serve: Serve) -> None:
    """The whole gold plan through the server is worth 1.0."""
    bench = load_benchmark("tau2/airline")
    oracles = {t: bench.oracle(t.id) for t in bench.tasks("all")}
    task, oracle = next((t, o) for t, o in oracles.items() if len(o.calls) > 2 and o.turns[-1] == FINAL)
    plan = [call(c.name, **c.arguments) for c in oracle.calls]
    left = run_trial(setup(serve([*plan, BYE])), task, EMPTY, 0)
    assert (left.score, left.checks) == (1.0, {"db": True, "communicate": True})
    nothing = run_trial(setup(serve([read(), BYE])), task, EMPTY, 0)
    assert (nothing.score, nothing.checks["db"]) == (0.0, False)


# -- errors of the server ----------------------------------------------------------------------------------------


def test_429_then_success_is_retried(serve: Serve) -> None:
    busy = status(429, "slow down", headers={"retry-after": "0"})
    server = serve([busy, read(), busy, BYE])
    left = trial(server)
    assert left.status == "scored" and len(server.requests) == 4
    assert (left.usage["agent"].calls, left.usage["agent"].attempts) == (2, 4)
    assert server.requests[0].body == server.requests[1].body
    assert server.requests[1].at - server.requests[0].at >= 0.5  # backed off


def test_errors_that_stay_are_no_failure(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retried within the call and as a trial; then unscored, logged, and tried again by the next run."""
    monkeypatch.setattr(
        complete, "__kwdefaults__", {**complete.__kwdefaults__, "sleep": lambda seconds: None}
    )
    server, store = serve([read()], default=status(503, "overloaded")), Store(tmp_path)
    (left,) = rollout(setup(server), airline(), load_harness(EMPTY), [0], store)
    assert (left.status, left.score, left.success) == ("infra_error", None, False)
    assert "overloaded" in left.error
    assert len(server.requests) == 1 + 3 * 4  # one answer, then four attempts for each of three trials
    assert store.keys() == set() and len(store.infra_errors()) == 3
    (left,) = rollout(setup(serve(one_read_then_bye)), airline(), load_harness(EMPTY), [0], store)
    assert left.status == "scored"


def test_401_stops_the_run_and_names_the_key(serve: Serve, tmp_path: Path) -> None:
    server = serve(default=status(401, f"Incorrect API key provided: {KEY}"))
    with pytest.raises(PermanentError, match="set OPENAI_API_KEY") as caught:
        rollout(setup(server), airline(3), load_harness(EMPTY), [0], Store(tmp_path))
    assert len(server.requests) == 1 and KEY not in str(caught.value)
    assert Store(tmp_path).keys() == set() and Store(tmp_path).infra_errors() == []


def test_a_context_window_that_is_too_small_is_the_models_outcome(serve: Serve) -> None:
    full = status(
        400, "This model's maximum context length is 4096 tokens", error_code="context_length_exceeded"
    )
    left = trial(serve([read(), full]))
    assert (left.status, left.score, left.termination) == ("scored", 0.0, "agent_error")
    assert left.usage["agent"].calls == 1


# -- what small models do -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        '```json\n{"name": "get_user_details", "arguments": {"user_id": "mia_li_3668"}}\n```',
        '<tool_call>\n{"name": "get_user_details", "arguments": {"user_id": "mia_li_3668"}}\n</tool_call>',
        '{"name": "get_user_details", "parameters": {"user_id": "mia_li_3668"}}',
        '<think>Who is it?</think>{"name": "get_user_details", "arguments": "{\\"user_id\\": \\"mia_li_3668\\"}"}',
    ],
    ids=["fence", "tags", "bare", "thoughts and quoted arguments"],
)
def test_calls_written_as_text_are_executed(serve: Serve, answer: str) -> None:
    server = serve([text(answer), BYE])
    left = trial(server)
    calls = [c for m in left.messages for c in m.calls]
    assert [(c.name, c.arguments) for c in calls] == [(READ.name, READ.arguments)] and calls[0].id
    results = [m for m in left.messages if m.role == "tool"]
    assert json.loads(results[0].content or "")["user_id"] == "mia_li_3668" and not results[0].error
    sent = server.requests[1].body["messages"][-2]
    assert sent["tool_calls"][0]["function"]["name"] == READ.name  # and it sees its call as a call


def test_empty_answers_are_asked_for_again(serve: Serve) -> None:
    server = serve([text(""), text("  \n"), read(), BYE])
    left = trial(server)
    assert left.status == "scored" and [r.body["seed"] for r in server.requests] == [7, 8, 9, 7]
    silent = trial(serve([read()], default=text(None)))
    assert (silent.status, silent.score, silent.termination) == ("scored", 0.0, "agent_error")
    assert silent.usage["agent"].attempts == 1 + 3  # what the empty answers cost is counted
    assert silent.usage["agent"].prompt_tokens == 400


def test_malformed_arguments_are_answered_four_times_and_end_the_trial(serve: Serve) -> None:
    server = serve([raw_call(READ.name, '{"user_id": "mia')] * 3 + [read(), BYE])
    assert trial(server).status == "scored"
    assert "not one JSON object" in server.requests[1].body["messages"][-1]["content"]
    server = serve(default=raw_call(READ.name, '{"user_id": "mia'))
    left = trial(server)
    assert (left.score, left.termination, len(server.requests)) == (0.0, "agent_error", 4)


def test_repeated_call_ids_over_the_turns_are_told_apart(serve: Serve) -> None:
    """The server numbers calls from ``call_0`` in every answer, as llama.cpp does."""
    server = serve([read(), call("get_reservation_details", reservation_id="NO_ID1"), BYE])
    left = trial(server)
    ids = [c.id for m in left.messages for c in m.calls]
    assert len(ids) == len(set(ids)) == 2
    assert [m["tool_call_id"] for m in server.requests[2].body["messages"] if m["role"] == "tool"] == ids


def test_a_model_that_repeats_itself_ends_at_the_limits(serve: Serve) -> None:
    left = trial(serve(default=read()), max_steps=20)
    assert (left.score, left.termination) == (0.0, "max_steps") and len(left.messages) <= 23
    left = trial(serve(default=call("cancel_reservation", reservation_id="NO_ID1")))
    assert (left.score, left.termination) == (0.0, "too_many_errors")


def test_a_small_model_as_the_user_is_watched(serve: Serve) -> None:
    """It hangs up at once: τ² may count 1.0, we count a user fault. Its usage is counted apart."""
    agent, user = serve(one_read_then_bye), serve(default=text("###STOP###"))
    both = Setup(
        "tau2/airline", "openai/scripted", "openai/scripted",
        params=ModelParams(api_base=agent.url), user_params=ModelParams(api_base=user.url),
    )  # fmt: skip
    left = run_trial(both, airline()[0], EMPTY, 0)
    assert (left.status, left.score) == ("user_fault", None)
    assert len(user.requests) == 1 and agent.requests == []
    assert (
        "tools" not in user.requests[0].body
        and "<scenario>" in user.requests[0].body["messages"][0]["content"]
    )
    assert left.usage["user"].prompt_tokens == 100
    mute = serve(default=text(""))
    left = run_trial(
        Setup(both.benchmark, both.model, both.user_model, both.params, ModelParams(api_base=mute.url)),
        airline()[0], EMPTY, 0,
    )  # fmt: skip
    assert (left.status, left.score) == ("user_fault", None) and "no usable message" in left.error
    assert left.usage["user"].attempts == 3


def test_a_broken_connection_is_retried(serve: Serve) -> None:
    server = serve([reset(), read(), BYE])
    left = trial(server)
    assert left.status == "scored" and left.usage["agent"].attempts == 3


# -- the command line ----------------------------------------------------------------------------------------------


def arguments(server: OpenAIServer, data: Path, *more: str) -> list[str]:
    return ["run", "--model", "openai/scripted", "--api-base", server.url, "--user-model", "sim/user",
            "--split", "test", "--tasks", "2", "--data", str(data), *more]  # fmt: skip


def test_the_command_runs_two_tasks(serve: Serve, tmp_path: Path) -> None:
    """As a user calls it: a new process, no key (a local server needs none), a table, exit 0."""
    server = serve(one_read_then_bye)
    environment = {k: v for k, v in os.environ.items() if k != "OPENAI_API_KEY"}
    left = subprocess.run(
        [sys.executable, "-m", "ecdysis_lab.cli", *arguments(server, tmp_path)],
        cwd=Path(parser.__file__).parents[1], env=environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert left.returncode == 0, left.stderr
    assert "\nSIMULATED\n" in left.stdout and "\nmodel: openai/scripted\n" in left.stdout
    assert "Traceback" not in left.stdout + left.stderr and "Warning" not in left.stderr
    assert len(server.requests) == 4 and server.requests[0].headers["authorization"] == "Bearer none"
    assert len(Store(tmp_path).keys()) == 2


def test_the_command_prints_json_and_continues(serve: Serve, tmp_path: Path, capsys: Any) -> None:
    server = serve(one_read_then_bye)
    for _ in range(2):
        assert parser.main(arguments(server, tmp_path, "--json")) == 0
        summary = json.loads(capsys.readouterr().out)
        assert (summary["model"], summary["benchmark"], summary["simulated"]) == (
            "openai/scripted",
            "tau2/airline",
            True,
        )
        assert (summary["n_tasks"], summary["infra_errors"]) == (2, 0) and 0.0 <= summary["accuracy"] <= 1.0
    assert len(server.requests) == 4  # the second time nothing had to be run


def test_the_command_fails_with_one_sentence(
    serve: Serve, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = serve(default=status(401, "bad key"))
    assert parser.main(arguments(refused, tmp_path)) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "set OPENAI_API_KEY" in said
    monkeypatch.delenv("OPENAI_API_KEY")
    for wrong, words in [
        (["--model", "openai/gpt-4o"], "openai/gpt-4o needs OPENAI_API_KEY; set it in the environment"),
        (["--model", "nosuch/x"], "unknown model 'nosuch/x'"),
        (["--benchmark", "tau2/hotel"], "choose one of tau2/airline, tau2/retail"),
        (["--split", "dev"], "choose one of train, test, all"),
        (["--tasks", "0"], "0 were asked for"),
        (["--harness", "nosuch"], "'nosuch' is neither a folder nor one of"),
    ]:
        assert parser.main(["run", "--data", str(tmp_path), *wrong]) == 2, wrong
        said = capsys.readouterr().err
        assert said.count("\n") == 1 and words in said
