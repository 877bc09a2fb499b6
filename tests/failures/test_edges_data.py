"""What an import, a store, a folder or a candidate may hold: a typed end, the reason, and nothing else lost."""

from __future__ import annotations

import csv
import difflib
import io
import json
import os
import sqlite3
import time
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from damaged_files import CASES, DEEP, TALK, chat

import ecdysis_lab
from ecdysis_lab.benchmarks.hidden import named
from ecdysis_lab.benchmarks.tau2.facts import facts_of
from ecdysis_lab.cli import parser
from ecdysis_lab.evaluate.scores import read_scores, scores, write_scores
from ecdysis_lab.failures import collection
from ecdysis_lab.failures.embedding import embedder
from ecdysis_lab.failures.importing import import_traces
from ecdysis_lab.harness.differences import matcher, unified
from ecdysis_lab.harness.source import load_harness, sound_harness, static_problems
from ecdysis_lab.harness.static import source_problems
from ecdysis_lab.records import LabError, Message, Trajectory, Trial, to_json
from ecdysis_lab.show.widgets.diff import TOO_MUCH, diff_html
from ecdysis_lab.store import Run, Store, StoreError
from ecdysis_lab.store.spreadsheet import as_written, to_csv
from ecdysis_lab.train.leak import facts, leaks


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


# -- the store and the run folder ----------------------------------------------------------------------------------

ODD = "x\ud83d\ude00 \udfff y"  # a pair of halves, and half of one


def trial(task: str, **more: Any) -> Trajectory:
    """A scored trajectory."""
    identity = Trial("b", "1", task, "train", "m", "u", "", more.pop("seed", 0))
    return Trajectory(identity, "scored", 0.0, "user_stop", {}, (Message("user", "hi"),), **more)


def test_halves_of_surrogates_are_written_as_characters_or_replaced(tmp_path: Path) -> None:
    run = Run.open(tmp_path, "r", {"model": ODD})
    assert run.config == {"model": "x😀 ? y"}
    assert Run.open(tmp_path, "r", {"model": ODD}).config == run.config
    run.append_ledger({"what": ODD})
    assert run.ledger() == [{"what": "x😀 ? y"}]
    run.write_status("failed", error=ODD)
    assert run.status["error"] == "x😀 ? y"
    run.round("ecdysis", 1).context = ODD
    assert run.round("ecdysis", 1).context == "x😀 ? y"
    store = Store(tmp_path)
    odd = replace(trial(ODD), messages=(Message("user", ODD),), truth={"cause": ODD}, error=ODD)
    assert store.put(odd) and store.have([odd.key]) == {odd.key}
    assert store.get(odd.key, with_truth=True).messages[0].content == "x😀 ? y"  # type: ignore[union-attr]
    store.put(replace(odd, status="infra_error"))
    assert store.infra_errors()[0].error == "x😀 ? y"


@pytest.mark.parametrize(
    "body",
    [
        b"", b"no zlib", zlib.compress(b"{cut"), zlib.compress(b"[1]"), zlib.compress(b"5"), zlib.compress(b"{}"),
        zlib.compress(b"[" * 20_000), zlib.compress(b'{"trial": [1]}'), zlib.compress(b'{"trial": {"task": 1}}'),
        zlib.compress(b'{"status":"scored","score":0,"termination":"x","checks":{},"messages":[5],"trial":null}'),
        zlib.compress(b"9" * 5000), zlib.compress(b"\xff\xfe\x00"), "text", 7,
    ],
)  # fmt: skip
def test_a_damaged_body_counts_as_not_run_and_breaks_no_other(body: Any, tmp_path: Path) -> None:
    store, mine = Store(tmp_path), [trial(str(n)) for n in range(3)]
    for trajectory in mine:
        store.put(trajectory)
        store.put(replace(trajectory, status="infra_error", score=None))
    keys = [t.key for t in mine]
    with sqlite3.connect(store.path) as connection:
        connection.execute("UPDATE trials SET body = ? WHERE key = ?", (body, keys[1]))
        connection.execute("UPDATE truth SET body = ? WHERE key = ?", (body, keys[0]))
        connection.execute("UPDATE infra_errors SET body = ? WHERE key = ?", (body, keys[1]))
    again = Store(tmp_path)
    with pytest.warns(UserWarning, match=f"trial {keys[1]} is damaged and counts as not run"):
        assert again.have(keys) == {keys[0], keys[2]}
    assert again.damaged() == [keys[1]] and again.keys() == {keys[0], keys[2]} and again.get(keys[1]) is None
    assert (
        [t.key for t in again.trajectories(keys)]
        == [t.key for t in again.trajectories()]
        == [keys[0], keys[2]]
    )
    assert again.get(keys[0], with_truth=True) is not None
    with pytest.warns(UserWarning, match="infrastructure error 2 is damaged"):
        assert len(again.infra_errors()) == 2
    found = import_traces(tmp_path)
    assert len(found.trajectories) == 2 and [d.field for d in found.damaged] == [f"trial {keys[1]}"]
    assert again.put(mine[1]) and Store(tmp_path).have(keys) == set(keys)


def test_a_damaged_body_is_said_wherever_it_is_met_first(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for n in range(2):
        store.put(trial(str(n)))
    with sqlite3.connect(store.path) as connection:
        connection.execute("UPDATE trials SET body = 'x' WHERE task_id = '0'")
    with pytest.warns(UserWarning, match="damaged"):
        assert [t.trial.task_id for t in store.trajectories()] == ["1"]


@pytest.mark.parametrize(
    "content",
    [b"[1]", b"5", b'"x"', b"[" * 20_000, b"9" * 5000, b"\xff\xfe", b"{cut", b'{"harness": ', b"[{}]"],
)
def test_a_damaged_file_of_a_run_is_one_sentence(content: bytes, tmp_path: Path) -> None:
    run = Run.open(tmp_path, "r", {"model": "m"})
    place = run.round("ecdysis", 1)
    candidate = place.candidate_path(0)
    names = ("config.json", "summary.json", "wall.json", "frozen-ecdysis.json", "status.json", "ledger.jsonl")
    there = ("failures.json", "patterns.json", "subset.json", "review.json", "record.json", "debate.json", "candidate-0.json", "context.md")  # fmt: skip
    for name in (*names, *(f"{place.place}/{name}" for name in there)):
        run.path(name).write_bytes(content + b"\n")
    reads: list[Callable[[], object]] = [
        lambda: run.config, lambda: run.summary, lambda: run.wall, lambda: run.frozen("ecdysis"), run.ledger,
        lambda: Run.open(tmp_path, "r", {"model": "m"}), lambda: place.failures, lambda: place.patterns,
        lambda: place.review, lambda: place.record, place.debate, lambda: place.made(candidate),
    ]  # fmt: skip
    for read in reads:
        with pytest.raises(StoreError, match=str(run.folder)) as told:
            read()
        assert "\n" not in str(told.value)
    assert run.status == {"state": "missing"}
    assert place.context.encode() is not None


def test_odd_texts_are_embedded() -> None:
    odd = ["", " ", ODD, "\x00\x1b[31m", "\u202e\u200b", "no-" * 100_000, "9" * 5000, "\n".join("ab")]
    for name in ("tfidf", "auto"):
        vectors, share = embedder(name).encode(odd)
        assert vectors.shape[0] == len(odd) and np.isfinite(vectors).all() and 0 < share <= 1


# -- the files of a harness ----------------------------------------------------------------------------------------


def switches(folder: Path, content: bytes, sparse: int = 0) -> list[str]:
    """What is said of a harness with this harness.toml, which must take little time and be short."""
    folder.mkdir(exist_ok=True)
    (folder / "actions.py").write_text("X = 1\n")
    (folder / "harness.toml").write_bytes(content)
    if sparse:
        with (folder / "harness.toml").open("ab") as file:
            file.truncate(sparse)
    start = time.perf_counter()
    said = [str(problem) for problem in static_problems(load_harness(folder))]
    assert time.perf_counter() - start < 5 and all(len(line) < 300 for line in said)
    return said


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"[rules]\na = " + b"9" * 5000, "not valid TOML"),
        (b"[rules]\n" + b".".join([b"a"] * 3000) + b" = true", "must be true or false, not a dict"),
        (b"[rules]\n" + b".".join([b"a"] * 8000) + b" = true", "must be true or false, not a dict"),
        (b"[rules]\n" + b".".join([b"a"] * 20_000) + b" = true", "at most 16,384 are read"),
        (b"[" + b".".join([b"a"] * 3000) + b"]", "unknown entry 'a'"),
        (b"a = " + b"[" * 8000, "not valid TOML"),
        (b"x" * 9000 + b" = 1", "unknown entry 'xxxx"),
        (b"[rules]\nx = '" + b"y" * 9000 + b"'", "rules.x must be true or false, not 'yyyy"),
        (b"[rules]\nx = nan", "rules.x must be true or false, not nan"),
        (b"[rules]\nx = 1979-05-27", "rules.x must be true or false, not a date"),
        (b"\xff\xfe", "not valid TOML"),
        (b"rules = 1\nlayers = [1]", "rules must be a table"),
    ],
)
def test_a_bad_switch_file_is_one_sentence(content: bytes, why: str, tmp_path: Path) -> None:
    said = switches(tmp_path / "h", content)
    assert any(line.startswith("harness.toml:0: ") and why in line for line in said), said
    with pytest.raises(LabError, match=r"harness\.toml"):
        sound_harness(tmp_path / "h")


@pytest.mark.parametrize("name", ["harness.toml", "actions.py"])
def test_sizes_are_looked_at_before_reading(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "h"
    folder.mkdir()
    (folder / "regulation.py").write_text("X = 1\n")
    with (folder / name).open("wb") as file:
        file.truncate(2**31)
    start = time.perf_counter()
    with pytest.raises(
        LabError, match=rf"{name}:0: has 2,147,483,648 bytes, at most [0-9,]+ are read; it is not loaded"
    ):
        sound_harness(folder)
    assert time.perf_counter() - start < 2
    assert name not in load_harness(folder).files


def test_a_folder_of_a_harness_may_hold_any_name(tmp_path: Path) -> None:
    folder = tmp_path / "h"
    folder.mkdir()
    (folder / "actions.py").write_text("X = 1\n")
    Path(os.fsdecode(os.fsencode(folder) + b"/odd\xff.py")).write_text("X = 1\n")
    (said,) = map(str, static_problems(load_harness(folder)))
    assert said.encode() and said.startswith("odd?.py:0: is never loaded")


def test_many_constants_are_read_in_time_that_grows_with_their_number() -> None:
    few, many = (seconds(lambda n=n: source_problems("actions.py", "\n".join(f"a{i} = {n}" for i in range(n)))) for n in (2000, 8000))  # fmt: skip
    assert many < 9 * few + 0.5


# -- differences ---------------------------------------------------------------------------------------------------

LINES = {
    "two lines in turn": (["a", "b"] * 15_000, ["b", "a", "a"] * 10_000),
    "a hundred lines": (
        [f"{i * i % 101}" for i in range(30_000)],
        [f"{i * i * i % 101}" for i in range(30_000)],
    ),
    "all alike": (["a"] * 30_000, ["a"] * 29_999 + ["b"]),
    "all different": ([f"{i}" for i in range(30_000)], [f"{-i}" for i in range(30_000)]),
    "one line": (["ab" * 60_000], ["a b" * 40_000]),
    "one line of words": (["a b " * 30_000], ["b a a " * 20_000]),
    "many long lines": (["a b " * 100] * 600, ["b a c " * 100] * 600),
}


@pytest.mark.parametrize("name", LINES)
def test_a_difference_of_many_lines_ends(name: str) -> None:
    left, right = LINES[name]
    start = time.perf_counter()
    lines = list(unified(left, right, "a/x", "b/x"))
    page = diff_html({"x": "\n".join(left)}, {"x": "\n".join(right)})
    assert time.perf_counter() - start < 30
    made = [line[1:] for line in lines[2:] if line[0] in " +" and not line.startswith("@@")]
    changed = [i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b]
    assert {right[i] for i in changed} <= set(made) and page.startswith('<div class="el-diff">')
    assert (TOO_MUCH in page) == (name in ("two lines in turn", "a hundred lines", "all alike"))


def test_a_difference_of_few_lines_is_as_it_was() -> None:
    left = ["a", "", "b", "", "c", *"xyz" * 9]
    right = ["a", "", "", "d", "b", *"xzy" * 9]
    wanted = list(difflib.unified_diff(left, right, "a/x", "b/x", lineterm=""))
    assert list(unified(left, right, "a/x", "b/x")) == wanted
    assert (
        matcher(left, right).get_opcodes() == difflib.SequenceMatcher(None, left, right, False).get_opcodes()
    )
    many = ["s"] * 1000
    whole = list(unified(["h", *many, "t"], ["h", *many, "new", "t"], "a/x", "b/x"))
    assert whole == ["--- a/x", "+++ b/x", "@@ -999,4 +999,5 @@", " s", " s", " s", "+new", " t"]


# -- leaks ---------------------------------------------------------------------------------------------------------

FACTS = {
    "W1234567": "order id",
    "sara_doe_4967": "user id",
    "sara doe": "full name",
    "Sara": "person",
    "Kovacs": "person",
    "gift_card_7654321": "payment id",
    "1286.5": "amount",
    "643": "amount",
    "17": "task id",
    "9523456873": "item or product id",
    "2024-05-20": "date",
}
SPELLINGS = {
    "joined by plus": ('X = "W123" + "4567"', "W1234567"),
    "side by side": ('X = "W123" "4567"', "W1234567"),
    "escapes": (r'X = "\x57\u0031234567"', "W1234567"),
    "f-string": ('X = f"W{1234567}"', "W1234567"),
    "f-string of names": ('A = "sara"\nB = 4967\nX = f"{A}_doe_{B:04d}"', "sara_doe_4967"),
    "join": ('X = "_".join(["sara", "doe", "4967"])', "sara_doe_4967"),
    "join of reversed": ('X = "".join(reversed("7654321W"))', "W1234567"),
    "backwards slice": ('X = "7694_eod_aras"[::-1]', "sara_doe_4967"),
    "every second": ('X = "W-1-2-3-4-5-6-7"[::2]', "W1234567"),
    "chr": ("X = ''.join(chr(c) for c in [75, 111, 118, 97, 99, 115])", "Kovacs"),
    "map chr": ("X = ''.join(map(chr, (75, 111, 118, 97, 99, 115)))", "Kovacs"),
    "shifted": ("X = ''.join(chr(ord(c) - 1) for c in 'Lpwbdt')", "Kovacs"),
    "bytes": ("X = bytes.fromhex('4b6f76616373').decode()", "Kovacs"),
    "replace": ("X = 'KoXacs'.replace('X', 'v')", "Kovacs"),
    "percent": ("X = 'W%07d' % 1234567", "W1234567"),
    "format": ("X = '{}{}'.format('W', 1234567)", "W1234567"),
    "arithmetic": ("def f(price):\n    return price == 600 + 43", "643"),
    "cents": ("total = 128650 / 100", "1286.5"),
    "sum of a hash": ("X = 9_500_000_000 + 23_456_873", "9523456873"),
    "regex with a dot": ("import re\ndef f(u):\n    return re.match(r'sara.doe.4.67', u)", "sara_doe_4967"),
    "regex with classes": ("import re\ndef f(u):\n    return re.search('[Ww]12345[6]7', u)", "W1234567"),
    "part of a sum": ("def f(x):\n    return x + 'W123' + '4567'", "W1234567"),
    "separators": ("# see order W-123-45 67", "W1234567"),
    "the digits alone": ("def f(o):\n    return o.endswith('1234567')", "W1234567"),
    "hex": ("X = 0x237a46b69", "9523456873"),
    "ternary": ("X = 'Kov' + ('acs' if 1 == 1 else 'ar')", "Kovacs"),
    "task id": ("def f(task_id):\n    return task_id == '1' + '7'", "17"),
    "zero-width": ("# K\u200bovacs wants it", "Kovacs"),
    "homoglyph": ("# K\u043evacs wants it", "Kovacs"),
    "fullwidth": ("# \uff37\uff11\uff12\uff13\uff14\uff15\uff16\uff17", "W1234567"),
    "dictionary": ("X = {'a': 'W123'}['a'] + '4567'", "W1234567"),
    "translated": ("X = 'K0v4cs'.translate(str.maketrans('04', 'oa'))", "Kovacs"),
    "in another file's name": ("PARTS = ['W12', '345', '67']\nX = ''.join(PARTS)", "W1234567"),
}
LEGAL = {
    "rule": "def check(call, view):\n    if call.name == 'cancel_order' and not view.confirmed:\n        return refuse('Ask first.')",
    "day": "SECONDS = 24 * 60 * 60",
    "limits": "MAX_PASSENGERS = 5\nBAG = 50\nFEE = 30 + 20",
    "text": "TEXT = 'Ask for ' + 'the order id' + ' first.'",
    "format": "def f(n):\n    return f'Found {n} orders, e.g. #W0000000.'",
    "regex of a form": "import re\nORDER = re.compile(r'#W\\d{7}')",
    "regex of ids": "import re\nUSER = re.compile(r'[a-z]+_[a-z]+_\\d{4}')",
    "regex of anything": "import re\ndef f(t):\n    return re.search(r'.*(order|item).{0,7}', t)",
    "wildcards": "import re\ndef f(t):\n    return re.fullmatch('........', t)",
    "accents": "TEXT = 'Señor Müller wants naïve café fare, 20 °C — ½ price…'",
    "cyrillic": "TEXT = 'Привет, заказ отменён'",
    "greek": "TEXT = 'Καλημέρα'",
    "chinese": "TEXT = '您的订单已取消'",
    "emoji": "TEXT = 'Done ✔\ufe0f 👨\u200d👩\u200d👧'",
    "persian": "TEXT = 'می\u200cخواهم'",
    "micro": "UNIT = '5 µm, Δt, 1ª, x², №'",
    "clean": "def f(t):\n    return t.replace('\\u200b', '').replace('\\ufeff', '')",
    "letters": "import string\nLETTERS = string.ascii_uppercase + string.digits",
    "table": "KINDS = {'economy': 1, 'business': 2}\nNAMES = sorted(KINDS)",
    "steps": "STEPS = [f'{n}. step' for n in range(1, 9)]",
    "dates": "EXAMPLE = '2024-05-' + '20'",
    "words": "WORDS = ' '.join(['no', 'yes', 'later'])",
    "task": "# This task needs 17 checks of the tasks' state",
    "numbers": "LIMITS = (12, 345, 67, 95, 23, 456, 873)",
}


def change(text: str, file: str = "actions.py") -> str:
    """A diff that adds these lines."""
    return "\n".join(
        [f"--- a/{file}", f"+++ b/{file}", "@@ -0,0 +1 @@", *("+" + line for line in text.split("\n"))]
    )


def test_a_fact_is_found_however_it_is_spelled() -> None:
    missed = {
        name
        for name, (text, fact) in SPELLINGS.items()
        for found in (leaks(change(text), FACTS), leaks(change(text), FACTS, {}, {"actions.py": text}))
        if f"{FACTS[fact]}: {fact}" not in found
    }
    assert missed == set() and len(SPELLINGS) >= 20


def test_legal_texts_are_not_flagged() -> None:
    found = {name: leaks(change(text), FACTS, {}, {"actions.py": text}) for name, text in LEGAL.items()}
    assert {name: said for name, said in found.items() if said} == {} and len(LEGAL) >= 20


def test_only_what_is_new_counts_and_an_old_name_may_lead_to_it() -> None:
    old = "A = 'W123'\nX = A + 'x'\nY = 'Kov' + 'acs'"
    new = old.replace("'x'", "'4567'")
    assert leaks(change("X = A + '4567'"), FACTS, {"actions.py": old}, {"actions.py": new}) == [
        "order id: W1234567"
    ]


@pytest.mark.parametrize("char", ["\u200b", "\u200d", "\u202e", "\u2066", "\U000e0041", "\u00ad", "\ufeff", "\u3164", "\x08", "\ufe0f", "\u2062"])  # fmt: skip
def test_hidden_characters_are_findings_and_are_shown(char: str) -> None:
    text = f"# a rule{char}book"
    said = named(char)
    assert leaks(change(text), {}) == [f"hidden character {said}"]
    page = diff_html({"actions.py": "# old"}, {"actions.py": text})
    assert char not in page and f"U+{ord(char):04X}" in page and said in page


def test_look_alikes_are_findings_and_are_shown() -> None:
    text = "# the \u0440assenger"
    assert leaks(change(text), {}) == ["look-alike letter U+0440 CYRILLIC SMALL LETTER ER"]
    page = diff_html({"actions.py": "# the passenger"}, {"actions.py": text})
    assert "U+0440 CYRILLIC SMALL LETTER ER" in page
    assert "U+0" not in diff_html({"a.py": "x"}, {"a.py": "Привет, café"})


@pytest.mark.parametrize(
    "text",
    [
        "X = 'a' * 10**9", "X = 9 ** 9 ** 9", "X = [[0] * 9999] * 9999", "X = '%999999999d' % 1", "X = f'{1:99999999}'",
        "X = '{:{}}'.format(1, 10**9)", "X = 1 << 10**9", "X = list(range(10**12))", "X = bytes(10**10)",
        "X = [a + b for a in [c for c in range(9999)] for b in [1]]", "X = 'x'.zfill(10**9)",
        "X = " + "+".join(["'a'"] * 20_000), "X = " + "(" * 150 + "1" + ")" * 150, "X = " + "-" * 3000 + "1",
        "\n".join(f"A{i + 1} = A{i} + A{i}" for i in range(2000)) + "\nA0 = 'xy'",
        "X = [sum([c for c in range(9999)]) for d in range(9999)]", "X = ''.join(['x' * 9999] * 9999)",
        "X = ('x' * 9999).replace('x', 'y' * 9999)", "X = 'x'.join('y' * 9999)", "A = B\nB = A", "X = \ud800",
    ],
)  # fmt: skip
def test_folding_ends(text: str) -> None:
    start = time.perf_counter()
    found = leaks(change(text), FACTS, {}, {"actions.py": text})
    assert time.perf_counter() - start < 10 and all(f.startswith(("constant expr", "hidden")) for f in found)


def test_facts_of_a_long_message_take_time_as_it_grows() -> None:
    forms = {
        "no-": "no-", "no.": "no.", "digits": "1", "digits a": "1", "dots": "1.", "mail": "a@", "capitals": "A1", "letters": "a",
        "tasks": "task ", "money": "$1,", "dates": "jan ", "brackets": "[",
    }  # fmt: skip

    def work(unit: str, n: int) -> None:
        text = unit * n + "a"
        told = Trajectory(
            Trial("b", "1", "99", "train", "m", "u", "", 0), "scored", 0.0, "x", {}, (Message("user", text),)
        )
        leaks(change("X = 1"), facts([told], "policy", Told()))  # type: ignore[arg-type]
        leaks(change(text), FACTS)

    for name, unit in forms.items():
        few, many = seconds(lambda unit=unit: work(unit, 5000)), seconds(lambda unit=unit: work(unit, 20_000))
        assert many < 9 * few + 1.0, (name, few, many)


class Told:
    """The part of a benchmark that the leak facts ask."""

    def facts(self, task_id: str, seen: Any) -> dict[str, str]:
        return facts_of(seen)


# -- CSV -----------------------------------------------------------------------------------------------------------

RUN = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "'quoted"]
CALM = ["a=1", "", "-5", "+0.25", "x@y", " a"]


def test_cells_that_a_spreadsheet_would_run_are_quoted() -> None:
    frame = pd.DataFrame({"=head": [*RUN, *CALM], "n": [-1.5] * 13, "kind": pd.Categorical([*RUN, *CALM])})
    rows = list(csv.DictReader(io.StringIO(to_csv(frame), newline="")))
    plain = [cell.replace("\r", " ") for cell in RUN]
    for column in ("'=head", "kind"):
        assert [row[column] for row in rows] == [*("'" + cell for cell in plain), *CALM]
        assert [as_written(row[column]) for row in rows] == [*plain, *CALM]
    assert {row["n"] for row in rows} == {"-1.5"} and list(frame) == ["=head", "n", "kind"]


def test_the_scores_of_a_run_read_back_as_they_were(tmp_path: Path) -> None:
    run = Run.open(tmp_path, "r", {"model": "m"})
    table = scores([trial(name) for name in RUN if "\r" not in name], arm="=arm", run="r")
    write_scores(run, table)
    text = (run.folder / "scores.csv").read_text(encoding="utf-8")
    assert "'=1+1" in text and ",=" not in text
    pd.testing.assert_frame_equal(read_scores(run), table)


def test_no_csv_is_written_without_quoting() -> None:
    package = Path(ecdysis_lab.__file__).parent
    bare = {p.name for p in package.rglob("*.py") if ".to_csv(" in p.read_text(encoding="utf-8")}
    assert bare == {"spreadsheet.py"}
