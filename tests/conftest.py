"""What every test shares: no real keys, no network look-ups, and programs that CI must have."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SECRETS = ("_API_KEY", "_TOKEN", "_ACCESS_KEY", "_ACCESS_KEY_ID", "_API_BASE", "_BASE_URL")
OFFLINE = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else importing LiteLLM waits for a price list
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
PROGRAMS = {"chromium": ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")}


def _prepare_environment() -> None:
    """Runs when pytest loads this file, so before any test module imports LiteLLM or transformers."""
    for name in [name for name in os.environ if name.endswith(SECRETS)]:
        del os.environ[name]
    os.environ.update(OFFLINE)
    if "PYTEST_XDIST_WORKER" in os.environ:
        os.environ.setdefault("OMP_NUM_THREADS", "1")  # one core a worker
    local = ROOT / "build/opencode/node_modules/.bin"  # where .ci/run and the README put opencode
    os.environ["PATH"] = f"{local}{os.pathsep}{os.environ.get('PATH', '')}"


_prepare_environment()


def require(program: str) -> str:
    """Path of a program; without it the test skips, and with ``CI=true`` it fails."""
    found = (shutil.which(name) for name in PROGRAMS.get(program, (program,)))
    path = next((path for path in found if path), None)
    if path is None and os.environ.get("CI") == "true":
        pytest.fail(f"needs {program}, which is not on PATH; .ci/run must install it", pytrace=False)
    if path is None:
        pytest.skip(f"needs {program}, which is not on PATH")
    return path


@pytest.fixture(scope="session")
def needs() -> Callable[[str], str]:
    """``needs("chromium")`` inside a test or fixture: the program's path, or a skip (in CI a failure)."""
    return require


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: takes more than a few seconds; leave out with -m 'not slow'")
    config.addinivalue_line("markers", "needs(program, ...): skips without these programs, fails in CI")


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("needs"):
        for program in mark.args:
            require(program)
