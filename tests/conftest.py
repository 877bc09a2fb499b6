"""What every test shares: no real keys, no network look-ups, and programs and fonts that CI must have."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

ROOT = Path(__file__).resolve().parents[1]
SECRETS = ("_API_KEY", "_TOKEN", "_ACCESS_KEY", "_ACCESS_KEY_ID", "_API_BASE", "_BASE_URL")
OFFLINE = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else importing LiteLLM waits for a price list
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
FONT_FOLDERS = ("/usr/share/fonts", "/usr/local/share/fonts", "~/.local/share/fonts", "~/.fonts")
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
    return path or _missing(f"{program}, which is not on PATH")


def require_fonts(pattern: str) -> list[Path]:
    """Font files of the machine whose names match; without any the test skips, and with ``CI=true`` it fails."""
    folders = (Path(folder).expanduser() for folder in FONT_FOLDERS)
    found = sorted(path for folder in folders for path in folder.rglob(pattern))
    return found or _missing(f"fonts {pattern}, which are not installed")


def _missing(what: str) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(f"needs {what}; .ci/run must install it", pytrace=False)
    pytest.skip(f"needs {what}")


@pytest.fixture(scope="session")
def needs() -> Callable[[str], str]:
    """``needs("chromium")`` inside a test or fixture: the program's path, or a skip (in CI a failure)."""
    return require


@pytest.fixture(scope="session")
def fonts_config(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """``fonts_config("DejaVu*.ttf")``: a file for ``FONTCONFIG_FILE`` that leaves a program these fonts only."""

    def write(pattern: str) -> Path:
        folder = tmp_path_factory.mktemp("fonts")
        for path in require_fonts(pattern):
            (folder / path.name).symlink_to(path)
        rules = '<include ignore_missing="yes">/etc/fonts/conf.d</include>'
        places = f"<dir>{folder}</dir><cachedir>{folder}/cache</cachedir>"
        (folder / "fonts.conf").write_text(f"<fontconfig>{rules}{places}</fontconfig>")
        return folder / "fonts.conf"

    return write


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: takes more than a few seconds; leave out with -m 'not slow'")
    config.addinivalue_line("markers", "needs(program, ...): skips without these programs, fails in CI")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests first and whole, so that no worker is left alone with one of them at the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("needs"):
        for program in mark.args:
            require(program)
