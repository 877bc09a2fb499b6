"""What an import, a store, a folder or a candidate may hold: a typed end, the reason, and nothing else lost."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from damaged_files import CASES, DEEP, TALK, chat

from ecdysis_lab.cli import parser
from ecdysis_lab.failures import collection
from ecdysis_lab.failures.importing import import_traces
from ecdysis_lab.records import to_json
from ecdysis_lab.store import Store


def saved(path: Path, content: Any) -> Path:
    """Content in a file: bytes and text as they are, else as JSON."""
    if not isinstance(content, (bytes, str)):
        content = json.dumps(content)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def seconds(work: Callable[[], object]) -> float:
    """Least wall clock of two tries."""
    times = []
    for _ in range(2):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


# -- imports -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_a_damaged_file_gives_what_is_good_and_names_what_is_not(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content, good, bad = CASES[name]
    file = saved(tmp_path / name, content)
    found = import_traces(file)
    assert len(found.trajectories) == good and len({t.key for t in found.trajectories}) == good
    assert [d.record for d in found.damaged] == [record for record, _, _ in bad]
    for damaged, (_, field, why) in zip(found.damaged, bad, strict=True):
        assert damaged.file == str(file) and field in damaged.field and why in damaged.what
        assert damaged.field and len(damaged.what) < 120
    code = parser.main(["import", str(file), "--data", str(tmp_path / "data")])
    out, err = capsys.readouterr()
    assert "Traceback" not in err and code == (0 if good else 2)
    if good:
        assert out.startswith(f"{good} trajectories imported")
        assert f"{len(bad)} damaged records" in out
        store = Store(tmp_path / "data")
        kept = store.trajectories() + store.infra_errors()
        assert len(kept) == good
        text = "".join(map(to_json, kept))
        assert text.encode() and "\\u0000" not in text and "\\u001b" not in text
    else:
        assert err.startswith(
            f"ecdysis-lab: nothing imported from {file}: {len(bad)} damaged records; {file}, record "
        )


def test_forty_damaged_files_are_tried() -> None:
    assert len(CASES) >= 40


def test_what_is_cleaned_is_said_in_the_record(tmp_path: Path) -> None:
    def content(name: str) -> str:
        (trajectory,) = import_traces(saved(tmp_path / name, CASES[name][0])).trajectories
        return trajectory.messages[0].content or ""

    assert content("surrogate.json") == "x?" and content("content_nul.json") == "a b"
    assert content("content_2_million.json")[-40:] == "x" * 12 + " [… 1000000 more characters]"
    (deep,) = import_traces(saved(tmp_path / "d.json", CASES["deep_text_arguments.json"][0])).trajectories
    assert deep.messages[1].calls[0].arguments == {"_raw": DEEP}
    (digits,) = import_traces(saved(tmp_path / "n.json", CASES["arguments_5000_digits.json"][0])).trajectories
    assert digits.messages[0].calls[0].arguments == {"a": "a number of 5,000 digits"}
    (ident,) = import_traces(saved(tmp_path / "i.json", CASES["control_id.json"][0])).trajectories
    assert ident.trial.task_id == "a b [31m<script>alert(1)</script>"
    cut = import_traces(saved(tmp_path / "c.json", CASES["tau2_cut.json"][0])).trajectories
    assert {t.trial.model for t in cut} == {"m"}


def test_a_folder_with_odd_names_and_unreadable_files(tmp_path: Path) -> None:
    folder = tmp_path / "traces"
    folder.mkdir()
    saved(folder / "a.json", [chat()])
    saved(Path(os.fsdecode(os.fsencode(folder) + b"/b\xff.json")), [chat(task_id="2"), 5])
    (folder / "c.json").mkdir()
    (folder / "d.json").symlink_to(folder / "missing")
    os.mkfifo(folder / "e.json")
    with (folder / "f.json").open("wb") as sparse:
        sparse.truncate(2**31)
    done = collection.take_in(folder, tmp_path / "data")
    assert done.trajectories == 2
    said = collection.report(done)
    assert said.encode() and "b?.json, record 1, record: expected an object, found int" in said
    assert "f.json, record 0, file: 2,147,483,648 bytes; at most 536,870,912 are read" in said
    odd = import_traces(Path(os.fsdecode(os.fsencode(folder) + b"/b\xff.json")))
    assert len(odd.trajectories) == 1
    assert (
        collection.take_in(Path(os.fsdecode(os.fsencode(folder) + b"/b\xff.json")), tmp_path / "data").new
        == 0
    )


def test_the_same_record_many_times_takes_time_as_it_grows(tmp_path: Path) -> None:
    def taken_in(n: int) -> None:
        """Two files that claim the same n trials; then the first once more."""
        data = tmp_path / f"{n}-{time.perf_counter_ns()}"
        file = saved(tmp_path / f"{n}.jsonl", "\n".join([json.dumps(chat())] * n))
        other = saved(tmp_path / "o.jsonl", "\n".join([json.dumps(chat(messages=TALK * 2))] * n))
        assert [collection.take_in(f, data).new for f in (file, other, file)] == [n, n, 0]

    few, many = seconds(lambda: taken_in(200)), seconds(lambda: taken_in(800))
    assert many < 9 * few + 0.5
    file = saved(tmp_path / "same.jsonl", "\n".join([json.dumps(chat())] * 20_000))
    start = time.perf_counter()
    assert len(import_traces(file).trajectories) == 20_000
    assert time.perf_counter() - start < 60  # walking from the first seed each time takes many hours
