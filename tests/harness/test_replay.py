"""A recorded trajectory through a harness: silent where nothing changes, loud where a call would."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("tau2")

from openai_server import OpenAIServer, Reply, raw_call, text
from simlab import bench, folder, passing, trials

from ecdysis_lab.harness import load_harness, switch_harness
from ecdysis_lab.harness.replay import Replay, replay
from ecdysis_lab.harness.rollout import Setup, run_trial
from ecdysis_lab.harness.source import Harness
from ecdysis_lab.hooks.verdicts import REFUSED
from ecdysis_lab.models import ModelParams
from ecdysis_lab.records import Trajectory

HOOKS = "from ecdysis_lab.hooks import Allow, Call, Realize, Refuse, Rewrite\n\n\n"
REFUSE_READS = HOOKS + (
    "def check(call, view):\n"
    "    if call.name == 'get_reservation_details':\n"
    "        return Refuse('No reading.', 'Ask the user.', 'no_reads')\n"
    "    return Allow()\n"
)
STOP_REPLIES = HOOKS + "def on_reply(text, view):\n    return Refuse('Say less.', 'Make a call.', 'quiet')\n"
SIGN_REPLIES = (
    HOOKS + "def on_reply(text, view):\n    return Rewrite(text=text + ' Thank you.', rule='polite')\n"
)
UPPER_IDS = HOOKS + (
    "def check(call, view):\n"
    "    old = call.arguments.get('reservation_id')\n"
    "    if isinstance(old, str) and old != old.strip('#').upper():\n"
    "        return Rewrite({**call.arguments, 'reservation_id': old.strip('#').upper()}, rule='id')\n"
    "    return Allow()\n"
)


def through(trajectory: Trajectory, loaded: Harness) -> Replay:
    return replay(trajectory, loaded, bench())


def run(model: str, loaded: Harness, n: int = 3, steps: int = 100) -> list[Trajectory]:
    setup = Setup("tau2/airline", model, max_steps=steps)
    return [run_trial(setup, task, loaded.path, 0) for task in bench().tasks("train", n, 0)]


def quiet(trajectory: Trajectory, loaded: Harness) -> None:
    found = through(trajectory, loaded)
    assert found.differences == ()
    assert found.faults == ()
    assert found.unchanged and not found.other_text
    assert found.calls == sum(m.role == "tool" for m in trajectory.messages)


# -- its own harness ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", ["empty", "airline", "airline without advice"])
def test_under_its_own_harness_nothing_changes(start: str, tmp_path: Path) -> None:
    """Without contract and skills the slips come out, and the rules have more to do."""
    loaded = load_harness(start.split()[0])
    if "without" in start:
        loaded = switch_harness(loaded, tmp_path / "h", layers={"contract": False, "skills": False})
    acts: Counter[str] = Counter()
    calls = errors = 0
    for trajectory in trials("airline", "sim/small", str(loaded.path), 20):
        quiet(trajectory, loaded)
        acts.update(i.action for i in trajectory.interventions)
        calls += through(trajectory, loaded).calls
        errors += sum(m.error for m in trajectory.messages)
    assert calls > 50
    if start == "empty":
        assert (errors > 3, acts) == (True, Counter())
    else:
        assert acts["rewrite"] > 1
        assert acts["refuse"] > 1 or start == "airline"


@pytest.mark.parametrize("source", [STOP_REPLIES, SIGN_REPLIES], ids=["given way", "reply rewritten"])
def test_replies_under_their_own_harness(source: str, tmp_path: Path) -> None:
    """A reply that went through after three refusals, and one that was sent in other words."""
    loaded = folder(tmp_path / "h", regulation=source)
    made = run("sim/flawless", loaded)
    acts = Counter(i.action for t in made for i in t.interventions)
    assert acts["pass_through" if source == STOP_REPLIES else "rewrite"] > 3
    for trajectory in made:
        quiet(trajectory, loaded)


def test_calls_rewritten_and_rejected_under_their_own_harness(tmp_path: Path) -> None:
    """The environment rejects the canonical form as well: nothing new for the same harness."""
    loaded = folder(tmp_path / "h", actions=UPPER_IDS)
    said = [
        raw_call("get_reservation_details", '{"reservation_id": "#nosuch"}'),
        text("There is no such booking."),
    ]
    (trajectory,) = scripted(said, loaded)
    assert [m.error for m in trajectory.messages if m.role == "tool"] == [True]
    assert [i.action for i in trajectory.interventions] == ["rewrite"]
    quiet(trajectory, loaded)


def scripted(replies: list[Reply], loaded: Harness) -> list[Trajectory]:
    """Trials of a scripted model over HTTP, with the simulated user."""
    with OpenAIServer(replies, default=text("Can I do anything else for you?")) as server:
        params = ModelParams(api_base=server.url)
        setup = Setup("tau2/airline", "openai/x", params=params, max_steps=12)
        return [run_trial(setup, task, loaded.path, 0) for task in bench().tasks("train", 1, 0)]


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")


def test_two_calls_in_one_message_and_malformed_ones(tmp_path: Path, key: None) -> None:
    """One of two calls refused: neither runs. Arguments that are no JSON reach no hook."""
    loaded = folder(
        tmp_path / "h", actions=REFUSE_READS, regulation=STOP_REPLIES.replace("Refuse(", "Allow() or (")
    )
    pair = Reply(calls=(("get_user_details", '{"user_id": "mia_li_3668"}'),
                        ("get_reservation_details", '{"reservation_id": "NM1VX1"}')))  # fmt: skip
    single = Reply(calls=pair.calls[:1])
    broken = raw_call("get_user_details", "{user_id: mia")
    (trajectory,) = scripted([broken, pair, single, text("Hello.")], loaded)
    texts = [m.content or "" for m in trajectory.context]
    assert sum(t.startswith(REFUSED) for t in texts) == 2
    assert sum(t.startswith("[system]") for t in texts) == 1
    assert sum(m.role == "tool" for m in trajectory.messages) == 1
    quiet(trajectory, loaded)
    found = through(trajectory, load_harness("empty"))
    assert found.differences == ()
    assert not found.unchanged


# -- another harness ----------------------------------------------------------------------------------------------


def test_a_refused_read_is_shown_with_its_step(tmp_path: Path) -> None:
    loaded = folder(tmp_path / "h", actions=REFUSE_READS)
    seen = 0
    for trajectory in passing():
        found = through(trajectory, loaded)
        reads = [
            (n, c)
            for n, m in enumerate(trajectory.context)
            for c in m.calls
            if c.name == "get_reservation_details"
        ]
        assert [(d.step, d.what, d.rule) for d in found.differences] == [
            (n, "refused", "no_reads") for n, _ in reads
        ]
        for difference, (_, act) in zip(found.differences, reads, strict=True):
            assert difference.act == f"get_reservation_details {json.dumps(act.arguments)}"
            assert difference.reason == "No reading. Ask the user."
        assert found.unchanged == (not reads)
        seen += len(reads)
    assert seen > 5


def test_an_altered_argument_is_shown(tmp_path: Path) -> None:
    lower = UPPER_IDS.replace(".strip('#').upper()", ".lower()")
    found = [through(t, folder(tmp_path / f"h{n}", actions=lower)) for n, t in enumerate(passing()[:4])]
    shown = [d for f in found for d in f.differences]
    assert shown
    assert {(d.what, d.rule) for d in shown} == {("altered", "id")}
    assert all(d.act.split()[0] in d.act and " → " in d.reason for d in shown)


def test_a_dropped_rewrite_is_an_alteration(tmp_path: Path) -> None:
    """What the old harness put right would reach the environment as the model wrote it."""
    human = [t for t in trials("airline", "sim/small", "airline", 20) if t.success]
    fixed = [t for t in human if any(i.action == "rewrite" for i in t.interventions)]
    assert fixed
    for trajectory in fixed:
        found = through(trajectory, load_harness("empty"))
        rewrites = [i for i in trajectory.interventions if i.action == "rewrite"]
        assert len(found.differences) == len(rewrites)
        assert {d.what for d in found.differences} == {"altered"}


def test_replies_that_would_be_stopped_or_reworded(tmp_path: Path) -> None:
    trajectory = passing()[0]
    replies = [m for m in trajectory.context[1:] if m.role == "assistant" and not m.calls]
    stopped = through(trajectory, folder(tmp_path / "a", regulation=STOP_REPLIES))
    reworded = through(trajectory, folder(tmp_path / "b", regulation=SIGN_REPLIES))
    assert [d.what for d in stopped.differences] == ["refused"] * len(replies)
    assert [d.what for d in reworded.differences] == ["altered"] * len(replies)
    assert stopped.differences[0].act == f"reply: {replies[0].content[:120]}"


REALIZED = HOOKS + (
    "def on_reply(text, view):\n"
    "    name, _, user = text.partition(' of ')\n"
    "    return Realize((Call(name, {'user_id': user}),), 'written') if user else Allow()\n"
)


def test_a_realized_call_must_stay_one(tmp_path: Path, key: None) -> None:
    """Quiet under its own harness; refused where the text stays a text, is stopped, or means another call."""
    own = folder(tmp_path / "own", regulation=REALIZED)
    (made,) = scripted([text("get_user_details of mia_li_3668")], own)
    assert [i.action for i in made.interventions] == ["realize"]
    assert any(m.calls and m.content for m in made.messages)
    quiet(made, own)
    act = 'get_user_details {"user_id": "mia_li_3668"}'
    for name, source in (
        ("text", HOOKS + "def on_reply(text, view):\n    return Allow()\n"),
        ("stopped", STOP_REPLIES.replace("return", "return Allow() if ' of ' not in text else")),
        ("other", REALIZED.replace("'user_id': user", "'user_id': user + '1'")),
    ):
        found = through(made, folder(tmp_path / name, regulation=source))
        assert [(d.what, d.act) for d in found.differences] == [("refused", act)], name
        assert not found.unchanged
    checked = HOOKS + "def check(call, view):\n    return Refuse('No reading.', 'Ask.', 'no_reads')\n"
    (refused,) = through(made, folder(tmp_path / "both", regulation=REALIZED, actions=checked)).differences
    assert (refused.what, refused.rule) == ("refused", "no_reads")


def test_a_reply_that_would_become_a_call_is_altered(tmp_path: Path, key: None) -> None:
    (made,) = scripted([text("get_user_details of mia_li_3668")], load_harness("empty"))
    (found,) = through(made, folder(tmp_path / "h", regulation=REALIZED)).differences
    assert found.what == "altered" and found.reason.startswith("realized as get_user_details {")


def test_a_call_that_the_environment_rejected_may_change(tmp_path: Path) -> None:
    made = trials("airline", "sim/small", "empty", 20)
    bad = {(t.key, m.call_id) for t in made for m in t.messages if m.error}
    wrong = [(t, c) for t in made for m in t.messages for c in m.calls if (t.key, c.id) in bad]
    assert len(wrong) >= 2
    for n, (trajectory, act) in enumerate(wrong[:4]):
        only = (
            HOOKS
            + f"def check(call, view):\n    if (call.name, call.arguments) == ({act.name!r}, {act.arguments!r}):\n"
            "        return Refuse('It fails.', 'Try another.', 'fails')\n    return Allow()\n"
        )
        found = through(trajectory, folder(tmp_path / f"h{n}", actions=only))
        assert found.differences == ()
        assert not found.unchanged


@pytest.mark.parametrize(
    "layer, source",
    [
        (
            "contract",
            "def describe(tool):\n    return {**tool, 'description': tool['description'] + ' Careful.'}\n",
        ),
        ("skills", "def brief(opening, policy):\n    return 'Be careful.'\n"),
        ("regulation", "def observe(call, result, view):\n    return 'Be careful.'\n"),
    ],
)
def test_another_text_is_no_difference_but_a_change(layer: str, source: str, tmp_path: Path) -> None:
    loaded = folder(tmp_path / "h", **{layer: source})
    found = through(passing()[0], loaded)
    assert (found.differences, found.faults, found.unchanged) == ((), (), False)


def test_a_harness_that_never_speaks_changes_nothing(tmp_path: Path) -> None:
    loaded = folder(tmp_path / "h", actions=HOOKS + "def check(call, view):\n    return Allow()\n")
    for trajectory in passing()[:4]:
        quiet(trajectory, loaded)


def test_a_hook_that_breaks_is_told(tmp_path: Path) -> None:
    loaded = folder(
        tmp_path / "h", actions="def check(call, view):\n    return 1 / (call.name == 'get_user_details')\n"
    )
    found = through(passing()[0], loaded)
    assert found.faults
    assert not found.unchanged
    assert found.faults[0].hook == "check"


def test_the_hooks_see_the_live_environment_as_it_was(tmp_path: Path) -> None:
    """A hook that reads the record before each write finds what the trial found there."""
    source = HOOKS + (
        "def observe(call, result, view):\n"
        "    if view.kind(call.name) != 'read' or not call.name.startswith('get_'):\n        return None\n"
        "    import json\n"
        "    return None if view.read(call.name, **call.arguments) == json.loads(result) else 'It differs.'\n"
    )
    source = "import json\n" + source.replace("    import json\n", "")
    loaded = folder(tmp_path / "h", regulation=source)
    for trajectory in passing():
        found = through(trajectory, loaded)
        assert found.faults == ()
        assert found.unchanged, found
