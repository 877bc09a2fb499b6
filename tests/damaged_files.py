"""Forty damaged trace files by name: the bytes, how many records are good, and what is named of the others."""

from __future__ import annotations

import gzip
import json
from typing import Any

TALK = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "done"}]


def chat(**more: Any) -> dict[str, Any]:
    """A JSONL record."""
    return {"task_id": "1", "score": 0.0, "messages": TALK, **more}


def v1(**more: Any) -> dict[str, Any]:
    """A τ-bench v1 record."""
    return {"task_id": 1, "reward": 0.0, "info": {}, "traj": TALK, "trial": 0, **more}


def simulation(**more: Any) -> dict[str, Any]:
    """A τ² simulation."""
    reward = {"reward": 0.0, "reward_breakdown": {"DB": 0.0}}
    return {
        "task_id": "1",
        "termination_reason": "user_stop",
        "reward_info": reward,
        "messages": TALK,
        **more,
    }


def calling(**call: Any) -> list[dict[str, Any]]:
    """Messages with one call."""
    return [{"role": "user", "content": "hi"}, {"role": "assistant", "content": None, "tool_calls": [call]}]


def function(arguments: str) -> str:
    """A record whose one call has these arguments as they stand."""
    return (
        '{"task_id":"1","score":0,"messages":[{"role":"assistant","content":null,"tool_calls":'
        '[{"function":{"name":"f","arguments":' + arguments + "}}]}]}"
    )


DIGITS = "9" * 5000
GOOD = json.dumps(chat())
DEEP = '{"a":' * 10_000 + "1" + "}" * 10_000
DEEP_600 = '{"a":' * 600 + "1" + "}" * 600
WRONG = [1, "x", None, [], chat(messages="x"), chat(score="1"), chat(messages=[1]), chat(trial="a"), chat(task_id=[1])]  # fmt: skip
GRAVE = '{"task_id":"1","score":0,"messages":[{"role":"user","content":"x\\udfff"}]}'


def around(bad: str) -> str:
    """A list with a good record on both sides of a bad one."""
    return f"[{GOOD},{bad},{GOOD}]"


# name -> (content, good records, ((record, field, words of the reason), ...))
Case = tuple[Any, int, tuple[tuple[int, str, str], ...]]
CASES: dict[str, Case] = {
    # the fifteen of shared/cases
    "empty.json": ("", 0, ((0, "json", "not valid JSON"),)),
    "cut.json": (json.dumps([chat()] * 3)[:-40], 2, ((2, "json", "not valid JSON"),)),
    "wrong_types.json": (WRONG, 0, tuple((n, "", "") for n in range(9))),
    "nan.json": (
        '[{"task_id":"1","score":NaN,"messages":[{"role":"user","content":"a"}]},'
        '{"task_id":"2","score":1e999,"messages":[{"role":"user","content":"a"}]}]',
        0,
        ((0, "score", "'NaN'"), (1, "score", "too large")),
    ),
    "deep_args.json": (f"[{function(DEEP)}]", 0, ((0, "json", "nested too deeply"),)),
    "deep_600.json": (f"[{function(DEEP_600)}]", 0, ((0, "messages[0].tool_calls[0].arguments", "nested"),)),
    "deep_document.json": ("[" * 10_000 + "]" * 10_000, 0, ((0, "json", "nested too deeply"),)),
    "surrogate.json": (f"[{GRAVE}]", 1, ()),
    "trial_2e63.json": ([chat(trial=2**63)], 0, ((0, "trial", "below 2**53"),)),
    "trial_5000_digits.json": (around(GOOD[:-1] + f',"trial":{DIGITS}}}'), 2, ((1, "trial", "5,000 digits"),)),
    "gzip.json": (gzip.compress(GOOD.encode()), 0, ((0, "file", "gzip"),)),
    "utf16.json": (GOOD.encode("utf-16"), 1, ()),
    "same_3000.jsonl": ("\n".join([GOOD] * 3000), 3000, ()),
    "good_bad_good.jsonl": (f"{GOOD}\n{GRAVE}\n{GOOD}", 3, ()),
    "control_id.json": ([chat(task_id="a\nb\x00\x1b[31m<script>alert(1)</script>")], 1, ()),
    # more of each kind
    "deep_between.json": (around(function(DEEP)), 2, ((1, "json", "nested too deeply"),)),
    "deep_between.jsonl": (f"{GOOD}\n{function(DEEP)}\n{GOOD}", 2, ((1, "json", "nested too deeply"),)),
    "deep_text_arguments.json": ([chat(messages=calling(function={"name": "f", "arguments": DEEP}))], 1, ()),
    "deep_unread_field.json": (around(GOOD[:-1] + f',"gold":{DEEP_600}}}'), 3, ()),
    "brackets_20000.jsonl": (f"{'[' * 20_000}\n{GOOD}", 1, ((0, "json", "nested too deeply"),)),
    "syntax_between.json": (around('{"task_id": "2", "score": }'), 2, ((1, "json", "not valid JSON"),)),
    "single_quotes.json": (around("{'task_id': '2'}"), 2, ((1, "json", "not valid JSON"),)),
    "extra_bracket.json": (f"[{GOOD},{GOOD}}},{GOOD}]", 2, ((2, "json", "not read from there on"),)),
    "unclosed_text.json": (f'[{GOOD},{{"task_id":"2]', 1, ((1, "json", "not valid JSON"),)),
    "quotes_unclosed.json": (f'[{GOOD},"' + '\\"' * 100_000, 1, ((1, "json", "not valid JSON"),)),
    "two_documents.json": (f"[{GOOD}] [{GOOD}]", 1, ((1, "json", "not read from there on"),)),
    "task_5000_digits.json": (
        around(GOOD.replace('"1"', DIGITS)),
        2,
        ((1, "task_id", "a number of 5,000 digits"),),
    ),
    "task_long.json": ([chat(task_id="x" * 501), chat()], 1, ((0, "task_id", "501 characters"),)),
    "task_whole_numbers.json": ([chat(task_id=7), chat(task_id=7.0), chat(task_id=0)], 3, ()),
    "task_true.json": ([chat(task_id=True), chat()], 1, ((0, "task_id", "found bool"),)),
    "call_id_integer.json": ([chat(messages=calling(id=12, name="f", arguments={"a": 1}))], 1, ()),
    "call_id_list.json": (
        [chat(messages=calling(id=[1], name="f", arguments={})), chat()],
        1,
        ((0, "messages[1].tool_calls[0].id", "found list"),),
    ),
    "call_name_number.json": (
        [chat(messages=calling(name=5)), chat()],
        1,
        ((0, "messages[1].tool_calls[0].name", "missing"),),
    ),
    "calls_object.json": (
        [chat(messages=[{"role": "assistant", "tool_calls": {"a": 1}}]), chat()],
        1,
        ((0, "messages[0].tool_calls", "expected a list"),),
    ),
    "arguments_5000_digits.json": ("[" + function('{"a":' + DIGITS + "}") + "]", 1, ()),
    "arguments_list.json": ([chat(messages=calling(name="f", arguments=[1, [2]]))], 1, ()),
    "arguments_surrogate_key.json": ("[" + function('{"\\ud800": "\\udfff"}') + "]", 1, ()),
    "role_list.json": ([chat(messages=[{"role": ["user"]}]), chat()], 1, ((0, "messages[0].role", "unknown role"),)),
    "content_object.json": (
        [chat(messages=[{"role": "user", "content": {"a": 1}}]), chat()],
        1,
        ((0, "messages[0].content", "found dict"),),
    ),
    "content_parts.json": ([chat(messages=[{"role": "user", "content": [{"text": "\ud800"}, 5]}])], 1, ()),
    "content_nul.json": ([chat(messages=[{"role": "user", "content": "a\x00b"}])], 1, ()),
    "content_2_million.json": ([chat(messages=[{"role": "user", "content": "x" * 2_000_000}])], 1, ()),
    "model_list.json": ([chat(model=["m"]), chat()], 1, ((0, "model", "found list"),)),
    "not_utf8.jsonl": (GOOD.replace("hi", "h\xe9").encode("latin-1") + b"\n" + GOOD.encode(), 2, ()),
    "v1_damaged.json": (
        [v1(), v1(trial=-(2**70)), v1(reward=True), v1(reward=2), v1(info=[1]), v1(traj={"a": 1})],
        3,
        ((1, "trial", "below 2**53"), (3, "reward", "[0, 1]"), (5, "traj", "expected a list")),
    ),
    "v1_error_deep.json": ([v1(info={"error": {"\ud800": ["x" * 3000]}}, traj=[])], 1, ()),
    "tau2_results.json": (
        {"info": {"agent_info": 5}, "simulations": [simulation(), 3, simulation(seed="x"), simulation(duration="x")]},
        2,
        ((1, "record", "found int"), (2, "seed", "expected a whole number")),
    ),
    "tau2_cut.json": (
        json.dumps({"info": {"agent_info": {"llm": "m"}}, "simulations": [simulation()] * 3})[:-60],
        2,
        ((2, "json", "not valid JSON"),),
    ),
    "tau2_run_given.jsonl": (json.dumps(simulation(_run=[1])) + "\n" + json.dumps(simulation(reward_info=[1])), 1, ((1, "reward_info", "found list"),)),
    "tau2_end_object.json": ([simulation(termination_reason={}), simulation()], 1, ((0, "termination_reason", "found dict"),)),
}  # fmt: skip
