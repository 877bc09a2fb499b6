"""Small real models behind the OpenAI chat protocol, on CPU: what the REAL results of this project were made with.

    pip install llama-cpp-python
    python tests/benchmarks/real/serve.py FOLDER/qwen-1.5b.gguf [more.gguf] [--port 8123] [--context 8192] [--threads 2]

The conversation is laid out by the model's own chat template, tools included; the text that the model writes comes
back as it is, calls too: the lab reads them as it reads them from any server without a parser. One request at a time.
A model is asked for by its file's name; the longest prefix that a request shares with that model's last one is not
computed again.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jinja2
from llama_cpp import Llama

STOPS = ["<|im_end|>", "<|endoftext|>"]
ALONE = threading.Lock()  # two at a time on the same cores would both be slower
MAX_TOKENS = 256  # of an answer, where a request names no limit: one statement or one commit is far shorter


def written(value: Any, indent: int | None = None) -> str:
    """JSON as the templates of models mean it, with keys in the order in which the models have learnt them."""
    return json.dumps(value, ensure_ascii=False, indent=indent)


class TooLong(Exception):
    """The prompt leaves no room for an answer."""


class Model:
    """One model in memory."""

    def __init__(self, path: Path, context: int, threads: int) -> None:
        self.name, self.context = path.stem, context
        self.llama = Llama(
            str(path), n_ctx=context, n_threads=threads, n_threads_batch=threads, verbose=False
        )
        layout = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
        layout.filters["tojson"] = written  # jinja's own sorts the keys and escapes <, >, & and '
        self.template = layout.from_string(self.llama.metadata["tokenizer.chat_template"])

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """A chat completion.

        Raises
        ------
        TooLong: the prompt does not fit.
        """
        tools = None if asked.get("tool_choice") == "none" else asked.get("tools")
        messages = [plain(message) for message in asked["messages"]]
        prompt = self.template.render(messages=messages, tools=tools, add_generation_prompt=True)
        tokens = self.llama.tokenize(prompt.encode(), add_bos=False, special=True)
        room = self.context - len(tokens) - 8
        if room < 16:
            raise TooLong(
                f"This model's maximum context length is {self.context} tokens, the prompt has {len(tokens)}"
            )
        most = asked.get("max_completion_tokens") or asked.get("max_tokens") or MAX_TOKENS
        with ALONE:
            made = self.llama(tokens, max_tokens=min(most, room), stop=STOPS, seed=asked.get("seed") or 0,
                              temperature=asked.get("temperature") or 0.0)  # fmt: skip
        choice = made["choices"][0]
        return {
            "id": made["id"],
            "object": "chat.completion",
            "created": int(time.time()),
            "model": self.name,
            "choices": [
                {
                    "index": 0,
                    "finish_reason": choice["finish_reason"],
                    "message": {"role": "assistant", "content": choice["text"]},
                }
            ],
            "usage": made["usage"],
        }


def plain(message: dict[str, Any]) -> dict[str, Any]:
    """A message as the templates read it: text as one string, arguments of calls as objects."""
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(part.get("text", "") for part in content)
    calls = [
        {
            "type": "function",
            "function": {**call["function"], "arguments": json.loads(call["function"]["arguments"])},
        }
        for call in message.get("tool_calls") or ()
    ]
    return {**message, "content": content or "", **({"tool_calls": calls} if calls else {})}


def handler(models: dict[str, Model]) -> type[BaseHTTPRequestHandler]:
    """Requests for any of the models."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            self._send(200, {"object": "list", "data": [{"id": name, "object": "model"} for name in models]})

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if asked.get("stream"):
                return self._send(400, {"error": {"message": "this server does not stream"}})
            if asked.get("model") not in models:
                message = f"no model {asked.get('model')!r}; there are {', '.join(models)}"
                return self._send(404, {"error": {"message": message, "code": "model_not_found"}})
            try:
                self._send(200, models[asked["model"]].answer(asked))
            except TooLong as why:
                self._send(400, {"error": {"message": str(why), "code": "context_length_exceeded"}})

        def _send(self, status: int, body: dict[str, Any]) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            with contextlib.suppress(BrokenPipeError):  # who asked has gone
                self.wfile.write(data)

    return Handler


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--port", type=int, default=8123)
    parser.add_argument("--context", type=int, default=8192)
    parser.add_argument("--threads", type=int, default=2)
    asked = parser.parse_args()
    models = {path.stem: Model(path, asked.context, asked.threads) for path in asked.models}
    server = ThreadingHTTPServer(("127.0.0.1", asked.port), handler(models))
    print(f"{', '.join(models)} at http://127.0.0.1:{asked.port}/v1", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
