"""Failures, outlines, the first thing that went wrong, and evidence cards."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from ecdysis_lab.failures.cards import find_failures, outline, path_of, to_failure
from ecdysis_lab.failures.first_bad import first_bad
from ecdysis_lab.hooks import Call
from ecdysis_lab.records import Intervention, LabError, Message, Trajectory, Trial

ASKED = Message("user", "Please cancel W123")
YES = Message("user", "Yes, I confirm.")
BYE = Message("user", "thanks ###STOP###")


def call(name: str, error: bool = False, result: str = '{"id": 1}', **arguments: Any) -> list[Message]:
    """A call and its result."""
    number = f"c{abs(hash((name, str(arguments)))) % 10**6}"
    return [
        Message("assistant", None, (Call(name, arguments, number),)),
        Message("tool", result, (), number, name, error),
    ]


def trajectory(messages: list[Message], score: float | None = 0.0, **more: Any) -> Trajectory:
    """A scored trial of one task."""
    fields: dict[str, Any] = {"status": "scored", "termination": "user_stop", "checks": {"db": False}}
    fields.update(more)
    trial = Trial(
        "tau2/retail", "1", fields.pop("task", "task-77"), "train", "m", "u", "h", fields.pop("seed", 0)
    )
    return Trajectory(trial, score=score, messages=tuple(messages), **fields)


def test_outline_lines_are_exact_and_arguments_complete() -> None:
    long = "x" * 5000
    messages = [
        Message("system", "POLICY"),
        Message("user", "hi\nthere"),
        Message("assistant", "Let me look.", (Call("get_a", {"b": 2, "a": long}), Call("get_b", {}))),
        Message("tool", "line\n\x1b[31mred\x1b[0m <b>bold</b>", (), "", "get_a"),
        Message("tool", "Error: Order not found", (), "", "get_b", True),
    ]
    lines = outline(messages, limit_chars=30)
    assert lines == [
        "[1] user: hi there",
        "[2] assistant: Let me look.",
        f'[2] call get_a {{"a": "{long}", "b": 2}}',
        "[2] call get_b {}",
        "[3] ok get_a: line red <b>bold</b>",
        "[4] error get_b: Error: Order not found",
    ]
    for line in lines:
        assert re.fullmatch(r"\[\d+\] (user:|assistant:|call \S+ \{.*\}|(ok|error) \S+:).*", line)
    assert json.loads(lines[2].split(" ", 3)[3]) == {"a": long, "b": 2}


def test_outline_shortens_texts_and_results_with_an_ellipsis() -> None:
    line = outline([Message("user", "a" * 500)], limit_chars=20)[0]
    assert line == "[0] user: " + "a" * 19 + "…"


@pytest.mark.parametrize(
    ("status", "score"), [("infra_error", None), ("user_fault", None), ("scored", 1.0), ("infra_error", 0.0)]
)
def test_infrastructure_errors_user_faults_and_passes_are_no_failures(
    status: str, score: float | None
) -> None:
    assert to_failure(trajectory([ASKED], score, status=status)) is None


def test_threshold_decides_what_a_failure_is() -> None:
    trials = [trajectory([ASKED], score, seed=i) for i, score in enumerate((0.0, 0.4, 0.6, 1.0))]
    assert [f.score for f in find_failures(trials)] == [0.0, 0.4, 0.6]
    assert [f.score for f in find_failures(trials, threshold=0.5)] == [0.0, 0.4]
    with pytest.raises(LabError, match=r"failure_threshold must lie in \(0, 1\], got 1.5"):
        find_failures(trials, threshold=1.5)


def test_a_tool_error_comes_before_an_unconfirmed_write() -> None:
    messages = [
        ASKED,
        *call("cancel_order", order_id="W123"),
        *call("get_order", True, "Error: Order not found", order_id="123"),
        BYE,
    ]
    bad = first_bad(trajectory(messages))
    assert bad is not None
    assert (bad.index, bad.kind, bad.tool) == (4, "error", "get_order")
    assert bad.what == "get_order: Error: Order not found"


def test_a_write_without_yes_is_found_and_a_confirmed_one_is_not() -> None:
    unconfirmed = first_bad(trajectory([ASKED, *call("get_order"), *call("cancel_order"), BYE]))
    assert unconfirmed is not None
    assert (unconfirmed.index, unconfirmed.kind) == (3, "unconfirmed")
    assert first_bad(trajectory([ASKED, *call("get_order"), YES, *call("cancel_order"), BYE])) is None


def test_writes_can_be_named_where_the_verb_does_not_tell() -> None:
    messages = [ASKED, *call("reservation_ops"), BYE]
    assert first_bad(trajectory(messages)) is None
    shop: Any = SimpleNamespace(
        user="model", effect=lambda call: "write" if call.name == "reservation_ops" else "read"
    )
    bad = first_bad(trajectory(messages), shop)
    assert bad is not None and bad.kind == "unconfirmed"
    shop.user = "none"
    assert first_bad(trajectory(messages), shop) is None


def test_effects_are_asked_of_the_call_and_not_of_the_tool() -> None:
    """One SQL tool reads and writes."""
    shop: Any = SimpleNamespace(
        user="none", effect=lambda call: "read" if "SELECT" in call.arguments["q"] else "write"
    )
    calls = [*call("sql", q="SELECT 1"), *call("sql", q="UPDATE x"), *call("sql", q="UPDATE y")]
    failed = to_failure(trajectory([ASKED, *calls, *call("sql", result="[]", q="SELECT 2")]), benchmark=shop)
    assert failed is not None
    assert failed.writes == ("sql", "sql") and "Writes: sql x2\n" in failed.card
    assert failed.first_bad_what == "sql: found nothing, and that was the last call"


def test_without_a_benchmark_a_user_who_answers_makes_a_dialogue() -> None:
    alone = to_failure(trajectory([ASKED, *call("cancel_order"), Message("assistant", "Done.")]))
    assert alone is not None and not alone.dialogue and alone.first_bad is None
    told = to_failure(trajectory([ASKED, *call("cancel_order"), Message("assistant", "Done."), BYE]))
    assert told is not None and told.dialogue and told.first_bad_what.endswith("without the user's yes")


def test_three_identical_calls_in_a_row_are_a_loop() -> None:
    twice = [ASKED, *call("get_order", x=1) * 2, *call("get_order", x=2), BYE]
    assert first_bad(trajectory(twice)) is None
    bad = first_bad(trajectory([ASKED, *call("get_order", x=1) * 3, BYE]))
    assert bad is not None
    assert (bad.index, bad.kind, bad.what) == (5, "loop", "get_order: same call 3 times in a row")


def test_a_claim_without_the_call_is_found() -> None:
    asked = Message("assistant", "I will cancel it. Do you confirm?")
    said = Message("assistant", "I have successfully cancelled your order.")
    bad = first_bad(trajectory([ASKED, *call("get_order"), asked, YES, said, BYE]))
    assert bad is not None
    assert (bad.index, bad.kind) == (5, "claim")
    assert bad.what == "claimed without the call: I have successfully cancelled"
    made = [ASKED, *call("get_order"), asked, YES, *call("cancel_order"), said, BYE]
    assert first_bad(trajectory(made)) is None
    assert (
        first_bad(trajectory([ASKED, *call("get_order"), said, BYE])) is None
    )  # nobody said yes to anything


def test_an_error_that_was_put_right_yields_to_what_stayed_wrong() -> None:
    wrong, right = (
        call("find_user_id_by_email", True, "Error: User not found"),
        call("find_user_id_by_name", z=1),
    )
    put_right = first_bad(trajectory([ASKED, *wrong, *right, BYE]))
    assert put_right is not None and put_right.index == 2
    assert put_right.what == "find_user_id_by_email: Error: User not found (put right later)"
    later = first_bad(trajectory([ASKED, *wrong, *right, *call("cancel_order"), BYE]))
    assert later is not None and later.kind == "unconfirmed"
    lasting = first_bad(trajectory([ASKED, *wrong, *right, *call("get_order", True, "Error: no"), BYE]))
    assert lasting is not None and lasting.what == "get_order: Error: no"


def test_giving_up_on_an_empty_result_is_found() -> None:
    bad = first_bad(trajectory([ASKED, *call("search_flight", result="[]"), BYE]))
    assert bad is not None and (bad.index, bad.kind) == (2, "empty")
    assert (
        first_bad(trajectory([ASKED, *call("search_flight", result="[]"), *call("get_order"), BYE])) is None
    )
    assert (
        first_bad(trajectory([ASKED, YES, *call("cancel_order", result="{}"), BYE])) is None
    )  # a write may be mute


def test_a_refusal_is_placed_in_the_transcript_and_in_the_path() -> None:
    read, refused = call("get_order", order_id="W1"), call("cancel_order", order_id="W1")
    messages = [ASKED, *read, YES, BYE]
    context = (ASKED, *read, *refused, YES, BYE)
    act = Intervention(3, "check", "refuse", "confirm_first", "cancel_order", reason="Ask first.")
    failed = to_failure(trajectory(messages, context=context, interventions=(act,)))
    assert failed is not None
    assert failed.first_bad == 3
    assert failed.first_bad_what == "harness refusal of cancel_order (confirm_first): Ask first."
    assert failed.path == ("get_order:ok", "cancel_order:refused")


def test_a_refusal_that_led_to_a_good_call_is_not_what_went_wrong() -> None:
    refused, made = call("cancel_order", order_id="W1"), call("cancel_order", order_id="#W1")
    context = (ASKED, YES, *refused, *made, BYE)
    act = Intervention(3, "check", "refuse", "id_form", "cancel_order", reason="Write #W1.")
    messages = [ASKED, YES, *made, BYE]
    assert first_bad(trajectory(messages, context=context, interventions=(act,))) is None
    assert path_of(trajectory(messages, context=context, interventions=(act,)))[0] == "cancel_order:refused"


def test_results_are_joined_to_calls_by_id_then_by_position() -> None:
    two = Message("assistant", None, (Call("a", {}, "1"), Call("b", {}, "2")))
    swapped = [two, Message("tool", "Error", (), "2", "", True), Message("tool", "{}", (), "1")]
    assert path_of(trajectory(swapped)) == ("a:ok", "b:error")
    nameless = [
        Message("assistant", None, (Call("a", {}), Call("b", {}))),
        Message("tool", "Error", error=True),
        Message("tool", "{}"),
    ]
    assert path_of(trajectory(nameless)) == ("a:error", "b:ok")
    assert path_of(trajectory([two])) == ("a:unanswered", "b:unanswered")


def test_card_tells_by_disclosure() -> None:
    messages = [
        Message("system", "SECRET POLICY"),
        ASKED,
        *call("get_order"),
        Message("assistant", "Done."),
        BYE,
    ]
    trial = trajectory(messages, checks={"db": False, "communicate": True})
    asked: list[str] = []

    def scenario(task: str) -> str:
        asked.append(task)
        return "You want a refund."

    cards = {}
    for disclosure in ("transcript", "checks", "scenario"):
        failed = to_failure(trial, disclosure, scenario=scenario)  # type: ignore[arg-type]
        assert failed is not None
        cards[disclosure] = failed
    assert cards["transcript"].failed_checks == ()
    assert "Failed checks" not in cards["transcript"].card
    assert "Failed checks: db\n" in cards["checks"].card
    assert "Scenario" not in cards["checks"].card
    assert cards["scenario"].card.endswith("Scenario: You want a refund.")
    assert asked == ["task-77"]
    for failed in cards.values():
        assert "SECRET POLICY" not in failed.card
        assert "task-77" not in failed.card and failed.key not in failed.card
        assert "Ended: user_stop" in failed.card
        assert "Calls: get_order:ok" in failed.card
        assert "Writes: none" in failed.card
    with pytest.raises(
        LabError, match="unknown disclosure 'gold'; choose one of transcript, checks, scenario"
    ):
        to_failure(trial, "gold")  # type: ignore[arg-type]


def test_a_huge_trace_gives_a_small_card_quickly() -> None:
    huge = "word " * 200_000  # about 200k tokens
    messages = [
        ASKED,
        *call("get_order", result=huge),
        Message("assistant", huge),
        *call("find", q=huge),
        BYE,
    ]
    started = time.perf_counter()
    failed = to_failure(trajectory(messages))
    assert failed is not None
    assert len(failed.card) < 3000
    assert time.perf_counter() - started < 1.0


def test_a_long_path_is_shortened_on_the_card_but_kept_in_the_failure() -> None:
    messages = [ASKED]
    for i in range(200):
        messages += call(f"tool_{i}")
    failed = to_failure(trajectory(messages))
    assert failed is not None
    assert len(failed.path) == 200
    assert "(160 more)" in failed.card


def test_other_languages_html_and_ansi_stay_readable() -> None:
    messages = [
        Message("user", "Je veux annuler ma commande, s'il vous plaît"),
        *call("get_order", result="\x1b[1;31m<script>alert(1)</script>\x1b[0m\r\n注文"),
        Message("user", "はい、お願いします"),
        *call("cancel_order"),
        BYE,
    ]
    failed = to_failure(trajectory(messages))
    assert failed is not None
    assert failed.first_bad is None  # "はい" is a yes
    assert "<script>alert(1)</script> 注文" in failed.card
    assert "\x1b" not in failed.card
    assert outline(messages)[0] == "[0] user: Je veux annuler ma commande, s'il vous plaît"


def test_failures_do_not_depend_on_order() -> None:
    trials = [trajectory([ASKED, *call("get_order", x=i), BYE], seed=i) for i in range(4)]
    forward, backward = find_failures(trials), find_failures(trials[::-1])
    assert forward == backward[::-1]
    assert find_failures([replace(t, score=1.0) for t in trials]) == []
