"""The project as a whole: its lists agree, it starts fast, stages look only backwards, nothing leaks."""

from __future__ import annotations

import ast
import os
import re
import resource
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "ecdysis_lab"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
INSTALLED_EXTRAS = ("tau2", "offline", "test")

# The rooms in the order of the flow (DESIGN section 4). A room imports itself and those above it. ``hooks`` stands first:
# harness authors import it, and the sandbox loads it without the rest of the package.
ROOMS = (
    "hooks",
    "records",
    "store",
    "models",
    "benchmarks",
    "harness",
    "failures",
    "review",
    "train",
    "evaluate",
    "show",
    "cli",
)
ROW = {room: row for row, room in enumerate(ROOMS)}
HEAVY = (
    "torch",
    "tau2",
    "litellm",
    "pandas",
    "plotly",
    "hdbscan",
    "sklearn",
    "sentence_transformers",
    "scipy",
)


def requirements(extras: tuple[str, ...] = INSTALLED_EXTRAS) -> list[Requirement]:
    """Core requirements of pyproject.toml and those of some extras."""
    listed = list(PROJECT["project"]["dependencies"])
    for extra in extras:
        listed += PROJECT["project"]["optional-dependencies"][extra]
    return [Requirement(line) for line in listed]


def pins() -> dict[str, str]:
    """Package -> version of constraints.txt."""
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in (line.split("==") for line in lines)}


def tracked() -> list[Path]:
    """Files that git knows."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]


def child_seconds() -> float:
    """Processor time of finished child processes, which other work on the machine does not stretch."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def best_seconds(measure: Callable[[], float], limit: float) -> float:
    """Best of three; up to five more where a busy machine spoilt those, as the fastest run is the truest."""
    times = [measure() for _ in range(3)]
    while min(times) >= limit and len(times) < 8:
        times.append(measure())
    return min(times)


def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60)


# --- lists that must agree


def test_environment_yml_lists_the_packages_of_pyproject() -> None:
    listed = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    pip = next(item["pip"] for item in listed if isinstance(item, dict))
    packages = {str(Requirement(line)) for line in pip if not line.startswith("-")}
    assert packages == {str(requirement) for requirement in requirements()}
    assert f"python{PROJECT['project']['requires-python']}" in listed
    assert [line for line in pip if line.startswith("-")] == ["-c constraints.txt", "-e ."]


def test_every_requirement_is_pinned_within_its_range() -> None:
    versions = pins()
    wrong = [
        f"{requirement}: pinned {versions.get(canonicalize_name(requirement.name))}"
        for requirement in requirements(tuple(PROJECT["project"]["optional-dependencies"]))
        if not requirement.specifier.contains(versions.get(canonicalize_name(requirement.name), "0"))
    ]
    assert wrong == []
    assert "+" not in "".join(versions.values())  # a local build of one machine
    assert versions["torch"] == "2.13.0"


def test_data_files_ship_with_the_package() -> None:
    globs = PROJECT["tool"]["setuptools"]["package-data"]["ecdysis_lab"]
    shipped = {path for pattern in globs for path in PACKAGE.glob(pattern)}
    modules = {path for path in PACKAGE.rglob("*.py") if (path.parent / "__init__.py").exists()}
    left_out = [path for path in tracked() if PACKAGE in path.parents and path not in shipped | modules]
    assert [str(path.relative_to(ROOT)) for path in left_out if path.name != ".gitkeep"] == []


# --- start-up


def test_import_takes_less_than_300_ms() -> None:
    def measure() -> float:
        lines = run_python("-X", "importtime", "-c", "import ecdysis_lab").stderr.splitlines()
        microseconds = next(
            line.split("|")[1] for line in lines if line.split("|")[-1].strip() == "ecdysis_lab"
        )
        return int(microseconds) / 1e6

    assert best_seconds(measure, 0.3) < 0.3


def test_help_takes_less_than_700_ms() -> None:
    def measure() -> float:
        before = child_seconds()
        done = run_python("-m", "ecdysis_lab.cli", "--help")
        seconds = child_seconds() - before
        assert done.returncode == 0, done.stderr
        assert "demo" in done.stdout and "doctor" in done.stdout
        return seconds

    assert best_seconds(measure, 0.7) < 0.7


def test_no_stage_loads_heavy_packages_when_imported() -> None:
    names = [".".join(path.relative_to(PACKAGE).with_suffix("").parts) for path in package_modules()]
    stages = [
        n.removesuffix(".__init__")
        for n in names
        if (n.count(".") == 1 and n not in ("benchmarks.tau2.sides", "cli.__main__"))
        or n.endswith(".__init__")
    ]
    code = (
        "import importlib, sys\n"
        f"for stage in {stages}:\n"
        "    importlib.import_module('ecdysis_lab.' + stage)\n"
        f"    loaded = [name for name in {HEAVY} if name in sys.modules]\n"
        "    if loaded: sys.exit(f'{stage} loads {loaded}')\n"
        "print('light')"
    )
    done = run_python("-c", code)
    assert (done.stdout.strip(), done.stderr.strip()) == ("light", "")


# --- the flow


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path) -> Iterator[tuple[str, int]]:
    """(dotted name, line) of every import in a file, wherever it stands; relative ones made absolute."""
    here = ["ecdysis_lab", *path.relative_to(PACKAGE).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = here[: len(here) - node.level + 1] if node.level else []
            base = [*base, *((node.module or "").split(".") if node.module else [])]
            yield from ((".".join([*base, alias.name]), node.lineno) for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module") and node.args:
            name = node.args[0]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                yield name.value, node.lineno


def package_modules() -> list[Path]:
    return [
        p for p in sorted(PACKAGE.rglob("*.py")) if "shipped" not in p.parts and p != PACKAGE / "__init__.py"
    ]


def test_the_package_has_twelve_rooms() -> None:
    found = {path.name.removesuffix(".py") for path in PACKAGE.iterdir() if not path.name.startswith("__")}
    assert found == set(ROOMS)


def arrows() -> dict[str, dict[str, list[str]]]:
    """Room -> room that it imports -> where, for every import of the package."""
    found: dict[str, dict[str, list[str]]] = {room: {} for room in ROOMS}
    for path in package_modules():
        for name, line in imported(path):
            parts = name.split(".")
            if parts[0] == "ecdysis_lab" and len(parts) > 1 and parts[1] in ROW:
                where = f"{path.relative_to(ROOT)}:{line}"
                found[room_of(path)].setdefault(parts[1], []).append(where)
    return found


def test_rooms_import_only_what_stands_above_them() -> None:
    graph = arrows()
    for room, targets in graph.items():  # shown when it fails, and with pytest -s
        print(f"{room:11} ← {', '.join(t for t in ROOMS if t in targets and t != room)}")
    up = {f"{r} → {t}": w for r, ts in graph.items() for t, w in ts.items() if ROW[t] > ROW[r]}
    assert up == {}
    assert graph["cli"]["show"] and graph["records"]["hooks"]  # the listing sees imports at all


def test_harness_source_imports_nothing_of_the_package_but_hooks() -> None:
    sources = sorted((PACKAGE / "harness" / "shipped").rglob("*.py"))
    names = {name for path in sources for name, _ in imported(path) if name.startswith("ecdysis_lab")}
    offered = ("ecdysis_lab.hooks.", "ecdysis_lab.hooks.")
    assert {name for name in names if not name.startswith(offered)} == set()


DOMAIN_WORDS = re.compile(r"(?i)(?<!tau2/)\b(airline|retail|customer|reservation|booking|flight|order[_ ]id)")
DOMAIN_PLACES = ("benchmarks/", "harness/shipped/")


def test_only_benchmarks_and_their_harnesses_name_a_domain() -> None:
    found = set()
    for path in sorted(PACKAGE.rglob("*")):
        name = path.relative_to(PACKAGE).as_posix()
        if path.suffix in (".py", ".md", ".js", ".css") and not name.startswith(DOMAIN_PLACES):
            found |= {name} if DOMAIN_WORDS.search(path.read_text()) else set()
    assert found == set()


# --- nothing of one machine, no secret


def test_tracked_files_name_no_machine_path_registry_host_or_key() -> None:
    hosts = [".".join(parts) for parts in (("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"))]
    hosts += [
        ".".join(parts)
        for parts in (("deb", "debian", "org"), ("pytorch", "org", "whl"), ("anaconda", "org"))
    ]
    paths = "|".join(("work/main", "work/shared", "tmp/dev", "opt/wheels", "opt/pypi", r"home/\w+/", "root/"))
    forbidden = re.compile(
        rf"{'|'.join(map(re.escape, hosts))}|(?<![\w.~-])/(?:{paths})|\bsk-[A-Za-z0-9]{{24,}}|-----BEGIN [A-Z ]*PRIVATE"
    )
    found = []
    for path in tracked():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue  # an image
        found += [f"{path.relative_to(ROOT)}: {match}" for match in forbidden.findall(text)]
    assert found == []


# --- the helper for programs


def test_a_missing_program_skips_here_and_fails_in_ci(
    needs: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert needs("git").endswith("git")
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="needs no-such-program"):
        needs("no-such-program")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="needs no-such-program"):
        needs("no-such-program")


def test_tests_inherit_no_keys() -> None:
    assert [name for name in os.environ if name.endswith(("_API_KEY", "_TOKEN"))] == []
    assert os.environ["HF_HUB_OFFLINE"] == "1"
