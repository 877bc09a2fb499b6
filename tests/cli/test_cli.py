"""The command line: a mistake is one sentence and exit 2; a kill costs nothing; no key leaves the environment."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
import zlib
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from openai_server import OpenAIServer, Reply, status, text

from ecdysis_lab.cli import doctor, parser
from ecdysis_lab.train.arms import ARMS
from ecdysis_lab.train.settings import Settings, help_of

ROOT = Path(__file__).resolve().parents[2]
CANARY = "sk-canary-77d1e4b09c3f"
CONFIG = {
    "seed": "2", "train-tasks": "12", "trials": "2", "rounds": "1", "test-tasks": "3", "arm": "direct,ecdysis",
    "test-models": "sim/small", "embedder": "tfidf", "start": "empty", "workers": "1",
}  # fmt: skip


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command in this process."""
    try:
        code = parser.main([*arguments])
    except SystemExit as left:
        code = int(left.code or 0)
    said = capsys.readouterr()
    return code, said.out, said.err


def command(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    """The command as a process of its own, in a session of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "ecdysis_lab.cli", *arguments], cwd=ROOT, env={**os.environ, **environment},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


# -- mistakes -----------------------------------------------------------------------------------------------------

MISTAKES: dict[str, tuple[list[str], list[str]]] = {
    "benchmark": (["demo", "--benchmark", "hotel"], ["benchmark", "'hotel'", "tau2/airline, tau2/retail"]),
    "model": (["demo", "--model", "nosuch/x"], ["'nosuch/x'", "openai/NAME", "sim/small"]),
    "simulated model": (["demo", "--model", "sim/huge"], ["'sim/huge'", "sim/small, sim/medium"]),
    "test model": (["demo", "--test-models", "sim/small,nosuch/x"], ["'nosuch/x'", "openai/NAME"]),
    "user model": (["demo", "--user-model", "nosuch/x"], ["'nosuch/x'", "openai/NAME"]),
    "review model": (["demo", "--review-model", "nosuch/x"], ["'nosuch/x'", "openai/NAME"]),
    "key": (["demo", "--model", "openai/x"], ["openai/x", "OPENAI_API_KEY"]),
    "arm": (["demo", "--arm", "foo"], ["arm", "'foo'", "direct, human, self-evolution, self-evolution-verified, ecdysis-no-fdcr, ecdysis"]),
    "one arm of two": (["demo", "--arm", "direct,foo"], ["'foo'", "direct, human, self-evolution, self-evolution-verified, ecdysis-no-fdcr, ecdysis"]),
    "seed": (["demo", "--seed", "abc"], ["seed", "whole number", "'abc'"]),
    "negative seed": (["demo", "--seed", "-1"], ["seed", "at least 0"]),
    "trials": (["demo", "--trials", "0"], ["trials", "at least 1"]),
    "budget": (["demo", "--max-usd", "much"], ["max_usd", "a number", "'much'"]),
    "subset": (["demo", "--subset", "half"], ["subset", "give quarter, or a subset.json"]),
    "disclosure": (["demo", "--disclosure", "gold"], ["disclosure", "transcript, checks or scenario"]),
    "editor": (["demo", "--editor", "vim"], ["editor", "'vim'", "rules"]),
    "start": (["demo", "--start", "nosuch"], ["harness", "'nosuch'", "airline, dbbench, empty"]),
    "value of a setting": (["demo", "--debate", "x"], ["debate", "whole number"]),
    "option": (["demo", "--typo", "1"], ["unrecognized arguments: --typo"]),
    "option without a value": (["demo", "--seed"], ["--seed", "expected one argument"]),
    "command": (["demi"], ["'demi'", "demo", "doctor"]),
    "benchmark of a run": (["run", "--benchmark", "hotel"], ["'hotel'", "tau2/airline", "tau2/retail"]),
    "harness of a run": (["run", "--harness", "nosuch"], ["harness", "'nosuch'", "airline, dbbench, empty"]),
    "split of a run": (["run", "--split", "dev"], ["split", "'dev'", "train, test, all"]),
    "model of a run": (["run", "--model", "sim/huge"], ["'sim/huge'", "sim/small"]),
    "tasks of a run": (["run", "--tasks", "many"], ["--tasks", "invalid int value: 'many'"]),
    "too many tasks": (["run", "--split", "test", "--tasks", "99"], ["20 tasks", "99"]),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_sentence_and_exit_2(
    name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments, told = MISTAKES[name]
    places = (
        ["--data", str(tmp_path)]
        if arguments[0] in ("demo", "run") and name != "option without a value"
        else []
    )
    code, out, err = run(capsys, *arguments, *places)
    assert (code, out) == (2, "")
    assert err.startswith("ecdysis-lab: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    for part in told:
        assert part in err
    assert not (tmp_path / "runs").exists(), "nothing is written for a mistake"


def test_a_mistake_in_a_process_of_its_own() -> None:
    with command("demo", "--benchmark", "hotel") as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert (
        err
        == "ecdysis-lab: benchmark: unknown 'hotel'; choose one of tau2/airline, tau2/retail, tau2/telecom, agentbench/dbbench, agentbench/os or give module:factory\n"
    )


def test_an_interruption_is_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def stop() -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(doctor, "report", stop)
    code, _, err = run(capsys, "doctor")
    assert code == 130
    assert err == "ecdysis-lab: interrupted; the same command continues where it stopped\n"


# -- help and doctor ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [["--help"], []])
def test_help_lists_the_commands(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, err) == (0, "")
    for name in ("demo", "run", "doctor"):
        assert f"\n    {name} " in out
    assert "Train the runtime harness of an LLM agent" in out


def test_every_setting_is_an_option_with_its_help(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "2000")
    monkeypatch.setitem(ARMS, "toy", replace(ARMS["ecdysis"], name="toy"))
    code, out, _ = run(capsys, "demo", "--help")
    assert code == 0
    for name in Settings.model_fields:
        assert f"--{name.replace('_', '-')}" in out and help_of(name) in out
    assert "ecdysis-random-quarter, toy" in out


def test_help_needs_none_of_the_heavy_packages() -> None:
    code = (
        "import sys; from ecdysis_lab.cli import parser\n"
        "try:\n    parser.main(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'torch', 'litellm', 'tau2', 'pandas', 'plotly', 'hdbscan', 'papermill', 'numpy'} & set(sys.modules)\n"
        "sys.exit(f'imports {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    from ecdysis_lab import __version__

    assert run(capsys, "--version")[:2] == (0, f"{__version__}\n")


def test_doctor_says_what_is_there_and_no_value(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    monkeypatch.setenv("EMPTY_API_KEY", "")
    code, out, err = run(capsys, "doctor")
    assert (code, err) == (0, "")
    assert "API keys set: OPENAI_API_KEY\n" in out
    assert CANARY not in out
    assert "  litellm " in out
    lines = out.partition("Sandbox of harness code:\n")[2].splitlines()[:-1]
    assert {"memory", "seccomp"} <= {line.split(":")[0].strip() for line in lines}
    assert all(line.endswith(": holds") or ": missing (" in line for line in lines)
    assert out.endswith("The demo can run.\n")


def test_doctor_says_what_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(doctor, "PACKAGES", {"hdbscan": "patterns", "papermill": "batch notebooks"})
    real = doctor.metadata.version

    def version(name: str) -> str:
        if name == "hdbscan":
            raise doctor.metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(doctor.metadata, "version", version)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("BROWSER_PATH", raising=False)
    code, out, _ = run(capsys, "doctor")
    assert code == 1
    assert "  hdbscan: not installed; needed for patterns\n" in out
    assert "Chrome: not found; figures are written as HTML and CSV only\n" in out
    assert "OpenCode: not found; npm install -g opencode-ai brings it (editor opencode)\n" in out
    assert "API keys set: none; the embedded default needs none\n" in out
    assert out.endswith("Cannot run the demo: hdbscan missing.\n")


def test_doctor_survives_a_program_that_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "opencode"
    broken.write_text("#!/no/such/shell\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert doctor.opencode_version() == f"{broken} does not start (FileNotFoundError)"


# -- trials of a split --------------------------------------------------------------------------------------------


def test_run_prints_one_json_object(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("tau2")
    arguments = ["run", "--split", "test", "--tasks", "2", "--data", str(tmp_path), "--json"]
    code, out, _ = run(capsys, *arguments)
    found = json.loads(out)
    assert (code, found["accuracy"], found["n_tasks"], found["simulated"]) == (0, 1.0, 2, True)
    assert (found["benchmark"], found["model"], found["harness"]) == ("tau2/airline", "sim/flawless", "empty")


def canary_files(*roots: Path) -> list[str]:
    """Files, and rows of SQLite files, that hold the key."""
    found = []
    for path in (p for root in roots for p in root.rglob("*") if p.is_file()):
        data = path.read_bytes()
        if path.suffix == ".sqlite":
            with sqlite3.connect(path) as connection:
                for table in ("trials", "infra_errors", "truth"):
                    data += b"".join(
                        zlib.decompress(r[0]) for r in connection.execute(f"SELECT body FROM {table}")
                    )
        if CANARY.encode() in data:
            found.append(str(path))
    return found


REFUSED: Reply = status(401, f"Incorrect API key provided: {CANARY}.", error_code="invalid_api_key")


@pytest.mark.parametrize("replies", [[], [REFUSED]], ids=["answers", "refuses the key"])
def test_a_key_reaches_the_server_and_nothing_else(
    replies: list[Reply], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tau2")
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    with OpenAIServer(replies, default=text("Goodbye.")) as server:
        arguments = [
            "run",
            "--model",
            "openai/x",
            "--api-base",
            server.url,
            "--tasks",
            "1",
            "--data",
            str(tmp_path),
        ]
        code, out, err = run(capsys, *arguments)
        assert server.requests[0].headers["authorization"] == f"Bearer {CANARY}"
    assert CANARY not in out + err
    assert canary_files(tmp_path) == []
    if replies:
        assert code == 2
        assert err.startswith("ecdysis-lab: openai/x: the server refused the key (401: ")
        assert err.endswith("set OPENAI_API_KEY\n")
    else:
        assert (code, err) == (0, "")
        assert "model: openai/x" in out


# -- the demo, killed -----------------------------------------------------------------------------------------------


def demo(root: Path) -> subprocess.Popen[str]:
    options = [word for name, value in CONFIG.items() for word in (f"--{name}", value)]
    places = ["--data", str(root / "data"), "--figures", str(root / "figures")]
    return command("demo", *options, *places, OPENAI_API_KEY=CANARY)


def stored(root: Path) -> set[str]:
    """Keys of finished trials."""
    path = root / "data" / "trials.sqlite"
    try:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
            return {row[0] for row in connection.execute("SELECT key FROM trials")}
    except sqlite3.Error:
        return set()


def children(pid: int) -> list[int]:
    """Processes below a process."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it has just ended
        if parent == pid:
            found += [int(stat.parent.name), *children(int(stat.parent.name))]
    return found


def wait_until(true: Any, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs /proc to find the kernel's process")
def test_a_killed_demo_goes_on_and_repeats_nothing(tmp_path: Path) -> None:
    """SIGKILL to the command in the middle of training; its kernel must end by itself."""
    pytest.importorskip("tau2")
    first = demo(tmp_path)
    assert wait_until(lambda: len(stored(tmp_path)) >= 8 or first.poll() is not None, 240)
    below = children(first.pid)
    os.killpg(first.pid, signal.SIGKILL)
    assert first.wait() == -signal.SIGKILL
    first.communicate()
    assert below
    assert wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in below), 30), (
        "the kernel lives on"
    )
    finished = stored(tmp_path)
    assert 8 <= len(finished) < 44
    with demo(tmp_path) as second:
        out, err = second.communicate(timeout=400)
    assert (second.returncode, err) == (0, "")
    (folder,) = (p for p in (tmp_path / "data" / "runs").iterdir() if (p / "summary.json").exists())
    times = Counter((folder / "billed.txt").read_text().split())
    assert {times[key] for key in finished} == {1}, "a finished trial was run again"
    assert sum(n - 1 for n in times.values()) <= 1, "at most the trial that was in hand"
    assert json.loads((folder / "status.json").read_text())["state"] == "done"
    assert summary_of(folder) == uninterrupted(tmp_path / "whole")
    assert "SIMULATED · tau2/airline · trained on sim/small · seed 2" in out
    assert f"training trials: {len(finished)}/24" in out
    assert CANARY not in out
    assert canary_files(tmp_path / "data", tmp_path / "figures") == []
    assert list((tmp_path / "figures").rglob("gains.html"))


def summary_of(folder: Path) -> Any:
    from simlab import plain

    return plain(json.loads((folder / "summary.json").read_text()))


def uninterrupted(root: Path) -> Any:
    """The same configuration in one go, in this process."""
    from ecdysis_lab.evaluate.experiment import Experiment
    from ecdysis_lab.train.settings import configure

    names = {"arm": "arms"}
    experiment = Experiment(
        configure(**{names.get(k, k.replace("-", "_")): v for k, v in CONFIG.items()}), root
    )
    experiment.go()
    return summary_of(experiment.run.folder)


def test_a_reader_who_has_seen_enough_is_no_error() -> None:
    with command("demo", "--help") as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(60) == 0
        assert process.stderr is not None and process.stderr.read() == ""
