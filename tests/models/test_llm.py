"""Model calls over real HTTP through real LiteLLM, against the scripted server."""

from __future__ import annotations

import json
import pickle
import random
import socket
import sys
import threading
import time
import traceback
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openai_server import (
    OpenAIServer,
    Reply,
    Request,
    call,
    hang,
    raw_call,
    reset,
    slow,
    status,
    text,
    truncated,
)  # fmt: skip

from ecdysis_lab.hooks import Call
from ecdysis_lab.models import (
    LLMError,
    answers,
    check_model,
    complete,
    errors,
    providers,
    to_openai,
    wire,
)
from ecdysis_lab.models.calls import (
    Budget,
    BudgetExceeded,
    ContentError,
    ModelParams,
    PermanentError,
    TransientError,
)
from ecdysis_lab.records import Completion, LabError, Message, Usage

CANARY = "canary-5f0c2a9d41"  # in no provider's form: only its variable gives it away
HELLO = [{"role": "user", "content": "hello"}]
TOOLS = [
    {"type": "function", "function": {"name": "get_order", "description": "Look up.", "parameters": {
        "type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}}},
    {"type": "function", "function": {"name": "list_all", "parameters": {"type": "object"}}},
]  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    """The first call imports most of LiteLLM; keep that out of the time-outs below."""
    with OpenAIServer([text("hi")]) as server:
        complete("agent", "openai/x", HELLO, params=ModelParams(api_base=server.url))


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A recognisable key in the environment."""
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    yield


class Waits(list[float]):
    """Stands in for ``time.sleep`` and remembers the waits."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


def ask(
    server: OpenAIServer, *, model: str = "openai/tiny", timeout: float = 20.0, **options: Any
) -> Completion:
    """One call of the task agent."""
    params = ModelParams(api_base=server.url, timeout_seconds=timeout)
    return complete("agent", model, HELLO, TOOLS, **{"params": params, "sleep": Waits(), **options})


def failing(*replies: Reply, default: Reply | None = None, **options: Any) -> tuple[LLMError, list[Request]]:
    """The error of a call that has to fail, and what the server saw."""
    with OpenAIServer(replies, default) as server, pytest.raises(LLMError) as caught:
        ask(server, **options)
    return caught.value, server.requests


def test_the_request_carries_key_model_tools_and_sampling_and_nothing_else() -> None:
    with OpenAIServer([call("get_order", id="#W1")]) as server:
        params = ModelParams(temperature=0.3, api_base=server.url, max_tokens=50, extra={"top_p": 0.9})
        got = complete(
            "agent", "openai/tiny", HELLO, TOOLS, params=params, seed=7, metadata={"gold": "SECRET"}
        )
    assert got.calls == (Call("get_order", {"id": "#W1"}, "call_0"),)
    assert (got.text, got.malformed, got.finish) == (None, (), "tool_calls")
    (request,) = server.requests
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == f"Bearer {CANARY}"
    assert [name for name, value in request.headers.items() if CANARY in value] == ["authorization"]
    assert request.body == {"model": "tiny", "messages": HELLO, "tools": TOOLS, "temperature": 0.3, "seed": 7,
                            "max_tokens": 50, "top_p": 0.9}  # fmt: skip


def test_usage_is_counted_and_an_unknown_price_is_none() -> None:
    with OpenAIServer([text("Done.", usage=(123, 45))]) as server:
        got = ask(server)
    assert got.text == "Done."
    usage = got.usage
    assert (usage.calls, usage.prompt_tokens, usage.completion_tokens, usage.attempts) == (1, 123, 45, 1)
    assert usage.cost_usd is None
    assert 0 < usage.seconds < 5


def test_a_known_price_is_charged() -> None:
    with OpenAIServer([text("Done.", usage=(1000, 100))]) as server:
        assert ask(server, model="openai/gpt-4o-mini").usage.cost_usd == pytest.approx(0.00021)


def test_a_price_can_be_given() -> None:
    with OpenAIServer([text("Done.", usage=(1000, 100))]) as server:
        extra = {"input_cost_per_token": 0.001, "output_cost_per_token": 0.01}
        params = ModelParams(api_base=server.url, extra=extra)
        assert ask(server, params=params, model="openai/own").usage.cost_usd == pytest.approx(2.0)


def test_a_model_name_that_litellm_guesses_at_zero_has_no_price() -> None:
    with OpenAIServer([text("Done.")]) as server:
        assert ask(server, model="openai/gpt-9-super").usage.cost_usd is None


def test_without_the_servers_count_tokens_are_estimated() -> None:
    with OpenAIServer([text("word " * 200, usage=None)]) as server:
        usage = ask(server).usage
    assert 60 < usage.prompt_tokens < 150  # messages and tools: about 400 characters
    assert 250 <= usage.completion_tokens < 320
    assert usage.cost_usd is None


def test_429_is_retried_after_what_the_server_asked_for() -> None:
    waits = Waits()
    replies = [status(429, headers={"Retry-After": "7"}), status(429), text("Done.")]
    with OpenAIServer(replies) as server:
        got = ask(server, sleep=waits, seed=1)
    assert got.text == "Done." and got.usage.attempts == 3 and got.usage.calls == 1
    assert waits[0] == 7.0 and 1.0 <= waits[1] <= 2.0
    assert len(server.requests) == 3
    again = Waits()
    with OpenAIServer(replies) as server:
        ask(server, sleep=again, seed=1)
    assert again == waits  # jitter comes from the call


def test_an_absurd_retry_after_ends_the_call_at_once() -> None:
    error, requests = failing(status(429, headers={"Retry-After": "86400"}))
    assert isinstance(error, TransientError) and len(requests) == 1


def test_429_without_end_is_transient_with_rising_waits() -> None:
    waits = Waits()
    error, requests = failing(default=status(429, "slow down"), sleep=waits)
    assert isinstance(error, TransientError) and not isinstance(error, LabError)
    assert "slow down (status 429)" in str(error)
    assert len(requests) == 4 and error.usage.attempts == 4
    assert [0.5 * 2**i <= wait <= 2**i for i, wait in enumerate(waits)] == [True] * 3


@pytest.mark.parametrize("code", [500, 502, 503, 529, 408, 409])
def test_a_server_error_is_retried(code: int) -> None:
    with OpenAIServer([status(code), text("Done.")]) as server:
        assert ask(server).usage.attempts == 2


def test_silence_is_a_timeout() -> None:
    started = time.monotonic()
    error, requests = failing(hang(), hang(), timeout=0.5, max_attempts=2)
    assert isinstance(error, TransientError) and len(requests) == 2
    assert str(error).endswith("a larger timeout_seconds (review roles: review_timeout_seconds)")
    assert 1.0 <= time.monotonic() - started < 4.0
    assert 1.0 <= error.usage.seconds < 4.0


def test_slow_bytes_are_a_timeout_too() -> None:
    error, _ = failing(slow(text("hello"), 0.1), timeout=0.5, max_attempts=1)
    assert isinstance(error, TransientError) and "no complete answer within 0.5 s" in str(error)


@pytest.mark.parametrize(
    "reply",
    [
        reset(), truncated(text("Done. " * 50)), Reply(raw=b"<html>Bad gateway</html>"), Reply(raw=b""),
        Reply(raw=b"null"), Reply(raw=b'{"choices": []}'), Reply(raw=b'{"error": {"message": "upstream"}}'),
    ],
)  # fmt: skip
def test_a_broken_answer_is_retried_and_then_transient(reply: Reply) -> None:
    with OpenAIServer([reply, text("Done.")]) as server:
        assert ask(server).text == "Done."
    error, requests = failing(default=reply, max_attempts=2)
    assert isinstance(error, TransientError) and len(requests) == 2


def test_a_server_that_never_answered_is_one_sentence_within_seconds() -> None:
    waits = Waits()
    wire._answered.clear()  # ports come again
    with socket.socket() as mute:  # bound and never listening, so that no other test's server gets this port
        mute.bind(("127.0.0.1", 0))
        url = f"http://me:hunter2hunter2@127.0.0.1:{mute.getsockname()[1]}/v1"
        with pytest.raises(PermanentError) as caught:
            complete("agent", "openai/tiny", HELLO, params=ModelParams(api_base=url), sleep=waits)
    said = str(caught.value)
    assert said.startswith("openai/tiny: no server answers at http://127.0.0.1:") and "\n" not in said
    assert said.endswith("Connection refused); start it, or check api_base and network")
    assert "hunter2" not in said
    assert len(waits) == 2 and sum(waits) <= 3.0


def test_a_server_that_went_away_is_transient() -> None:
    waits = Waits()
    with OpenAIServer([text("Done.")]) as server:
        ask(server)
    with pytest.raises(TransientError):
        ask(server, sleep=waits)
    assert len(waits) == 3


def test_401_stops_at_once_names_the_variable_and_hides_the_key() -> None:
    error, requests = failing(
        status(401, f"Incorrect API key provided: {CANARY}", error_code="invalid_api_key")
    )
    assert isinstance(error, PermanentError) and isinstance(error, LabError)
    assert str(error) == (
        "openai/tiny: the server refused the key (401: Incorrect API key provided: [key]); set OPENAI_API_KEY"
    )
    assert len(requests) == 1
    assert CANARY not in "".join(traceback.format_exception(error))
    assert error.__cause__ is None and error.__context__ is None
    assert CANARY not in repr(pickle.loads(pickle.dumps(error)).__dict__)


def test_other_keys_are_known_by_their_form() -> None:
    raw = "litellm.AuthenticationError: OpenAIException - no sk-abcdef1234 for Bearer eyJhbGciOi\nTraceback"
    assert errors.redact(raw) == "no [key] for [key]"


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (status(403, "no access"), "refused the key (403: no access); set OPENAI_API_KEY"),
        (status(404, "no model tiny"), "does not know this model; check name and api_base (no model tiny)"),
        (status(400, "bad schema"), "rejected the request (400: bad schema)"),
        (status(422, "bad field"), "rejected the request (422: bad field)"),
        (status(429, "You exceeded your current quota", error_code="insufficient_quota"), "no credit left"),
    ],
)
def test_what_no_retry_can_mend_stops_at_once(
    reply: Reply, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import litellm

    monkeypatch.setattr(litellm, "drop_params", True)  # as it is once tau2 has been imported
    error, requests = failing(reply)
    assert isinstance(error, PermanentError) and words in str(error) and len(requests) == 1


@pytest.mark.parametrize(
    "reply",
    [
        status(400, "context length exceeded: 9 of 8 tokens", error_code="context_length_exceeded"),
        status(400, "request (9000 tokens) exceeds the available context size (4096 tokens)"),
        status(400, "This model's maximum context length is 8192 tokens."),
        status(413, "too large"),
    ],
)
def test_a_full_context_window_is_the_trials_own_outcome(reply: Reply) -> None:
    error, requests = failing(reply)
    assert isinstance(error, ContentError) and "context window" in str(error) and len(requests) == 1


@pytest.mark.parametrize(
    "reply", [text("x", finish="content_filter"), status(400, "blocked", error_code="content_filter")]
)
def test_a_refusal_is_the_trials_own_outcome(reply: Reply) -> None:
    error, requests = failing(reply)
    assert isinstance(error, ContentError) and "refused" in str(error) and len(requests) == 1


def test_an_empty_answer_is_asked_for_again_with_another_seed() -> None:
    with OpenAIServer([text(None), text("<think>hm</think>"), text("Done.")]) as server:
        got = ask(server, seed=5)
    assert got.text == "Done."
    assert [request.body["seed"] for request in server.requests] == [5, 6, 7]
    assert (got.usage.calls, got.usage.attempts, got.usage.prompt_tokens) == (1, 3, 300)


def test_nothing_but_empty_answers_is_the_trials_own_outcome() -> None:
    waits = Waits()
    error, requests = failing(default=text("  ", finish="length"), sleep=waits)
    assert (
        isinstance(error, ContentError) and str(error) == "openai/tiny: empty answer (finish reason length)"
    )
    assert len(requests) == 3 and waits == []
    assert (error.usage.prompt_tokens, error.usage.completion_tokens) == (300, 60)


@pytest.mark.parametrize(
    ("raw", "arguments"),
    [("", {}), ("{}", {}), ('{"id": "#W1"}', {"id": "#W1"}), (json.dumps('{"id": "#W1"}'), {"id": "#W1"})],
)
def test_argument_text_becomes_an_object(raw: str, arguments: dict[str, Any]) -> None:
    with OpenAIServer([raw_call("get_order", raw)]) as server:
        got = ask(server)
    assert got.calls == (Call("get_order", arguments, "call_0"),) and got.malformed == ()


@pytest.mark.parametrize("raw", ['{"id": ', "order W1", '["x"]', "3", "null"])
def test_malformed_arguments_are_kept_as_they_came(raw: str) -> None:
    with OpenAIServer([raw_call("get_order", raw)]) as server:
        got = ask(server)
    assert (got.calls, got.malformed, got.finish) == ((), (("get_order", raw),), "tool_calls")
    assert len(server.requests) == 1


GET = '{"name": "get_order", "arguments": {"id": "#W1"}}'


@pytest.mark.parametrize(
    ("said", "rest"),
    [
        (GET, None),
        (f"```json\n{GET}\n```", None),
        (f"```\n{GET}\n```", None),
        (f"<tool_call>\n{GET}\n</tool_call>", None),
        (f"<tool_call>{GET}", None),
        (f"I will look it up.\n<tool_call>\n{GET}\n</tool_call>", "I will look it up."),
        (f"<think>I should call {GET}</think>\n{GET}", None),
        ('{"name": "get_order", "parameters": {"id": "#W1"}}', None),
        ('{"name": "get_order", "arguments": "{\\"id\\": \\"#W1\\"}"}', None),
        (f'{{"type": "function", "function": {GET}}}', None),
        (f"[{GET}]", None),
    ],
)
def test_a_call_written_as_text_is_salvaged(said: str, rest: str | None) -> None:
    with OpenAIServer([text(said)]) as server:
        got = ask(server)
    (found,) = got.calls
    assert (found.name, found.arguments, got.text, got.finish) == (
        "get_order",
        {"id": "#W1"},
        rest,
        "salvaged",
    )
    assert found.id.startswith("call_") and len(found.id) == 17


def test_two_calls_written_as_text_get_two_ids() -> None:
    both = f"<tool_call>{GET}</tool_call>\n<tool_call>{GET}</tool_call>"
    tools: dict[str, dict[str, Any]] = {"get_order": {}}
    first, second = answers.salvage(both, tools, turn=3).calls
    assert first.id != second.id
    assert answers.salvage(both, tools, turn=3).calls == [first, second]
    assert answers.salvage(both, tools, turn=5).calls[0].id != first.id


@pytest.mark.parametrize(
    "said",
    [
        f"Here is an example:\n```json\n{GET}\n```",
        '{"name": "get_order"}',
        '{"order": "#W1"}',
        '{"name": "Mia", "items": [1, 2]}',
        "```json\n[1, 2]\n```",
        "```python\nget_order('#W1')\n```",
    ],
)
def test_other_text_stays_text(said: str) -> None:
    with OpenAIServer([text(said)]) as server:
        got = ask(server)
    assert (got.text, got.calls, got.malformed, got.finish) == (said, (), (), "stop")


def test_a_broken_call_in_a_tag_is_malformed() -> None:
    broken = '{"name": "get_order", "arguments": {"id": "#W1}'
    said = f"<tool_call>\n{broken}\n</tool_call>"
    with OpenAIServer([text(said)]) as server:
        got = ask(server)
    assert (got.text, got.calls, got.malformed) == (said, (), (("get_order", broken),))


def test_without_tools_a_call_stays_text() -> None:
    with OpenAIServer([text(GET)]) as server:
        got = complete("critic", "openai/tiny", HELLO, params=ModelParams(api_base=server.url))
    assert got.text == GET and "tools" not in server.requests[0].body


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("<think>hm</think>Done.", "Done."), ("hm</think>\n\nDone.", "Done."), ("<think>never closed", ""),
        ("A<think>x</think>B<think>y</think>C", "ABC"), ("2 < 3", "2 < 3"),
    ],
)  # fmt: skip
def test_thoughts_are_stripped(said: str, left: str) -> None:
    assert answers.without_thoughts(said) == left


def test_reasoning_of_the_server_is_not_text() -> None:
    with OpenAIServer([text("Done.", reasoning="I think so")]) as server:
        assert ask(server).text == "Done."


def test_a_response_format_is_sent() -> None:
    with OpenAIServer([text("{}")]) as server:
        ask(server, response_format={"type": "json_object"})
    assert server.requests[0].body["response_format"] == {"type": "json_object"}


def test_a_local_server_needs_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    with OpenAIServer([text("Done."), status(401, "who are you")]) as server:
        assert ask(server).text == "Done."
        with pytest.raises(PermanentError, match="set OPENAI_API_KEY"):
            ask(server)
    assert server.requests[0].headers["authorization"] == "Bearer none"


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("nosuch/x", "unknown model 'nosuch/x': no such provider; use openai/NAME .*sim/small"),
        ("sim/huge", "unknown model 'sim/huge'; choose one of sim/small, sim/medium, .*sim/reviewer"),
    ],
)
def test_an_unknown_model_is_one_sentence_before_any_wait(model: str, words: str) -> None:
    started = time.monotonic()
    for act in (lambda: check_model(model), lambda: complete("agent", model, HELLO)):
        with pytest.raises(LabError, match=words) as caught:
            act()
        assert "\n" not in str(caught.value)
    assert time.monotonic() - started < 2.0


def test_a_missing_key_is_named_before_any_call(monkeypatch: pytest.MonkeyPatch) -> None:
    check_model("openai/gpt-4o-mini")
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OLLAMA_API_BASE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(
        LabError, match=r"^openai/gpt-4o-mini needs OPENAI_API_KEY; set it in the environment$"
    ):
        check_model("openai/gpt-4o-mini")
    with pytest.raises(LabError, match="ANTHROPIC_API_KEY"):
        check_model("anthropic/claude-sonnet-4")
    check_model("openai/tiny", ModelParams(api_base="http://localhost:1/v1"))
    check_model("hosted_vllm/tiny")
    check_model("ollama_chat/llama3")


def test_parameters_hold_no_key() -> None:
    params = ModelParams(0.5, "http://me:hunter2@host:8000/v1", 100, 30.0, {"top_p": 0.9})
    assert json.loads(params.to_json()) == {
        "temperature": 0.5, "api_base": "http://host:8000/v1", "max_tokens": 100, "extra": {"top_p": 0.9},
    }  # fmt: skip
    assert ModelParams().to_json() == '{"temperature": 0.0}'
    for name in ("api_key", "extra_headers", "aws_secret_access_key"):
        with pytest.raises(LabError, match=f"extra.{name}: keys come from the environment only"):
            ModelParams(extra={name: "x"})
    with pytest.raises(LabError, match=r"extra\.messages is set by the lab"):
        ModelParams(extra={"messages": []})


def test_a_token_budget_stops_within_one_call_and_goes_on_when_raised() -> None:
    budget = Budget(max_tokens=300)
    with OpenAIServer(default=text("Done.")) as server:
        for _ in range(3):
            ask(server, budget=budget)
        with pytest.raises(BudgetExceeded, match=r"budget max_tokens=300 is used up: 360 tokens in 3 calls"):
            ask(server, budget=budget)
        assert len(server.requests) == 3
        budget.max_tokens = 400
        assert ask(server, budget=budget).text == "Done."


def test_a_dollar_budget_stops_within_one_call() -> None:
    budget = Budget(max_usd=0.0004)
    with OpenAIServer(default=text("Done.", usage=(1000, 100))) as server:
        for _ in range(2):
            ask(server, budget=budget, model="openai/gpt-4o-mini")
        with pytest.raises(BudgetExceeded, match=r"max_usd=0.0004 is used up: \$0.00042 in 2 calls"):
            ask(server, budget=budget, model="openai/gpt-4o-mini")
    assert len(server.requests) == 2


def test_a_dollar_budget_on_an_unknown_price_stops_after_one_call_and_says_why() -> None:
    budget = Budget(max_usd=1.0)
    with OpenAIServer(default=text("Done.")) as server:
        ask(server, budget=budget)
        with pytest.raises(BudgetExceeded, match=r"LiteLLM has no price .* set max_tokens"):
            ask(server, budget=budget)
    assert len(server.requests) == 1


def test_a_time_budget_stops_and_does_not_sleep_past_its_end() -> None:
    with OpenAIServer(default=status(429, headers={"Retry-After": "60"})) as server:
        with pytest.raises(BudgetExceeded, match=r"max_seconds=30 .*a retry would wait 60.0 s") as caught:
            ask(server, budget=Budget(max_seconds=30))
        assert caught.value.usage.attempts == 1
        with pytest.raises(BudgetExceeded, match=r"max_seconds=30 is used up: 4[01]"):
            ask(server, budget=Budget(max_seconds=30, started=time.time() - 40))
    assert len(server.requests) == 1


def test_failed_attempts_count_against_the_budget() -> None:
    budget = Budget(max_tokens=200)
    with OpenAIServer(default=text("")) as server, pytest.raises(BudgetExceeded) as caught:
        ask(server, budget=budget)
    assert len(server.requests) == 2 and budget.spent.prompt_tokens == 200
    assert caught.value.usage == budget.spent


def test_a_budget_is_shared_by_threads_processes_and_restarts(tmp_path: Path) -> None:
    path = tmp_path / "usage.jsonl"
    one, other = Budget(path=path, max_tokens=10_000), pickle.loads(pickle.dumps(Budget(path=path)))
    piece = Usage(1, 10, 5, 0.001, 0.1, 1)
    threads = [
        threading.Thread(target=lambda b=b: [b.add(piece) for _ in range(100)]) for b in (one, other) * 2
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for budget in (one, other, Budget(path=path)):
        assert (budget.spent.calls, budget.spent.prompt_tokens) == (400, 4000)
        assert budget.spent.cost_usd == pytest.approx(0.4)
    with path.open("ab") as file:
        file.write(b'{"calls": 1, "other": 2}\n[1]\n{"calls": "x"}\n{"calls": %s}\n' % (b"9" * 5000))
        file.write(b'{"calls": 1, "half')
    assert Budget(path=path).spent.calls == 400
    one.add(piece)
    assert Budget(path=path).spent.calls == 401


def test_on_a_server_that_fails_a_third_of_the_time_no_weather_becomes_content() -> None:
    rng, lock = random.Random(4), threading.Lock()
    faults = [
        status(429),
        status(500),
        reset(),
        truncated(text("Done. " * 9)),
        raw_call("get_order", '{"id": '),
    ]

    def script(_: Request) -> Reply:
        with lock:
            return rng.choice(faults) if rng.random() < 0.3 else text("Done.")

    outcomes = []
    with OpenAIServer(script) as server:
        for seed in range(60):
            try:
                got = ask(server, seed=seed)
                outcomes.append(got.text or got.malformed)
            except TransientError:
                outcomes.append("transient")
    assert set(outcomes) <= {"Done.", (("get_order", '{"id": '),), "transient"}
    assert outcomes.count("Done.") >= 50
    assert len(server.requests) > 65


def test_conversations_are_written_as_openai_messages() -> None:
    conversation = [
        Message("system", "Be kind."),
        Message("user", "Hi"),
        Message("assistant", None, (Call("get_order", {"id": "ü"}, "c1"),)),
        Message("tool", "{}", call_id="c1", name="get_order"),
        Message("assistant", "Done."),
    ]
    assert to_openai(conversation) == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "get_order", "arguments": '{"id": "ü"}'}}]},
        {"role": "tool", "content": "{}", "tool_call_id": "c1", "name": "get_order"},
        {"role": "assistant", "content": "Done."},
    ]  # fmt: skip


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    """A stand-in for the ``sim`` provider, registered as the real one is; yields what it was given."""
    import litellm

    seen: list[dict[str, Any]] = []

    class Sim(litellm.CustomLLM):  # type: ignore[misc, name-defined]
        def completion(self, *args: Any, **kwargs: Any) -> Any:
            seen.append(
                {"seed": kwargs["optional_params"].get("seed"), **kwargs["litellm_params"]["metadata"]}
            )
            if kwargs["messages"][-1]["content"] == "bug":
                raise KeyError("no such slip")
            if kwargs["messages"][-1]["content"] == "misuse":
                raise litellm.BadRequestError("asked without a task", model="sim/small", llm_provider="sim")
            answer = {"message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}
            usage = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
            return litellm.ModelResponse(choices=[answer], usage=usage, model="small")

    def register() -> None:
        monkeypatch.setattr(litellm, "custom_provider_map", [{"provider": "sim", "custom_handler": Sim()}])
        litellm.utils.custom_llm_setup()

    stand_in = types.ModuleType("ecdysis_lab.models.sim")
    stand_in.register = register  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ecdysis_lab.models.sim", stand_in)
    providers.provider_of.cache_clear()
    yield seen
    providers.provider_of.cache_clear()


def test_sim_gets_role_seed_and_metadata_and_costs_nothing(simulated: list[dict[str, Any]]) -> None:
    gold = {"gold": ["a"]}
    got = complete("agent", "sim/small", HELLO, TOOLS, seed=3, metadata=gold)
    assert (simulated[0]["role"], simulated[0]["gold"], simulated[0]["seed"]) == ("agent", ["a"], 3)
    assert gold == {"gold": ["a"]}  # LiteLLM writes into what it is given
    assert (got.text, got.usage.cost_usd, got.usage.prompt_tokens) == ("hi", 0.0, 5)


def test_a_bug_in_sim_is_loud_and_not_retried(simulated: list[dict[str, Any]]) -> None:
    with pytest.raises(Exception, match="no such slip") as caught:
        complete("agent", "sim/small", [{"role": "user", "content": "bug"}])
    assert not isinstance(caught.value, LLMError) and len(simulated) == 1


def test_misuse_of_sim_stops_at_once(simulated: list[dict[str, Any]]) -> None:
    with pytest.raises(PermanentError, match="asked without a task"):
        complete("agent", "sim/small", [{"role": "user", "content": "misuse"}])
    assert len(simulated) == 1


def test_no_callback_sees_what_sim_is_told(
    simulated: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    import litellm

    heard: list[str] = []
    monkeypatch.setattr(litellm, "success_callback", [lambda kwargs, *_: heard.append(kwargs["model"])])
    complete("agent", "sim/small", HELLO, metadata={"gold": ["a"]})
    with OpenAIServer([text("Done.")]) as server:
        ask(server)
        deadline = time.monotonic() + 5
        while not heard and time.monotonic() < deadline:
            time.sleep(0.02)
    assert heard == ["tiny"]  # the real call is heard, as users of Langfuse and the like expect


def test_the_scripted_server_streams_calls_text_and_usage() -> None:
    import openai

    with OpenAIServer([Reply("Let me look it up.", calls=(("get_order", '{"id": "#W1234567"}'),))]) as server:
        client = openai.OpenAI(base_url=server.url, api_key="x", max_retries=0)
        options = {"stream_options": {"include_usage": True}}
        pieces = list(client.chat.completions.create(model="m", messages=HELLO, stream=True, **options))
    deltas = [piece.choices[0].delta for piece in pieces if piece.choices]
    assert "".join(delta.content or "" for delta in deltas) == "Let me look it up."
    functions = [tool for delta in deltas for tool in delta.tool_calls or []]
    assert functions[0].function.name == "get_order" and functions[0].id == "call_0"
    assert "".join(tool.function.arguments or "" for tool in functions) == '{"id": "#W1234567"}'
    assert len(functions) > 2
    assert [piece.choices[0].finish_reason for piece in pieces if piece.choices][-1] == "tool_calls"
    assert pieces[-1].usage.total_tokens == 120 and not pieces[-1].choices
