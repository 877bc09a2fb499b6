"""The editor that is a real coding agent: OpenCode, headless, shut into a staging folder.

It gets a folder with only the harness, the spec, the contract and the evidence; files there may be edited, and
everything else (shell, web, other folders, sub-agents) is denied by its own permission rules. It runs with its own
configuration and state folders, which are removed, with closed stdin and an environment of a few named variables. It is
ended with all that it started at its time limit, at a limit of the run's budget (within one of its steps), when it only
repeats itself, and when this process dies. Its permission rules are no sandbox: they stop what the model asks for, not
a fault of the program.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ecdysis_lab.harness import load_harness
from ecdysis_lab.models.budget import Budget
from ecdysis_lab.models.errors import BudgetExceeded, PermanentError
from ecdysis_lab.records import Candidate, LabError, Spec
from ecdysis_lab.review.debate import prompt
from ecdysis_lab.review.editors import staging
from ecdysis_lab.review.editors.events import Log
from ecdysis_lab.review.editors.watch import watched

TESTED = "1.18.33"
OLDEST = (1, 1, 1)  # since then `permission` holds all rules
INSTALL = f"`npm install -g opencode-ai@{TESTED}` brings it"
PROVIDER, KEY = "lab", "ECDYSIS_EDITOR_KEY"
PASSED_ON = ("PATH", "LANG", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS")
SWITCHES = (
    "AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "PROJECT_CONFIG", "CLAUDE_CODE", "SHARE", "DEFAULT_PLUGINS",
    "EXTERNAL_SKILLS", "TERMINAL_TITLE",
)  # fmt: skip


class OpenCodeEditor:
    """Runs OpenCode once per edit against an OpenAI-compatible server.

    Parameters
    ----------
    model : the server's name of the model; LiteLLM's prefix ``openai/`` is taken off.
    api_base : URL of the server, ending in ``/v1`` as a rule.
    api_key_env : environment variable that holds the key; None for a server without one. The key reaches no file.
    timeout_seconds : wall clock of one edit.
    binary : name or path of the program.
    usd_per_token : price of a prompt and of a completion token; without it the cost is unknown.
    context_tokens : the model's context window; OpenCode shortens its conversation before it is full.
    budget : shared budget of the run.

    Raises
    ------
    LabError: an option is missing, the key's variable is not set, or the program is missing or of a version that
        takes another configuration.
    """

    name = "opencode"

    def __init__(
        self,
        model: str = "",
        api_base: str | None = None,
        api_key_env: str | None = None,
        timeout_seconds: float = 600.0,
        binary: str = "opencode",
        usd_per_token: tuple[float, float] | None = None,
        context_tokens: int = 128_000,
        budget: Budget | None = None,
    ) -> None:
        for option, value in (("model", model), ("api_base", api_base)):
            if not value:
                raise LabError(
                    f"editor opencode: {option} is not set; it needs model and api_base of a server"
                )
        if api_key_env and not os.environ.get(api_key_env):
            raise LabError(f"editor opencode: api_key_env names {api_key_env}; set it in the environment")
        self.model, self.api_base, self.api_key_env = model.removeprefix("openai/"), api_base, api_key_env
        self.timeout_seconds, self.usd_per_token, self.budget = timeout_seconds, usd_per_token, budget
        self.limit = {"context": context_tokens, "output": min(16_384, context_tokens // 4)}
        self.program = _program(binary)

    def edit(
        self,
        harness: Path,
        spec: Spec,
        out: Path,
        feedback: str = "",
        evidence: Mapping[str, str] | None = None,
    ) -> Candidate:
        """Edit a copy of the harness once; the events are kept beside ``out`` as ``<out>.editor.jsonl``.

        Parameters
        ----------
        harness : folder of the current harness. spec : what to change. out : folder to create.
        feedback : a gate's reason against an earlier candidate.
        evidence : what the spec rests on, text by file name; lies beside the harness.

        Raises
        ------
        ecdysis_lab.models.errors.PermanentError: the server refused the key. BudgetExceeded: the budget is used up.
        LabError: ``out`` already holds something.
        """
        parent, given = load_harness(harness), staging.reading(spec, feedback, evidence)
        with _folders() as root:
            stage = root / "harness"
            staging.stage(parent, given, stage)
            log = self._run(root, stage)
            files, notes = staging.collect(stage, given)
        staging.keep_transcript(out, log.events, self._key)
        if log.over:
            raise log.over
        if log.refused_key:
            key = self.api_key_env or "api_key_env"
            raise PermanentError(f"editor opencode: the server refused the key ({log.failure}); set {key}")
        cost = log.usage.cost_usd if self.usd_per_token else None
        usage = replace(log.usage, seconds=log.seconds, cost_usd=cost)
        edit = staging.Edit(files, usage, (*log.notes, *notes), log.failure)
        return staging.candidate(parent, edit, out, self.name)

    @property
    def _key(self) -> str | None:
        return os.environ.get(self.api_key_env) if self.api_key_env else None

    def _run(self, root: Path, stage: Path) -> Log:
        (root / "config/opencode/opencode.json").write_text(json.dumps(self._config()), encoding="utf-8")
        # With a title given, OpenCode does not spend a call of its own on one.
        command = [self.program, "run", "--pure", "--format", "json", "--title", "harness edit"]
        command += ["--print-logs", "--log-level", "ERROR", "--model", f"{PROVIDER}/model"]
        command += [f"{prompt('editor')}\n\n{prompt('editor_opencode')}"]
        env = _environment(root) | ({KEY: self._key} if self._key else {})
        log, began = Log(self._key, self.usd_per_token, self.budget), time.monotonic()
        try:
            with closing(watched(command, stage, env, self._seconds())) as lines:
                for line in lines:
                    log.read(line)
                    if log.failure:
                        break  # closing ends the program
            if log.failure and self.budget:
                self.budget.check()
        except BudgetExceeded as over:
            log.over = over
        log.seconds = time.monotonic() - began
        return log

    def _seconds(self) -> float:
        """Wall clock of this edit: its own limit, or what is left of the run's.

        Raises
        ------
        BudgetExceeded: nothing is left.
        """
        if self.budget is None:
            return self.timeout_seconds
        self.budget.check()
        if self.budget.max_seconds is None:
            return self.timeout_seconds
        return min(self.timeout_seconds, self.budget.max_seconds - (time.time() - self.budget.started))

    def _config(self) -> dict[str, Any]:
        options = {"baseURL": self.api_base} | ({"apiKey": f"{{env:{KEY}}}"} if self.api_key_env else {})
        model = {"id": self.model, "name": self.model, "tool_call": True, "limit": self.limit}
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "name": PROVIDER,
            "options": options,
            "models": {"model": model},
        }
        allowed = dict.fromkeys(("read", "edit", "glob", "grep", "list"), "allow")
        denied = dict.fromkeys(("bash", "webfetch", "websearch", "task", "external_directory"), "deny")
        return {
            "autoupdate": False,
            "share": "disabled",
            "snapshot": False,
            "model": f"{PROVIDER}/model",
            "small_model": f"{PROVIDER}/model",
            "enabled_providers": [PROVIDER],
            "provider": {PROVIDER: provider},
            "permission": {"*": "deny", **allowed, **denied},
        }


@contextmanager
def _folders() -> Iterator[Path]:
    """State folders and a place for the staging folder, removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="ecdysis-opencode-") as made:
        root = Path(made).resolve()
        for name in ("home", "tmp", "data", "state", "cache", "config/opencode/node_modules"):
            (root / name).mkdir(parents=True)
        # OpenCode installs its plug-in kit from npm into a configuration folder that does not seem to have it.
        lock = {"packages": {"": {"dependencies": {"@opencode-ai/plugin": "*"}}}}
        (root / "config/opencode/package-lock.json").write_text(json.dumps(lock), encoding="utf-8")
        yield root


def _environment(root: Path) -> dict[str, str]:
    """The few variables that OpenCode gets; none of them is a key."""
    env = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    env |= {f"XDG_{name.upper()}_HOME": str(root / name) for name in ("config", "data", "state", "cache")}
    env |= {f"OPENCODE_DISABLE_{name}": "1" for name in SWITCHES}
    return env | {"HOME": str(root / "home"), "TMPDIR": str(root / "tmp")}


@functools.cache
def _program(binary: str) -> str:
    """Path of an OpenCode whose version takes our configuration."""
    path = shutil.which(binary)
    if path is None:
        raise LabError(f"editor opencode: there is no program {binary!r} on the PATH; {INSTALL}")
    path = os.path.abspath(path)
    with _folders() as root:
        try:
            asked = subprocess.run(
                [path, "--version"], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120,
                env=_environment(root), cwd=root,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as why:
            raise LabError(f"editor opencode: {binary!r} does not run ({why}); {INSTALL}") from None
    found = re.search(r"(\d+)\.(\d+)\.(\d+)", asked.stdout)
    version = tuple(int(number) for number in found.groups()) if found else ()
    if asked.returncode != 0 or not OLDEST <= version < (2,):
        said = (
            found[0] if found else (asked.stdout + asked.stderr).strip()[:100] or f"exit {asked.returncode}"
        )
        raise LabError(
            f"editor opencode: {binary!r} reports version {said!r}; 1.1.1 to 1.x is understood; {INSTALL}"
        )
    return path
