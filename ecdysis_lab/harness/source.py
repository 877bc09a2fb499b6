"""A harness as a folder of source: load, identify, copy, diff, switch, and check against the static policy.

Nothing here runs harness code; ``ecdysis_lab.harness.host`` does, out of process.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ecdysis_lab.harness.differences import unified
from ecdysis_lab.harness.static import HOOKS, MAX_FILE_BYTES, Problem, source_problems
from ecdysis_lab.records import LAYER_FILES, LabError
from ecdysis_lab.store.foreign import clean

SWITCHES_FILE = "harness.toml"
FILES: tuple[str, ...] = (*LAYER_FILES.values(), SWITCHES_FILE)
MAX_BYTES = {**dict.fromkeys(FILES, 4 * MAX_FILE_BYTES), SWITCHES_FILE: 16 * 1024}
"""Most bytes of a file that are read: four to a character of source, and room for some hundred switches."""
MAX_KEY = 60  # characters of an entry's name that a sentence shows
SHIPPED = Path(__file__).parent / "shipped"


@dataclass(frozen=True)
class Harness:
    """A harness as it was read.

    Parameters
    ----------
    path : folder it came from.
    hash : SHA-256 over the sorted names and bytes of its files.
    files : name -> source of the hook files and harness.toml that exist.
    switches : ``{"layers": {name: bool}, "rules": {name: bool}}``; what is not named is on.
    strays : what else lies in the folder (never loaded), and files that could not be read, with the reason.
    """

    path: Path
    hash: str
    files: dict[str, str]
    switches: dict[str, dict[str, bool]] = field(default_factory=lambda: {"layers": {}, "rules": {}})
    strays: tuple[tuple[str, str], ...] = ()

    def active(self, layer: str) -> bool:
        """Whether a layer has a file and is switched on."""
        return LAYER_FILES[layer] in self.files and self.switches["layers"].get(layer, True)

    @property
    def empty(self) -> bool:
        """Whether no layer is active, as in the ``direct`` arm."""
        return not any(self.active(layer) for layer in LAYER_FILES)

    @property
    def disabled(self) -> tuple[str, ...]:
        """Rules that are switched off, sorted."""
        return tuple(sorted(rule for rule, on in self.switches["rules"].items() if not on))

    def defines(self, hook: str) -> bool:
        """Whether an active file defines the hook; one that does not parse counts as defining them."""
        layer, _ = HOOKS[hook]
        if not self.active(layer):
            return False
        names = _top_level(self.files[LAYER_FILES[layer]])
        return names is None or hook in names

    def tokens(self) -> int:
        """Size of the hook files in tokens, estimated as characters / 4."""
        return sum(len(text) for name, text in self.files.items() if name != SWITCHES_FILE) // 4


def load_harness(path_or_name: str | Path) -> Harness:
    """Read a harness from a folder, or a shipped one by name.

    Raises
    ------
    LabError: there is no such folder and no shipped harness of that name, or it holds other things only.
    """
    shipped = str(path_or_name).isidentifier() and (SHIPPED / path_or_name).is_dir()
    folder = SHIPPED / path_or_name if shipped else Path(path_or_name)
    if not folder.is_dir():
        names = sorted(p.name for p in SHIPPED.iterdir() if p.is_dir() and p.name.isidentifier())
        raise LabError(f"harness: {str(path_or_name)!r} is neither a folder nor one of: {', '.join(names)}")
    raw: dict[str, bytes] = {}
    strays: list[tuple[str, str]] = []
    for name, content in _entries(folder):
        if isinstance(content, bytes):
            raw[name] = content
        else:
            strays.append((clean(name), content))
    if strays and not raw:
        raise LabError(
            f"harness: {folder} holds none of {', '.join(FILES)}, but {strays[0][0]}; "
            "the empty harness is an empty folder"
        )
    files = {name: data.decode("utf-8", errors="replace") for name, data in sorted(raw.items())}
    switches, _ = _read_switches(files.get(SWITCHES_FILE, ""))
    return Harness(folder, identity(raw), files, switches, tuple(strays))


def _entries(folder: Path) -> Iterator[tuple[str, bytes | str]]:
    """Name and bytes of each file of a harness, by name; of anything else in the folder, why it is not loaded."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        raise LabError(f"harness: {folder} cannot be read: {error.strerror or error}") from error
    for entry in entries:
        if entry.name in FILES and entry.is_file(follow_symlinks=False):
            yield entry.name, _content(Path(entry))
        elif entry.name in FILES:
            yield entry.name, "must be a plain file, not a link or folder; it is not loaded"
        elif not entry.name.startswith((".", "__pycache__")) and not entry.name.endswith(".md"):
            yield entry.name, f"is never loaded; a harness has only {', '.join(FILES)}"


def _content(file: Path) -> bytes | str:
    """Bytes of a file, or why they are not read; the size is looked at before."""
    most = MAX_BYTES[file.name]
    try:
        size = file.stat().st_size
        if size > most:
            return f"has {size:,} bytes, at most {most:,} are read; it is not loaded"
        with file.open("rb") as opened:
            return opened.read(most)
    except OSError as error:
        return f"cannot be read: {error.strerror or error}; it is not loaded"


def sound_harness(path_or_name: str | Path) -> Harness:
    """As :func:`load_harness`, for a harness that is about to be used.

    Raises
    ------
    LabError: it breaks the static policy, so that its hooks would never run; the first breach is named.
    """
    harness = load_harness(path_or_name)
    problems = static_problems(harness)
    if problems:
        more = f" (and {len(problems) - 1} more; ecdysis-lab check lists them)" if len(problems) > 1 else ""
        raise LabError(f"harness {path_or_name}: {problems[0]}{more}")
    return harness


def identity(raw: Mapping[str, bytes]) -> str:
    """SHA-256 over sorted names and bytes; each part is preceded by its length, so no two folders collide."""
    digest = hashlib.sha256()
    for name in sorted(raw):
        for part in (name.encode(), raw[name]):
            digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()


def copy_harness(harness: Harness, out: str | Path) -> Harness:
    """Write the harness's files to ``out`` (new or empty) and load them; strays stay behind.

    Raises
    ------
    LabError: ``out`` already holds something.
    """
    target = Path(out)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise LabError(f"out: {str(target)!r} already exists and is not an empty folder")
    target.mkdir(parents=True, exist_ok=True)
    for name, text in harness.files.items():
        (target / name).write_bytes(text.encode())
    return load_harness(target)


def switch_harness(
    harness: Harness,
    out: str | Path,
    layers: Mapping[str, bool] | None = None,
    rules: Mapping[str, bool] | None = None,
) -> Harness:
    """Copy a harness to ``out`` with layers or rules switched on or off there.

    Raises
    ------
    LabError: a layer that does not exist, or an ``out`` that already holds something.
    """
    unknown = sorted(set(layers or {}) - set(LAYER_FILES))
    if unknown:
        raise LabError(f"layers: {unknown[0]!r} is not one of: {', '.join(LAYER_FILES)}")
    lines: list[str] = []
    for table, changed in (("layers", layers or {}), ("rules", rules or {})):
        values = {**harness.switches[table], **changed}
        lines += [
            f"[{table}]",
            *(f"{json.dumps(name)} = {str(on).lower()}" for name, on in sorted(values.items())),
        ]
    copy_harness(harness, out)
    (Path(out) / SWITCHES_FILE).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return load_harness(out)


def diff_harness(a: Harness, b: Harness) -> str:
    """Unified diff from ``a`` to ``b`` over all files; an empty string where they are equal."""
    parts: list[str] = []
    for name in FILES:
        old, new = a.files.get(name), b.files.get(name)
        if old != new:
            before, after = (f"a/{name}", f"b/{name}")
            lines = unified(
                (old or "").splitlines(),
                (new or "").splitlines(),
                "/dev/null" if old is None else before,
                "/dev/null" if new is None else after,
            )
            parts += lines
    return "\n".join(parts) + "\n" if parts else ""


@functools.lru_cache(maxsize=256)
def _toml(text: str) -> dict[str, Any]:
    return tomllib.loads(text)


def _read_switches(text: str) -> tuple[dict[str, dict[str, bool]], list[str]]:
    """Switches of harness.toml and what is wrong with it; a wrong entry counts as on."""
    switches: dict[str, dict[str, bool]] = {"layers": {}, "rules": {}}
    try:
        data = _toml(text)
    except (ValueError, RecursionError) as error:
        return switches, [f"not valid TOML: {str(error) or type(error).__name__}"[:200]]
    problems = [
        f"unknown entry {key[:MAX_KEY]!r}; choices: [layers], [rules]" for key in data if key not in switches
    ]
    for table in switches:
        values = data.get(table, {})
        if not isinstance(values, dict):
            problems.append(f"{table} must be a table of name = true or false")
            continue
        for name, on in values.items():
            if table == "layers" and name not in LAYER_FILES:
                problems.append(f"layers: {name[:MAX_KEY]!r} is not one of: {', '.join(LAYER_FILES)}")
            elif not isinstance(on, bool):
                what = repr(on) if isinstance(on, (str, int, float)) else f"a {type(on).__name__}"
                problems.append(f"{table}.{name[:MAX_KEY]} must be true or false, not {what[:MAX_KEY]}")
            else:
                switches[table][name] = on
    return switches, problems


@functools.lru_cache(maxsize=256)
def _top_level(source: str) -> frozenset[str] | None:
    """Names that a module binds at top level, or None when it does not parse."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names.update((alias.asname or alias.name) for alias in node.names)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names.update(target.id for target in targets if isinstance(target, ast.Name))
    return frozenset(names)


def static_problems(harness: Harness) -> list[Problem]:
    """Every breach of the static policy, by file and line; an empty list means the harness may be loaded."""
    problems = [Problem(name, 0, what) for name, what in harness.strays]
    _, wrong = _read_switches(harness.files.get(SWITCHES_FILE, ""))
    problems += [Problem(SWITCHES_FILE, 0, what) for what in wrong]
    for name, source in harness.files.items():
        if name != SWITCHES_FILE:
            problems += source_problems(name, source)
    return problems
