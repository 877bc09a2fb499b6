"""Odd answers of OpenAI-protocol servers by name, and what a call of each ends as.

``ENDS`` of a case: ``answer`` (text that is said), ``call``, ``malformed`` (the model sees it), ``call+malformed``,
``outcome:REASON`` (the trial's own end), ``transient`` (infrastructure), ``permanent`` (the user must act) or
``template`` (permanent, unless the conversation can be put otherwise).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from openai_server import Reply, status, text

TOOL = "get_user_details"
ARGUMENTS = {"user_id": "mia_li_3668"}
GOOD = json.dumps({"name": TOOL, "arguments": ARGUMENTS})
RAW = json.dumps(ARGUMENTS)
UNKNOWN = '{"name": "get_user", "arguments": {}}'
USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
ENDS = (
    "answer", "call", "malformed", "call+malformed", "transient", "permanent", "template",
    *(f"outcome:{reason}" for reason in ("context_full", "refusal", "empty", "reasoning_only")),
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One odd answer: its reply, what the call ends as, and words that the answer or error must hold."""

    reply: Reply
    ends: str
    words: str = ""


def body(content: Any, code: int = 200) -> Reply:
    """A JSON body as it is."""
    return Reply(status=code, raw=json.dumps(content).encode())


def chat(message: Any, finish: Any = "stop", usage: Any = USAGE, **choice: Any) -> Reply:
    """A completion with any message."""
    if isinstance(message, dict):
        message = {"role": "assistant", **message}
    one = {"index": 0, "message": message, "finish_reason": finish, **choice}
    return body({"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [one]}
                | ({} if usage is None else {"usage": usage}))  # fmt: skip


def calls(*items: Any, **message: Any) -> Reply:
    """A completion with any tool calls."""
    return chat({"content": None, "tool_calls": list(items), **message}, "tool_calls")


def one(arguments: Any, name: Any = TOOL, id: Any = "call_1") -> dict[str, Any]:
    """A tool call with any parts."""
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def deep(levels: int) -> str:
    """An object nested ``levels`` deep, as JSON text."""
    return '{"a":' * levels + "1" + "}" * levels


def failing(status_code: int, message: Any, **more: Any) -> Reply:
    """An error body in OpenAI's form."""
    return body({"error": {"message": message, "type": "error", **more}}, status_code)


FOREIGN = {
    "text-lone-surrogate": Case(text("hi \ud83d"), "answer", "hi ?"),
    "text-surrogate-pair": Case(text("hi \ud83d\ude00"), "answer", "hi \U0001f600"),
    "text-nul": Case(text("a\0b"), "answer", "a b"),
    "text-terminal-escape": Case(text("a\x1b[31mb"), "answer", "a [31mb"),
    "calls-1000": Case(calls(*[one(RAW, id=f"c{n}") for n in range(1000)]), "call+malformed", "too many calls"),
    "body-with-bom": Case(Reply(raw=b"\xef\xbb\xbf" + (chat({"content": "hello"}).raw or b"")), "answer", "hello"),
    "body-event-stream": Case(Reply(raw=b'data: {"choices": []}'), "transient", "not readable"),
    "text-brackets-20000": Case(text("[" * 20_000), "answer"),
    "text-objects-20000": Case(text('{"a":' * 20_000), "answer"),
    "text-long-integer": Case(text(f'{{"name": "{TOOL}", "arguments": {{"user_id": {"7" * 5000}}}}}'), "malformed"),
    "text-backticks": Case(text("```" * 30_000), "answer"),
    "text-open-tags": Case(text("<tool_call>" * 20_000), "malformed"),
    "text-open-parameters": Case(text("<function=x>" + "<parameter=a>" * 20_000), "malformed"),
    "text-of-2-million": Case(text("word " * 400_000), "answer", "more characters]"),
    "arguments-surrogate": Case(calls(one('{"user_id": "\\ud83d"}')), "call", "?"),
    "arguments-600-deep": Case(calls(one(deep(600))), "malformed", TOOL),
    "arguments-10000-deep": Case(calls(one(deep(10_000))), "malformed", TOOL),
    "arguments-5000-digits": Case(calls(one('{"user_id": %s}' % ("7" * 5000))), "malformed"),
    "arguments-nan": Case(calls(one('{"user_id": NaN}')), "malformed", "NaN"),
    "arguments-infinite": Case(calls(one('{"user_id": 1e999}')), "malformed", "1e999"),
    "arguments-twice-the-key": Case(calls(one('{"user_id": "a", "user_id": "b"}')), "call", "'b'"),
    "arguments-odd-keys": Case(calls(one('{"": 1, "\\ud800": 2}')), "call"),
    "arguments-object": Case(calls(one(ARGUMENTS)), "call", "mia_li_3668"),
    "arguments-list": Case(calls(one([1])), "malformed", "[1]"),
    "arguments-null": Case(calls(one(None)), "call", "{}"),
    "arguments-missing": Case(calls({"id": "a", "type": "function", "function": {"name": TOOL}}), "call"),
    "id-integer": Case(calls(one(RAW, id=7)), "call", "call_"),
    "id-null": Case(calls(one(RAW, id=None)), "call", "call_"),
    "id-long": Case(calls(one(RAW, id="x" * 5000)), "call", "call_"),
    "name-null": Case(calls(one(RAW, name=None)), "malformed"),
    "name-number": Case(calls(one(RAW, name=5)), "malformed"),
    "name-prose": Case(calls(one(RAW, name="look up the user")), "malformed"),
    "calls-object": Case(chat({"content": None, "tool_calls": one(RAW)}), "call"),
    "calls-of-text": Case(calls("get_user_details"), "malformed"),
    "calls-without-function": Case(calls({"id": "x"}), "malformed"),
    "calls-custom": Case(calls({"id": "x", "type": "custom", "custom": {"name": TOOL, "input": "hm"}}), "malformed"),
    "content-number": Case(chat({"content": 5}), "answer", "5"),
    "content-object": Case(chat({"content": {"text": "hello"}}), "answer", "hello"),
    "content-parts": Case(
        chat({"content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "hello"}]}), "answer", "hello"
    ),
    "message-null": Case(chat(None), "outcome:empty"),
    "message-text": Case(chat("hello"), "answer", "hello"),
    "finish-number": Case(chat({"content": "hello"}, 3), "answer", "hello"),
    "usage-null": Case(chat({"content": "hello"}, usage={"prompt_tokens": None, "completion_tokens": None}), "answer"),
    "usage-text": Case(chat({"content": "hello"}, usage="much"), "answer"),
    "usage-negative": Case(chat({"content": "hello"}, usage={**USAGE, "prompt_tokens": -1}), "answer"),
    "usage-huge": Case(chat({"content": "hello"}, usage={**USAGE, "prompt_tokens": 10**40}), "answer"),
    "usage-odd-details": Case(
        chat({"content": "hello"}, usage={**USAGE, "prompt_tokens_details": [1], "completion_tokens_details": {"a": "b"}}),
        "answer",
    ),
    "model-number": Case(body({"id": 3, "model": 4, "created": "x", "choices": [
        {"message": {"content": "hello"}}]}), "answer", "hello"),
    "body-deep": Case(Reply(raw=b"[" * 20_000), "transient", "not readable"),
    "body-latin-1": Case(Reply(raw='{"choices": "ü"}'.encode("latin-1")), "transient", "not UTF-8"),
    "body-html": Case(Reply(raw=b"<html><body>Sign in to WiFi</body></html>"), "transient", "Sign in to WiFi"),
    "body-number": Case(Reply(raw=b"7"), "transient"),
    "choices-empty": Case(body({"choices": []}), "transient", "no choice"),
    "choices-null": Case(body({"choices": None}), "transient", "no choice"),
    "choices-of-text": Case(body({"choices": ["hi"]}), "transient"),
}  # fmt: skip
FULL = {
    "400-vllm": (
        400,
        "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens",
    ),
    "400-vllm-decoder": (
        400,
        "The decoder prompt (length 5123) is longer than the maximum model length of 4096.",
    ),
    "400-xai": (400, "This model's maximum prompt length is 131072 but the request contains 537812 tokens."),
    "400-bedrock": (400, "Input is too long for requested model."),
    "400-dashscope": (400, "Range of input length should be [1, 30720]"),
    "422-tgi": (422, "Input validation error: `inputs` must have less than 4096 tokens. Given: 5000"),
    "422-tgi-sum": (
        422,
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000",
    ),
    "500-llamacpp": (500, "the request exceeds the available context size. try increasing the context size"),
    "400-anthropic": (400, "prompt is too long: 210000 tokens > 200000 maximum"),
    "400-anthropic-sum": (400, "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"),
    "400-gemini": (
        400,
        "The input token count (1000001) exceeds the maximum number of tokens allowed (1000000).",
    ),
    "400-mistral": (400, "Prompt contains 40000 tokens, too large for model with 32768 maximum"),
    "400-moonshot": (400, "Invalid request: Your request exceeded model token limit: 8192"),
    "400-zhipu": (400, "Prompt exceeds max length"),
    "400-lmstudio": (400, "Trying to keep the first 5000 tokens when context the overflows."),
    "400-groq": (400, "Please reduce the length of the messages or completion."),
    "413": (413, "Payload Too Large"),
}
ERRORS = {
    **{f"full-{name}": Case(failing(*what), "outcome:context_full", what[1][:20]) for name, what in FULL.items()},
    "full-inside-200": Case(failing(200, "maximum context length is 9", code=400), "outcome:context_full"),
    "429-tokens-a-minute": Case(failing(429, "Too many tokens, please wait before trying again."), "transient"),
    "413-tier": Case(failing(413, "Request too large on tokens per minute (TPM): Limit 6000"), "permanent", "tier"),
    "400-groq-tool_use_failed": Case(
        failing(400, "Failed to call a function. See 'failed_generation'.", code="tool_use_failed",
                failed_generation=f"<function={TOOL} broken"), "malformed", "broken"),
    "400-groq-unknown-tool": Case(
        failing(400, "tool call validation failed: attempted to call tool 'x' which was not in request.tools"), "malformed"),
    "500-ollama-call": Case(
        failing(500, "error parsing tool call: raw='{\"name\": get', err=invalid character 'g'"), "malformed", "get"),
    "500-llamacpp-call": Case(failing(500, "Failed to parse input at pos 12: <tool_call>{hm"), "malformed", "{hm"),
    "gemini-malformed": Case(chat({"content": None}, "MALFORMED_FUNCTION_CALL"), "malformed"),
    "finish-error": Case(
        chat({"content": ""}, "error", error={"code": 502, "message": "Provider returned error"}), "transient",
        "Provider returned error"),
    "finish-error-with-text": Case(chat({"content": "half an ans"}, "error"), "transient", "the provider failed"),
    "choice-error": Case(chat({"content": "half"}, "stop", error={"message": "upstream died"}), "transient", "upstream"),
    "200-rate-limit": Case(
        body({"error": {"message": "Rate limit exceeded: free-models-per-day", "code": 429}}), "transient", "free-models"),
    "200-error-word-code": Case(body({"error": {"message": "overloaded", "code": "server_error"}}), "transient", "overl"),
    "200-error-text": Case(body({"error": "model crashed"}), "transient", "model crashed"),
    "200-empty-error": Case(body({"error": {}, "choices": [{"message": {"content": "hello"}}]}), "answer", "hello"),
    "refusal": Case(chat({"content": None, "refusal": "I cannot help with that"}), "outcome:refusal", "I cannot"),
    "refusal-as-object": Case(chat({"content": None, "refusal": {"why": "no"}}), "outcome:refusal"),
    "content-filter": Case(chat({"content": None}, "content_filter"), "outcome:refusal"),
    "400-azure-filter": Case(failing(400, "The response was filtered", code="content_filter"), "outcome:refusal"),
    "400-dashscope-filter": Case(failing(400, "Input data may contain inappropriate content."), "outcome:refusal"),
    "400-deepseek-filter": Case(failing(400, "Content Exists Risk"), "outcome:refusal"),
    "403-moderation": Case(failing(403, "requires moderation; your input was flagged"), "outcome:refusal"),
    "403": Case(failing(403, "no access"), "permanent", "refused the key"),
    "400-message-null": Case(failing(400, None), "permanent"),
    "400-message-object": Case(failing(400, {"a": ["b"]}), "permanent", "b"),
    "500-deep-body": Case(Reply(status=500, raw=b"[" * 20_000), "transient"),
    "empty": Case(chat({"content": ""}), "outcome:empty"),
    "reasoning-only": Case(chat({"content": "", "reasoning_content": "hm"}, "length"), "outcome:reasoning_only"),
    "think-only": Case(text("<think>hm, let me"), "outcome:reasoning_only"),
    "401": Case(failing(401, "Incorrect API key provided: sk-abc123"), "permanent", "[key]"),
    "402": Case(failing(402, "Insufficient credits"), "permanent", "no credit"),
    "404-model": Case(failing(404, "The model `m` does not exist"), "permanent", "does not know"),
    "400-detail": Case(body({"detail": "field temperature is odd"}, 400), "permanent", "temperature is odd"),
    "400-plain-text": Case(Reply(status=400, raw=b"bad field"), "permanent", "bad field"),
    "429-nan": Case(status(429, "slow", headers={"retry-after": "nan"}), "transient", "slow"),
    "503-loading": Case(failing(503, "Loading model"), "transient", "Loading model"),
    "502-html": Case(Reply(status=502, raw=b"<html>Bad Gateway</html>"), "transient", "Bad Gateway"),
    "400-alternate": Case(failing(400, "Conversation roles must alternate user/assistant/user/..."), "template", "alternate"),
    "400-last-user": Case(failing(400, "Last message must have role `user`"), "template", "Last message"),
    "500-jinja-alternate": Case(failing(500, "Conversation roles must alternate user/assistant"), "template"),
}  # fmt: skip
DEEPSEEK = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>"
KIMI = "<|tool_calls_section_begin|><|tool_call_begin|>functions."
GLM = "<arg_key>user_id</arg_key>\n<arg_value>mia_li_3668</arg_value>"
PARAMETER = "<parameter=user_id>\nmia_li_3668\n</parameter>"
WRITTEN = {
    "hermes": (f"<tool_call>\n{GOOD}\n</tool_call>", "call"),
    "hermes-unknown-name": (f"<tool_call>{UNKNOWN}</tool_call>", "malformed"),
    "hermes-no-arguments": (f'<tool_call>{{"name": "{TOOL}"}}</tool_call>', "call"),
    "hermes-good-and-unknown": (f"<tool_call>{GOOD}</tool_call><tool_call>{UNKNOWN}</tool_call>", "call+malformed"),
    "hermes-good-and-broken": (f"<tool_call>{GOOD}</tool_call>\n<tool_call>{{hm</tool_call>", "call+malformed"),
    "hermes-prose": ("<tool_call>I should look it up</tool_call>", "malformed"),
    "hermes-arguments-text": (f'<tool_call>{{"name": "{TOOL}", "arguments": "none"}}</tool_call>', "malformed"),
    "qwen3-coder": (f"<tool_call>\n<function={TOOL}>\n{PARAMETER}\n</function>\n</tool_call>", "call"),
    "qwen3-coder-bare": (f"<function={TOOL}>\n{PARAMETER}\n</function>", "call"),
    "qwen3-coder-cut": (f"<tool_call>\n<function={TOOL}>\n<parameter=user_id>\nmia", "malformed"),
    "glm": (f"<tool_call>{TOOL}\n{GLM}\n</tool_call>", "call"),
    "glm-no-arguments": (f"<tool_call>{TOOL}\n</tool_call>", "call"),
    "glm-cut": (f"<tool_call>{TOOL}\n{GLM}<arg_key>x", "malformed"),
    "mistral": (f"[TOOL_CALLS][{GOOD}]", "call"),
    "mistral-args": (f"[TOOL_CALLS]{TOOL}[ARGS]{RAW}", "call"),
    "mistral-name": (f"[TOOL_CALLS]{TOOL}{RAW}</s>", "call"),
    "mistral-two": (f"[TOOL_CALLS]{TOOL}[ARGS]{RAW}[TOOL_CALLS]other[ARGS]{{}}", "call+malformed"),
    "mistral-broken": ('[TOOL_CALLS][{"name": ', "malformed"),
    "llama": (f'<|python_tag|>{{"name": "{TOOL}", "parameters": {RAW}}}<|eom_id|>', "call"),
    "llama-function": (f"<function={TOOL}>{RAW}</function>", "call"),
    "llama-pythonic": (f'[{TOOL}(user_id="mia_li_3668")]', "call"),
    "llama-python": (f'<|python_tag|>{TOOL}.call(user_id="mia")', "malformed"),
    "deepseek-r1": (f"{DEEPSEEK}function<｜tool▁sep｜>{TOOL}\n```json\n{RAW}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>", "call"),
    "deepseek-v3.1": (f"{DEEPSEEK}{TOOL}<｜tool▁sep｜>{RAW}<｜tool▁call▁end｜><｜tool▁calls▁end｜>", "call"),
    "deepseek-broken": (f"{DEEPSEEK}{TOOL}<｜tool▁sep｜>{{hm<｜tool▁call▁end｜>", "malformed"),
    "kimi": (f"{KIMI}{TOOL}:0<|tool_call_argument_begin|>{RAW}<|tool_call_end|><|tool_calls_section_end|>", "call"),
    "harmony": (f"<|channel|>commentary to=functions.{TOOL} <|constrain|>json<|message|>{RAW}<|call|>", "call"),
    "minimax": (
        f'<minimax:tool_call><invoke name="{TOOL}"><parameter name="user_id">mia_li_3668</parameter></invoke>'
        "</minimax:tool_call>", "call"),
    "phi": (f"<|tool_call|>[{GOOD}]<|/tool_call|>", "call"),
    "command-r": (f'<|START_ACTION|>[{{"tool_name": "{TOOL}", "parameters": {RAW}}}]<|END_ACTION|>', "call"),
    "tools-tag": (f"<tools>\n{GOOD}\n</tools>", "call"),
    "tools-said-back": ('<tools>\n{"name": "get_order", "parameters": {"type": "object", "properties": {"id": {}}}}\n</tools>', "malformed"),
    "text-and-tools-said-back": ('SELECT 1\n<tools>\n{"name": "get_order", "parameters": {"type": "object", "properties": {"id": {}}}}\n</tools>', "answer"),
    "unknown-family": (f"<|tool▁calls▁begin|>{GOOD}", "call"),
    "unknown-tag": (f"<toolcall>{GOOD}</toolcall>", "call"),
    "unknown-tag-broken": ("[TOOL_CALL] look it up [/TOOL_CALL]", "malformed"),
    "fence-tool_call-in-prose": (f"Let me look.\n```tool_call\n{GOOD}\n```", "call"),
    "bare": (GOOD, "call"),
    "bare-after-prose": (f"Let me look. {GOOD}", "call"),
    "bare-unknown": (UNKNOWN, "malformed"),
    "bare-cut": (f'{{"name": "{TOOL}", "arguments": {{"user', "malformed"),
    "fence": (f"```json\n{GOOD}\n```", "call"),
    "example-in-prose": (f"A call looks so:\n```json\n{GOOD}\n```", "answer"),
    "json-for-the-user": ('{"name": "Mia", "flights": [1, 2]}', "answer"),
}  # fmt: skip
CASES: dict[str, Case] = {
    **FOREIGN,
    **ERRORS,
    **{f"written-{name}": Case(text(said), ends) for name, (said, ends) in WRITTEN.items()},
    "legacy-function_call": Case(
        chat({"content": None, "function_call": {"name": TOOL, "arguments": RAW}}, "function_call"), "call"),
    "native-good-and-broken": Case(calls(one(RAW), one('{"user_id": ', id="call_2")), "call+malformed"),
    "native-beside-text": Case(calls(one(RAW), content="Let me see."), "call"),
}  # fmt: skip
