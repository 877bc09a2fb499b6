"""Whatever a model or its server says ends as an answer, a call, or one typed reason; see ``model_cases``."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from model_cases import ARGUMENTS, CASES, ENDS, TOOL, Case, calls, chat, one
from openai_server import OpenAIServer, Reply, Request, call, status, text

from ecdysis_lab.models import (
    ContentError,
    LLMError,
    ModelParams,
    PermanentError,
    TemplateError,
    check_model,
    complete,
)
from ecdysis_lab.records import Completion, LabError
from ecdysis_lab.store.foreign import ForeignText, clean, json_values, parse_json
from ecdysis_lab.store.secrets import hide_forms, public_url

CANARY = "canary-5f0c2a9d41"
HELLO = [{"role": "user", "content": "hello"}]
PROPERTIES = {
    "user_id": {"type": "string"},
    "count": {"type": "integer"},
    "tags": {"anyOf": [{"type": "array"}]},
}
TOOLS = [
    {"type": "function", "function": {"name": TOOL, "description": "d", "parameters": {
        "type": "object", "properties": PROPERTIES}}},
]  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    """The first call imports most of LiteLLM; keep that out of the times below."""
    with OpenAIServer([text("hi")]) as server:
        complete("agent", "openai/m", HELLO, params=ModelParams(api_base=server.url))


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recognisable key in the environment."""
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)


def ask(server: OpenAIServer, model: str = "openai/m", **options: Any) -> Completion:
    params = options.pop("params", ModelParams(api_base=server.url, timeout_seconds=30))
    return complete(
        "agent", model, HELLO, TOOLS, **{"params": params, "sleep": lambda seconds: None, **options}
    )


def ended(act: Callable[[], Completion]) -> tuple[str, str]:
    """What a call ends as, and the words of its answer or error."""
    try:
        got = act()
    except ContentError as why:
        return f"outcome:{why.reason}", str(why)
    except TemplateError as why:
        return "template", str(why)
    except PermanentError as why:
        return "permanent", str(why)
    except LLMError as why:
        return "transient", str(why)
    parts = [name for name, there in (("call", got.calls), ("malformed", got.malformed)) if there]
    return "+".join(parts) or "answer", f"{got.text} {got.calls} {got.malformed}"


def test_there_are_enough_cases_and_each_ends_in_a_known_way() -> None:
    assert len(CASES) >= 60 and {case.ends for case in CASES.values()} == set(ENDS)


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_each_answer_ends_as_the_table_says(case: Case) -> None:
    started = time.monotonic()
    with OpenAIServer(default=case.reply) as server:
        ends, words = ended(lambda: ask(server))
    assert (ends, case.words in words) == (case.ends, True), words[:500]
    words.encode()  # it can be written
    asked = {"transient": (1, 4), "outcome:empty": (3, 3), "outcome:reasoning_only": (3, 3)}
    low, high = asked.get(ends, (1, 1))
    assert low <= len(server.requests) <= high
    assert all(r.body["messages"] == HELLO and r.body["tools"] == TOOLS for r in server.requests)
    assert time.monotonic() - started < 10


@pytest.mark.parametrize(
    ("provider", "reply", "ends"),
    [
        (provider, name, CASES[name].ends)
        for provider in ("hosted_vllm", "openrouter", "deepseek", "mistral", "lm_studio")
        for name in ("arguments-10000-deep", "id-integer", "finish-error", "refusal", "full-500-llamacpp",
                     "500-ollama-call", "400-alternate", "200-rate-limit", "usage-null")
    ],
)  # fmt: skip
def test_other_providers_of_the_protocol_end_alike(
    provider: str, reply: str, ends: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"{provider.upper()}_API_KEY", CANARY)
    with OpenAIServer(default=CASES[reply].reply) as server:
        assert ended(lambda: ask(server, f"{provider}/m"))[0] == ends


# -- one trial of each ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_a_trial_on_each_answer_is_stored_with_its_reason(case: Case, tmp_path: Path) -> None:
    pytest.importorskip("tau2")
    from simlab import bench

    from ecdysis_lab.harness import load_harness
    from ecdysis_lab.harness.rollout import Setup, run_trial
    from ecdysis_lab.store import Store

    (task,) = bench().tasks("test", 1, 0)
    with OpenAIServer(default=case.reply) as server:
        params = ModelParams(api_base=server.url)
        setup = Setup("tau2/airline", "openai/m", params=params, max_steps=6)
        if case.ends in ("permanent", "template"):
            with pytest.raises(PermanentError, match="openai/m: ") as caught:
                run_trial(setup, task, load_harness("empty").path, 1)
            assert "\n" not in str(caught.value)
            return
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(complete.__kwdefaults__, "sleep", lambda seconds: None)
            left = run_trial(setup, task, load_harness("empty").path, 1)
    store = Store(tmp_path)
    status = "infra_error" if case.ends == "transient" else "scored"
    outcome = case.ends.removeprefix("outcome:") if case.ends.startswith("outcome") else ""
    reason = "malformed" if case.ends == "malformed" else outcome
    assert (left.status, left.reason) == (status, reason)
    assert left.termination == ("agent_error" if reason else left.termination)
    assert bool(left.error) == bool(reason or status == "infra_error")
    if status == "scored":
        assert store.put(left) and store.get(left.key) == replace(left, truth={})
    else:
        store.put(left)
        assert store.infra_errors(left.key)[-1].error == left.error
    said = [m.content or "" for m in left.messages if m.role == "assistant"]
    assert case.ends == "answer" or not any(
        mark in text for text in said for mark in ("tool_call", TOOL, "TOOL_CALLS")
    )


# -- calls written as text -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", [n for n, c in CASES.items() if n.startswith("written-") and c.ends == "call"]
)
def test_each_dialect_gives_the_very_arguments(name: str) -> None:
    with OpenAIServer([CASES[name].reply]) as server:
        got = ask(server)
    (found,) = got.calls
    prose = "Let me look." if "prose" in name else None
    none = name in ("written-hermes-no-arguments", "written-glm-no-arguments")
    assert (found.name, found.arguments, got.text) == (TOOL, {} if none else ARGUMENTS, prose)


def test_a_good_call_beside_a_bad_one_is_kept_whole() -> None:
    with OpenAIServer([CASES["native-good-and-broken"].reply]) as server:
        got = ask(server)
    assert [c.arguments for c in got.calls] == [ARGUMENTS] and got.malformed == ((TOOL, '{"user_id": '),)


def test_values_in_xml_are_what_the_schema_says() -> None:
    pairs = {"user_id": "19122", "count": "3", "tags": '["a"]', "other": "x < y"}
    inner = "".join(f"<parameter={k}>{v}</parameter>" for k, v in pairs.items())
    glm = "".join(f"<arg_key>{k}</arg_key><arg_value>{v}</arg_value>" for k, v in pairs.items())
    for said in (f"<function={TOOL}>{inner}</function>", f"<tool_call>{TOOL}\n{glm}</tool_call>"):
        with OpenAIServer([text(said)]) as server:
            (found,) = ask(server).calls
        assert found.arguments == {"user_id": "19122", "count": 3, "tags": ["a"], "other": "x < y"}


def test_words_around_a_call_are_said_and_its_tokens_are_not() -> None:
    said = (
        f"Let me look.\n<tool_call>{json.dumps({'name': TOOL, 'arguments': ARGUMENTS})}</tool_call><|im_end|>"
    )
    with OpenAIServer([text(said)]) as server:
        assert ask(server).text == "Let me look."


# -- what LiteLLM would change -------------------------------------------------------------------------------------

TURNS = [
    {"role": "system", "content": "s"},
    {"role": "assistant", "content": "Hi!"},
    {"role": "user", "content": "hello"},
    {"role": "user", "content": "are you there?"},
]


def test_no_blank_turn_is_put_into_a_conversation() -> None:
    refusing = status(400, "Conversation roles must alternate user/assistant/user/assistant/...")
    words = r"chat template cannot take this conversation \(.*must alternate"
    with OpenAIServer(default=refusing) as server, pytest.raises(TemplateError, match=words):
        complete("agent", "openai/m", TURNS, TOOLS, params=ModelParams(api_base=server.url))
    assert [r.body["messages"] for r in server.requests] == [TURNS]


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("ollama/llama3", "use ollama_chat/llama3"),
        ("text-completion-openai/x", "knows no tools; use openai/x"),
        ("perplexity/sonar", "LiteLLM sends no tools to provider perplexity"),
        ("sambanova/x", "LiteLLM sends no tools to provider sambanova"),
    ],
)
def test_what_litellm_would_drop_or_reformat_stops_with_one_sentence(model: str, words: str) -> None:
    with OpenAIServer(default=text("hi")) as server:
        with pytest.raises(LabError, match=words) as caught:
            complete("agent", model, HELLO, TOOLS, params=ModelParams(api_base=server.url))
        assert server.requests == [] and "\n" not in str(caught.value)
    if model.startswith(("ollama", "text")):
        with pytest.raises(LabError, match=words):
            check_model(model)


def test_a_reviewer_may_ask_a_provider_without_tools() -> None:
    with OpenAIServer(default=text("hi")) as server:
        got = complete("critic", "perplexity/sonar", HELLO, params=ModelParams(api_base=server.url, extra={}))
    assert got.text == "hi"


def test_what_litellm_leaves_out_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    with OpenAIServer(default=text("hi")) as server:
        for _ in range(2):
            complete("critic", "perplexity/said-once", HELLO, params=ModelParams(api_base=server.url), seed=3)
    assert [r.message for r in caplog.records if "said-once" in r.message] == [
        "perplexity/said-once: LiteLLM does not send seed"
    ]


def strict(request: Request) -> Reply:
    """A template that begins with the user and alternates."""
    roles = [m["role"] for m in request.body["messages"] if m["role"] != "system"]
    if roles[0] != "user":
        why = "After the optional system message, conversation roles must alternate user/assistant"
        return status(400, why)
    return text("One moment, please.") if "tool" in roles else call(TOOL, **ARGUMENTS)


def test_a_template_that_cannot_open_with_the_assistant_gets_the_greeting_quoted() -> None:
    pytest.importorskip("tau2")
    from simlab import bench

    from ecdysis_lab.harness import load_harness
    from ecdysis_lab.harness.replay import replay
    from ecdysis_lab.harness.rollout import Setup, run_trial

    (task,) = bench().tasks("test", 1, 0)
    with OpenAIServer(strict) as server:
        setup = Setup("tau2/airline", "openai/m", params=ModelParams(api_base=server.url), max_steps=6)
        left = run_trial(setup, task, load_harness("empty").path, 1)
    assert left.status == "scored" and left.reason == ""
    first = left.context[0]
    greeting, opening = left.messages[:2]
    assert first.role == "user"
    assert first.content == f"(You opened the conversation with: {greeting.content})\n\n{opening.content}"
    found = replay(left, load_harness("empty"), bench())
    assert found.unchanged and found.calls > 0
    roles = [m["role"] for m in server.requests[-1].body["messages"][:4]]
    assert roles == ["system", "user", "assistant", "tool"]
    assert len([r for r in server.requests if r.body["messages"][1]["role"] == "assistant"]) == 1


# -- secrets -------------------------------------------------------------------------------------------------------


def test_a_key_that_an_answer_echoes_is_not_kept() -> None:
    replies = [
        text(f"Your key is {CANARY}."),
        calls(one(json.dumps({"user_id": CANARY}))),
        calls(one(f'{{"user_id": "{CANARY}')),
        chat({"content": None, "refusal": f"not with {CANARY}"}),
        status(400, f"bad {CANARY}"),
    ]
    for reply in replies:
        with OpenAIServer([reply]) as server:
            words = ended(lambda server=server: ask(server))[1]  # type: ignore[misc]
        assert CANARY not in words and "[key]" in words


def test_the_password_in_an_address_is_written_nowhere() -> None:
    with OpenAIServer([text("hunter2hunter2 it is"), status(400, "no hunter2hunter2")]) as server:
        params = ModelParams(
            api_base=server.url.replace("://", "://me:hunter2hunter2@") + "?api_key=abcdefgh"
        )
        said = [ended(lambda: ask(server, params=params))[1] for _ in range(2)]
    assert ["hunter2" in words for words in said] == [False, False]
    assert "hunter2" not in params.to_json() and "abcdefgh" not in params.to_json()


def test_addresses_are_shown_without_what_logs_in() -> None:
    assert (
        public_url("https://u:p@host:1/v1?api-version=3&key=abc")
        == "https://host:1/v1?api-version=3&key=[key]"
    )
    assert public_url("http://host/v1") == "http://host/v1" and public_url(None) is None
    assert hide_forms("cannot reach http://me:pw@host/v1") == "cannot reach http://host/v1"


def test_a_run_folder_holds_no_key_and_no_login(tmp_path: Path) -> None:
    from ecdysis_lab.store import Run

    base = "http://me:hunter2hunter2@host/v1?api_key=abcdefgh"
    config = {"api_base": base, "note": f"it is {CANARY}", "share": 0.1}
    run = Run.open(tmp_path, "r", config)
    run.append_ledger({"said": CANARY, "where": base})
    run.write_status("running", what=base)
    written = "".join(path.read_text() for path in run.folder.rglob("*") if path.is_file())
    assert "http://host/v1?api_key=[key]" in written
    assert not [word for word in (CANARY, "hunter2", "abcdefgh") if word in written]
    assert Run.open(tmp_path, "r", config).read_json("config.json")["share"] == 0.1  # the same run goes on


# -- foreign text --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ("[" * 20_000, "too deeply"),
        ('{"a":' * 10_000 + "1" + "}" * 10_000, "too deeply"),
        ('{"a":' * 65 + "1" + "}" * 65, "too deeply"),
        ("7" * 5000, "5000 digits"),
        ('{"a": NaN}', "NaN"),
        ("-Infinity", "Infinity"),
        ("1e999", "too large"),
        (b"\xff\xfe", "not UTF-8"),
        ("", "not valid JSON"),
        ('{"a": 1} x', "follows"),
        ("x" * 1_000_001, "longer than 1000000"),
        ('"\\ud83d', "not valid JSON"),
    ],
)
def test_json_that_hurts_is_one_typed_error(raw: str | bytes, words: str) -> None:
    with pytest.raises(ForeignText, match=words) as caught:
        parse_json(raw)
    assert isinstance(caught.value, ValueError) and len(str(caught.value)) < 120


def test_json_within_the_limits_is_read_and_cleaned() -> None:
    assert parse_json(' {"a": [1, 2.5, "\\ud83d", "\\ud83d\\ude00"]} ') == {"a": [1, 2.5, "?", "\U0001f600"]}
    assert parse_json('{"\\ud800": 1, "": 2}') == {"?": 1, "": 2}
    assert parse_json('{"a":' * 64 + "1" + "}" * 64) is not None
    assert parse_json(b"[]") == [] and parse_json("9" * 300) == int("9" * 300)
    assert json_values('{"a": 1}; [2]\n3,') == [{"a": 1}, [2], 3]
    with pytest.raises(ForeignText):
        json_values("1 x")


def test_text_is_printable_and_bounded() -> None:
    assert clean("a\ud83db\0") == "a?b " and clean("\ufffd ü") == "\ufffd ü"
    assert clean("x" * 10, 4) == "xxxx [… 6 more characters]"


def test_reading_is_linear_in_the_text() -> None:
    def seconds(said: str) -> float:
        started = time.perf_counter()
        with OpenAIServer([text(said)]) as server:
            ended(lambda: ask(server))
        return time.perf_counter() - started

    for said in ("<tool_call>" + " " * 150_000 + "x", "<function=a><parameter=b>" * 8_000, "<arg_key>" * 20_000,
                 "```" + " " * 150_000, "<|python_tag|>" * 14_000, '{"name":' * 20_000, "<think>" * 25_000,
                 "[TOOL_CALLS]" * 16_000, "get_user_details(" * 10_000):  # fmt: skip
        assert seconds(said) < 3.0, said[:20]
