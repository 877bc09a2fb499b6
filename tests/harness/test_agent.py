"""The model inside its harness: a scripted model, small harness folders, and what each side gets to see."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ecdysis_lab.benchmarks import load_benchmark
from ecdysis_lab.harness import SHIPPED, load_harness
from ecdysis_lab.harness.agent import MAX_MALFORMED, MAX_REFUSALS_PER_TURN, HarnessedAgent
from ecdysis_lab.harness.rollout import Setup, run_trial
from ecdysis_lab.hooks import Call
from ecdysis_lab.hooks.verdicts import NOTE, REFUSED, REPLY_STOPPED, REWRITTEN
from ecdysis_lab.models import ContentError, TemplateError
from ecdysis_lab.records import Completion, Message, Task, Usage

HEAD = "from ecdysis_lab.hooks import Allow, Call, Realize, Refuse, Rewrite\n"
TOOLS: list[dict[str, Any]] = [
    {
        "name": name,
        "description": f"{name} does it.",
        "parameters": {"type": "object", "properties": {"id": {"type": "string"}}},
        "kind": kind,
    }
    for name, kind in (("get_order", "read"), ("cancel_order", "write"))
]
BENCH: Any = SimpleNamespace(system_prompt="Prompt. Be kind.", policy="Be kind.", tools=TOOLS, opening="Hi!")
SAID = Usage(1, 10, 5, 0.0, 0.1, 1)


def ask(*calls: Call, text: str | None = None) -> Completion:
    return Completion(text, calls, (), "tool_calls", SAID)


def say(text: str) -> Completion:
    return Completion(text, (), (), "stop", SAID)


def garbled(name: str = "cancel_order", raw: str = "{id: 1}") -> Completion:
    return Completion(None, (), ((name, raw),), "tool_calls", SAID)


CANCEL = Call("cancel_order", {"id": "#W1"}, "c1")
READ = Call("get_order", {"id": "#W1"}, "r1")


@dataclass
class Shop:
    """An environment that notes what reached it."""

    calls: list[Call] = field(default_factory=list)
    reads: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def call(self, call: Call) -> tuple[str, bool]:
        self.calls.append(call)
        return json.dumps({"did": call.name, **call.arguments}), call.arguments.get("id") == "bad"

    def read(self, tool: str, arguments: dict[str, Any]) -> Any:
        self.reads.append((tool, arguments))
        return {"status": "pending"}


@dataclass
class Stage:
    """A scripted agent in a harness before a shop; ``seen`` holds the (messages, tools) of every request."""

    agent: HarnessedAgent
    shop: Shop
    seen: list[tuple[list[dict[str, Any]], list[dict[str, Any]]]]
    said: list[str | None] = field(default_factory=list)

    def user(self, text: str) -> Message:
        """One user message, tool calls executed, up to the reply to the user."""
        reply = self.agent.user_says(text)
        while reply.calls:
            reply = self.agent.tools_return([self._execute(c) for c in reply.calls])
        self.said.append(reply.content)
        return reply

    def _execute(self, call: Call) -> Message:
        text, error = self.shop.call(call)
        return Message("tool", text, call_id=call.id, name=call.name, error=error)

    @property
    def acts(self) -> list[tuple[str, str]]:
        return [(i.hook, i.action) for i in self.agent.interventions]

    def context(self, role: str) -> list[str]:
        return [m.content or "" for m in self.agent.context if m.role == role]


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """``stage(answers, **files)``: a stage whose model gives the answers in turn, then repeats the last."""
    opened: list[HarnessedAgent] = []

    def build(answers: Sequence[Completion | Exception], **files: str) -> Stage:
        folder = write(tmp_path / f"harness{len(opened)}", **files)
        script, seen = list(answers), []

        def complete(role: str, model: str, messages: Any, tools: Any, **options: Any) -> Completion:
            seen.append((json.loads(json.dumps(messages)), tools))
            answer = script.pop(0) if len(script) > 1 else script[0]
            if isinstance(answer, Exception):
                raise answer
            return answer

        monkeypatch.setattr("ecdysis_lab.harness.agent.complete", complete)
        opened.append(HarnessedAgent("openai/x", load_harness(folder), BENCH, max_steps=50))
        shop = Shop()
        opened[-1].start(shop)
        return Stage(opened[-1], shop, seen)

    yield build
    for agent in opened:
        agent.close()


Make = Callable[..., Stage]


def write(folder: Path, **files: str) -> Path:
    """A harness folder; hook functions get the imports they need."""
    folder.mkdir()
    for name, source in files.items():
        (folder / f"{name}.py").write_text(HEAD + source)
    return folder


def refuse_if(condition: str) -> str:
    return (
        f"def check(call, view):\n    if {condition}:\n"
        "        return Refuse('Orders over a week old stay.', 'Offer a refund.', 'week_old')\n    return Allow('ok')\n"
    )


# -- refusals ----------------------------------------------------------------------------------------------------


def test_a_refused_call_never_reaches_the_environment(stage: Make) -> None:
    it = stage([ask(CANCEL), say("Sorry, I cannot.")], actions=refuse_if("call.name == 'cancel_order'"))
    assert it.user("Cancel it.").content == "Sorry, I cannot."
    assert it.shop.calls == []
    told = REFUSED + "Orders over a week old stay. Offer a refund."
    assert it.context("tool") == [told]
    assert it.seen[1][0][-2]["tool_calls"][0]["function"] == {
        "name": "cancel_order",
        "arguments": '{"id": "#W1"}',
    }
    assert it.seen[1][0][-1] == {
        "role": "tool",
        "content": told,
        "tool_call_id": "c1",
        "name": "cancel_order",
    }
    (act,) = it.agent.interventions
    assert (act.hook, act.action, act.rule, act.tool) == ("check", "refuse", "week_old", "cancel_order")
    assert act.before == {"id": "#W1"} and act.reason == "Orders over a week old stay. Offer a refund."
    assert it.agent.context[act.step].content == told


def test_after_three_refusals_in_a_row_the_call_goes_through(stage: Make) -> None:
    it = stage([ask(CANCEL)] * 4 + [say("Done.")], actions=refuse_if("True"))
    it.user("Cancel it.")
    assert [c.arguments for c in it.shop.calls] == [{"id": "#W1"}]
    assert it.acts == [("check", "refuse")] * 3 + [("check", "pass_through")]
    assert len(it.seen) == 5 and it.said == ["Done."]
    assert it.agent.interventions[-1].tool == "cancel_order"
    assert (
        it.context("tool")[:3] == [it.context("tool")[0]] * 3
        and '"did": "cancel_order"' in it.context("tool")[3]
    )


def test_a_call_that_went_through_is_judged_anew(stage: Make) -> None:
    it = stage([ask(CANCEL)] * 8 + [say("Done.")], actions=refuse_if("True"))
    it.user("Cancel it.")
    assert it.acts == ([("check", "refuse")] * 3 + [("check", "pass_through")]) * 2
    assert len(it.shop.calls) == 2


def test_refusals_of_other_calls_start_the_count_again(stage: Make) -> None:
    other = replace(CANCEL, arguments={"id": "#W2"})
    script = [ask(CANCEL), ask(CANCEL), ask(other), ask(CANCEL), ask(CANCEL), ask(CANCEL), say("I give up.")]
    it = stage(script, actions=refuse_if("True"))
    it.user("Cancel it.")
    assert it.shop.calls == [] and it.acts == [("check", "refuse")] * 6


def test_a_turn_of_ever_new_refused_calls_ends(stage: Make) -> None:
    script = [ask(replace(CANCEL, arguments={"id": f"#W{i}"})) for i in range(20)]
    it = stage(script, actions=refuse_if("True"))
    reply = it.agent.user_says("Cancel it.")
    assert reply.calls[0].arguments == {"id": f"#W{MAX_REFUSALS_PER_TURN}"}
    assert it.acts == [("check", "refuse")] * MAX_REFUSALS_PER_TURN + [("check", "pass_through")]


def test_one_refusal_stops_every_call_of_the_message(stage: Make) -> None:
    script = [ask(READ, CANCEL), ask(replace(READ, id="r2")), say("It is pending.")]
    it = stage(script, actions=refuse_if("view.kind(call.name) == 'write'"))
    it.user("Cancel it.")
    assert [c.name for c in it.shop.calls] == ["get_order"]
    assert it.context("tool")[:2] == [
        REFUSED + "another call of the same message was refused; send this one again if it still applies.",
        REFUSED + "Orders over a week old stay. Offer a refund.",
    ]
    assert it.acts == [("check", "refuse")] and it.agent.interventions[0].tool == "cancel_order"


def test_hooks_see_what_happened_and_not_what_was_refused(stage: Make) -> None:
    """``view.done`` holds executed calls only, and a stopped reply is no message."""
    source = (
        "def check(call, view):\n"
        "    said = [m['role'] + ':' + m['content'] for m in view.messages]\n"
        "    seen = [[d.call.name, d.error] for d in view.done]\n"
        "    return Refuse(str([said, seen, view.policy, view.steps_left]), 'x')\n"
    )
    it = stage([ask(CANCEL), ask(READ), say("Bye.")], actions=source)
    it.user("Cancel it.")
    first, second = it.context("tool")
    assert first == REFUSED + "[['assistant:Hi!', 'user:Cancel it.'], [], 'Be kind.', 48] x"
    assert second == REFUSED + "[['assistant:Hi!', 'user:Cancel it.'], [], 'Be kind.', 46] x"


def test_reading_off_the_record(stage: Make) -> None:
    source = (
        "def check(call, view):\n"
        "    if view.read('get_order', id=call.arguments['id'])['status'] == 'pending':\n"
        "        return Refuse('It is pending.', 'Wait.')\n    return Allow()\n"
    )
    it = stage([ask(CANCEL), say("Later.")], actions=source)
    it.user("Cancel it.")
    assert it.shop.reads == [("get_order", {"id": "#W1"})] and it.shop.calls == []
    assert [m.role for m in it.agent.context] == ["assistant", "user", "assistant", "tool", "assistant"]


# -- rewrites and annotations ------------------------------------------------------------------------------------


def test_a_rewrite_reaches_the_environment_and_the_model_keeps_its_words(stage: Make) -> None:
    source = (
        "def check(call, view):\n"
        "    if call.arguments['id'].startswith('#'):\n        return Allow()\n"
        "    return Rewrite(arguments={'id': '#' + call.arguments['id']}, rule='order_id')\n"
    )
    script = [ask(replace(CANCEL, arguments={"id": "W1"})), ask(replace(CANCEL, id="c2")), say("Done.")]
    it = stage(script, actions=source)
    it.user("Cancel it.")
    assert [c.arguments for c in it.shop.calls] == [{"id": "#W1"}, {"id": "#W1"}]
    last = it.seen[-1][0]
    assert [
        json.loads(m["tool_calls"][0]["function"]["arguments"])["id"] for m in last if "tool_calls" in m
    ] == [
        "W1",
        "#W1",
    ]
    first, second = it.context("tool")
    assert first == '{"did": "cancel_order", "id": "#W1"}\n' + REWRITTEN + '{"id": "#W1"}'
    assert second == '{"did": "cancel_order", "id": "#W1"}'
    (act,) = it.agent.interventions
    assert (act.hook, act.action, act.rule, act.before, act.after) == (
        ("check", "rewrite", "order_id", {"id": "W1"}, {"id": "#W1"})
    )
    assert it.agent.context[act.step].calls[0].arguments == {"id": "W1"}


def test_a_rewrite_to_the_same_arguments_is_none(stage: Make) -> None:
    it = stage(
        [ask(CANCEL), say("Done.")], actions="def check(call, view):\n    return Rewrite({'id': '#W1'})\n"
    )
    it.user("Cancel it.")
    assert it.acts == [] and REWRITTEN not in it.context("tool")[0]


def test_later_hooks_see_the_rewritten_call(stage: Make) -> None:
    it = stage(
        [ask(CANCEL), say("Done.")],
        actions="def check(call, view):\n    return Rewrite(arguments={'id': 'new'})\n",
        regulation="def observe(call, result, view):\n"
        "    return str([call.arguments['id'], view.done[-1].call.arguments['id']])\n",
    )
    it.user("Cancel it.")
    assert it.context("tool")[0].endswith(REWRITTEN + '{"id": "new"}\n' + NOTE + "['new', 'new']")


def test_an_annotation_is_for_the_model_only(stage: Make) -> None:
    source = (
        "def observe(call, result, view):\n    return 'Say when.' if call.name == 'get_order' else None\n"
    )
    it = stage([ask(READ), ask(CANCEL), say("Done.")], regulation=source)
    it.user("Cancel it.")
    assert it.context("tool") == [
        '{"did": "get_order", "id": "#W1"}\n' + NOTE + "Say when.",
        '{"did": "cancel_order", "id": "#W1"}',
    ]
    (act,) = it.agent.interventions
    assert (act.hook, act.action, act.tool, act.reason) == ("observe", "annotate", "get_order", "Say when.")
    assert it.agent.context[act.step].content == it.context("tool")[0]


def test_errors_are_marked_for_observe(stage: Make) -> None:
    source = "def observe(call, result, view):\n    return 'It failed.' if view.done[-1].error else None\n"
    it = stage([ask(replace(READ, arguments={"id": "bad"})), ask(READ), say("Done.")], regulation=source)
    it.user("Look.")
    assert [NOTE in text for text in it.context("tool")] == [True, False]
    assert [m.error for m in it.agent.context if m.role == "tool"] == [True, False]


# -- replies -----------------------------------------------------------------------------------------------------


def test_a_stopped_reply_is_not_sent(stage: Make) -> None:
    source = (
        "def on_reply(text, view):\n"
        "    if 'cancelled' in text and not view.done:\n"
        "        return Refuse('Nothing was cancelled.', 'Cancel it first.', 'claim')\n    return Allow()\n"
    )
    it = stage([say("It is cancelled."), ask(CANCEL), say("It is cancelled.")], regulation=source)
    it.user("Cancel it.")
    assert it.said == ["It is cancelled."] and len(it.shop.calls) == 1
    assert it.seen[1][0][-2:] == [
        {"role": "assistant", "content": "It is cancelled."},
        {"role": "user", "content": REPLY_STOPPED + "Nothing was cancelled. Cancel it first."},
    ]
    (act,) = it.agent.interventions
    assert (act.hook, act.action, act.rule, act.tool, act.before) == (
        ("on_reply", "refuse", "claim", "", "It is cancelled.")
    )


def test_a_reply_goes_out_after_three_refusals(stage: Make) -> None:
    it = stage(
        [say("No.")], regulation="def on_reply(text, view):\n    return Refuse('Be kind.', 'Say yes.')\n"
    )
    assert it.user("Please?").content == "No."
    assert it.acts == [("on_reply", "refuse")] * 3 + [("on_reply", "pass_through")] and len(it.seen) == 4


def test_a_rewritten_reply_reaches_the_user(stage: Make) -> None:
    source = (
        "def on_reply(text, view):\n"
        "    if view.messages[-2]['content'] == 'Hi!':\n        return Rewrite(text=text + ' Bye!', rule='bye')\n"
        "    return Rewrite(text=view.messages[-2]['content'])\n"
    )
    it = stage([say("Done.")], regulation=source)
    it.user("Cancel it.")
    it.user("Thanks.")
    assert it.said == ["Done. Bye!", "Done. Bye!"]  # the second shows what the first left in the view
    assert it.context("assistant") == ["Hi!", "Done.", "Done."]
    first = it.agent.interventions[0]
    assert (first.hook, first.action, first.rule, first.before, first.after) == (
        ("on_reply", "rewrite", "bye", "Done.", "Done. Bye!")
    )
    assert it.agent.context[first.step].content == "Done."


def test_text_beside_a_call_is_no_reply(stage: Make) -> None:
    it = stage(
        [ask(READ, text="One moment."), say("Done.")],
        regulation="def on_reply(text, view):\n    return Refuse('no', 'no') if text == 'One moment.' else Allow()\n",
    )
    it.user("Look.")
    assert it.acts == [] and it.said == ["Done."]


# -- broken harnesses --------------------------------------------------------------------------------------------


REALIZED = (
    "def on_reply(text, view):\n"
    "    name, _, value = text.partition(' #')\n"
    "    return Realize((Call(name, {'id': '#' + value}),), 'written') if value else Allow()\n"
)


def test_a_reply_is_realized_as_the_call_it_meant(stage: Make) -> None:
    """The environment gets the call, the model reads its text with it, and the record has both."""
    made = stage([say("cancel_order #W1"), say("Done.")], regulation=REALIZED)
    reply = made.user("Cancel.")
    assert (made.shop.calls, reply.content) == ([CANCEL], "Done.")
    (act,) = made.agent.interventions
    assert (act.action, act.hook, act.rule, act.tool) == ("realize", "on_reply", "written", "cancel_order")
    assert (act.before, act.after) == (
        "cancel_order #W1",
        [{"name": "cancel_order", "arguments": {"id": "#W1"}}],
    )
    asked, answer = made.seen[1][0][-2:]
    assert (
        asked["content"] == "cancel_order #W1"
        and asked["tool_calls"][0]["id"] == answer["tool_call_id"] != ""
    )
    assert json.loads(answer["content"])["did"] == "cancel_order"


def test_a_realized_call_is_checked_like_any_other(stage: Make) -> None:
    made = stage(
        [say("cancel_order #W1"), say("cancel_order #W2"), say("Done.")],
        regulation=REALIZED,
        actions=refuse_if("call.arguments['id'] == '#W1'"),
    )
    made.user("Cancel.")
    assert made.shop.calls == [Call("cancel_order", {"id": "#W2"})]
    assert [act for _, act in made.acts] == ["realize", "refuse", "realize"]
    assert any(text.startswith(REFUSED) for text in made.context("tool"))


def test_a_text_that_is_realized_and_refused_again_and_again_ends(stage: Make) -> None:
    made = stage(
        [say("cancel_order #W1")] * 4 + [say("Done.")], regulation=REALIZED, actions=refuse_if("True")
    )
    made.user("Cancel.")
    assert made.shop.calls == [CANCEL]
    assert made.acts[-1][1] == "pass_through"


def test_a_broken_hook_is_recorded_and_the_trial_goes_on(stage: Make) -> None:
    it = stage(
        [ask(CANCEL), say("Done.")],
        contract="def describe(tool):\n    return {**tool, 'name': 'x'}\n",
        skills="def brief(opening, policy):\n    return opening.nosuch\n",
        actions="def check(call, view):\n    return call.arguments['nosuch']\n",
        regulation="def observe(call, result, view):\n    return 5\n\ndef on_reply(text, view):\n    return None\n",
    )
    it.user("Cancel it.")
    assert it.said == ["Done."] and len(it.shop.calls) == 1
    assert it.acts == [
        (h, "fault") for h in ("describe", "describe", "brief", "check", "observe", "on_reply")
    ]
    kinds = [i.rule for i in it.agent.interventions]
    assert kinds == ["contract", "contract", "error", "error", "contract", "contract"]
    assert (
        "KeyError" in it.agent.interventions[3].reason and "actions.py:3" in it.agent.interventions[3].reason
    )
    assert it.context("tool") == ['{"did": "cancel_order", "id": "#W1"}']
    assert it.seen[0][0][0]["content"] == BENCH.system_prompt


def test_a_harness_against_the_policy_is_left_out_with_one_fault(stage: Make) -> None:
    it = stage([ask(CANCEL), say("Done.")], actions="import os\n" + refuse_if("True"))
    it.user("Cancel it.")
    assert it.said == ["Done."] and len(it.shop.calls) == 1
    assert [(i.action, i.rule) for i in it.agent.interventions] == [("fault", "static")]


def test_closing_twice_or_before_the_start_is_fine(tmp_path: Path) -> None:
    agent = HarnessedAgent("openai/x", load_harness(write(tmp_path / "h", actions=refuse_if("True"))), BENCH)
    agent.close()
    agent.start(Shop())
    agent.close()
    agent.close()
    assert agent.interventions == []


# -- what a model gets wrong -------------------------------------------------------------------------------------


def test_malformed_arguments_are_explained(stage: Make) -> None:
    it = stage([garbled(), ask(CANCEL), say("Done.")])
    it.user("Cancel it.")
    assert len(it.shop.calls) == 1 and it.said == ["Done."]
    shown, told = it.seen[1][0][-2:]
    assert shown == {"role": "assistant", "content": "cancel_order({id: 1})"}
    assert (
        told["role"] == "user" and "the arguments of cancel_order are not one JSON object" in told["content"]
    )


def test_a_malformed_call_in_a_text_comes_back_as_it_was_written(stage: Make) -> None:
    written = '<tool_call>\n{"name": "cancel_order"\n</tool_call>'
    it = stage([replace(garbled(), text=written, finish="salvaged"), ask(CANCEL), say("Done.")])
    it.user("Cancel it.")
    assert it.seen[1][0][-2] == {"role": "assistant", "content": written}


REALIZING = """
from ecdysis_lab.hooks import Call, Realize, Refuse

def on_reply(text, view):
    if text == "cancel_order({id: 1})":
        meant = Realize((Call("cancel_order", {"id": "#W1"}),), "meant")
        return meant if PLAIN else Refuse("Quote keys.", "Send it again.", "keys")
"""


@pytest.mark.parametrize("plain", [True, False])
def test_a_malformed_call_is_a_reply_that_the_harness_may_realize_or_send_back(
    stage: Make, plain: bool
) -> None:
    it = stage([garbled(), ask(CANCEL), say("Done.")], regulation=REALIZING.replace("PLAIN", str(plain)))
    it.user("Cancel it.")
    first = it.agent.interventions[0]
    assert (first.action, first.hook, first.rule) == (
        ("realize", "on_reply", "meant") if plain else ("refuse", "on_reply", "keys")
    )
    told = it.seen[1][0][-1]["content"]
    assert ("Quote keys." in told) is not plain and "[system]" not in told


def test_malformed_arguments_beyond_the_limit_are_the_models_end(stage: Make) -> None:
    it = stage([garbled()])
    with pytest.raises(
        ContentError, match=f"openai/x gave no valid tool call in {MAX_MALFORMED + 1} attempts"
    ):
        it.user("Cancel it.")
    assert len(it.seen) == MAX_MALFORMED + 1 == 4
    assert it.agent.usage == sum([SAID] * 4, Usage())


def test_a_malformed_call_beside_a_good_one_loses_only_itself(stage: Make) -> None:
    mixed = replace(ask(CANCEL), malformed=(("get_order", "{id: 1}"), ("no_such", "{}")))
    it = stage([mixed, say("Done.")])
    it.user("Cancel it.")
    assert it.shop.calls == [CANCEL] and it.said == ["Done."]
    result = it.seen[1][0][-1]
    assert result["role"] == "tool" and result["content"].endswith(
        "[system] another call of the same message was malformed: the arguments of get_order are not one JSON "
        "object, so it was not executed. Call it again. there is no tool no_such, so it was not executed. Call "
        "one that there is."
    )


def test_the_models_own_end_is_kept_with_its_reason(stage: Make) -> None:
    for answers, reason in (
        ([garbled()], "malformed: openai/x gave no valid tool call in 4 attempts"),
        ([ContentError("too long", "context_full")], "context_full: too long"),
    ):
        it = stage(answers)
        with pytest.raises(ContentError):
            it.user("Cancel it.")
        assert it.agent.ended == reason


def test_a_template_that_refuses_the_greeting_gets_it_quoted_once(stage: Make) -> None:
    it = stage([TemplateError("no"), say("Hello."), TemplateError("no")])
    it.user("Cancel it.")
    assert [m["role"] for m in it.seen[1][0]] == ["system", "user"]
    assert it.seen[1][0][1]["content"] == "(You opened the conversation with: Hi!)\n\nCancel it."
    with pytest.raises(TemplateError):
        it.user("Please.")


def test_the_count_of_malformed_answers_belongs_to_the_turn(stage: Make) -> None:
    it = stage([garbled()] * 3 + [say("Hm.")] + [garbled()] * 3 + [say("Well.")])
    it.user("Cancel it.")
    it.user("Please.")
    assert it.said == ["Hm.", "Well."]


def test_missing_and_repeated_call_ids_become_unique(stage: Make) -> None:
    same = [replace(READ, id="x"), replace(CANCEL, id="x"), replace(READ, id=""), replace(READ, id="")]
    it = stage([ask(*same), ask(replace(READ, id="x")), say("Done.")])
    it.user("Look.")
    ids = [c.id for c in it.shop.calls]
    assert len(set(ids)) == len(ids) == 5 and ids[0] == "x" and all(ids)
    assert [c.name for c in it.shop.calls] == [
        "get_order",
        "cancel_order",
        "get_order",
        "get_order",
        "get_order",
    ]
    results = [m.call_id for m in it.agent.context if m.role == "tool"]
    asked = [c.id for m in it.agent.context for c in m.calls]
    assert results == asked == ids


def test_an_answer_that_cannot_be_used_is_paid_for(stage: Make) -> None:
    why = ContentError("empty")
    why.usage = Usage(0, 300, 3, 0.5, 1.0, 3)
    it = stage([why])
    with pytest.raises(ContentError):
        it.user("Cancel it.")
    assert it.agent.usage == why.usage


# -- what the model is shown -------------------------------------------------------------------------------------


def shown(stage: Make, **files: str) -> tuple[str, int, str, list[dict[str, Any]]]:
    """Hash, added tokens, system prompt and tools of a harness's first request."""
    it = stage([say("Hm.")], **files)
    it.user("Cancel it.")
    return it.agent.shown, it.agent.harness_tokens, it.seen[0][0][0]["content"], it.seen[0][1]


def test_the_brief_stands_in_the_system_prompt(stage: Make) -> None:
    source = "def brief(opening, policy):\n    return '\\n' + opening + ' means: ' + policy + '\\n\\n'\n"
    _, tokens, system, _ = shown(stage, skills=source)
    assert system == "Prompt. Be kind.\n<skills>\nCancel it. means: Be kind.\n</skills>"
    assert 8 <= tokens <= 15


def test_described_tools_are_sent_without_their_kind(stage: Make) -> None:
    source = "def describe(tool):\n    return {**tool, 'description': tool['description'] + ' Ids start with #.'}\n"
    _, tokens, system, tools = shown(stage, contract=source)
    assert system == BENCH.system_prompt
    assert tools[0] == {
        "type": "function",
        "function": {
            "name": "get_order",
            "description": "get_order does it. Ids start with #.",
            "parameters": TOOLS[0]["parameters"],
        },
    }
    assert tokens == 2 * len(" Ids start with #.") // 4


def test_the_hash_changes_with_the_text_and_only_with_it(stage: Make) -> None:
    bare, tokens, _, _ = shown(stage)
    assert tokens == 0 and len(bare) == 64
    same = [
        shown(stage, contract="def describe(tool):\n    return dict(tool)\n"),
        shown(stage, skills="def brief(opening, policy):\n    return ' \\n'\n"),
        shown(stage, actions=refuse_if("False")),
    ]
    assert [s[0] for s in same] == [bare] * 3 and [s[1] for s in same] == [0] * 3
    one = shown(stage, skills="def brief(opening, policy):\n    return 'Be brief.'\n")
    other = shown(
        stage, skills="# differs in source only\ndef brief(opening, policy):\n    return 'Be ' + 'brief.'\n"
    )
    tool = shown(stage, contract="def describe(tool):\n    return {**tool, 'description': 'Be brief.'}\n")
    assert one[0] == other[0] and len({bare, one[0], tool[0]}) == 3


# -- in the benchmark --------------------------------------------------------------------------------------------

NOTHING = {
    "contract": "def describe(tool):\n    return tool\n",
    "skills": "def brief(opening, policy):\n    return ''\n",
    "actions": "def check(call, view):\n    return Allow()\n",
    "regulation": "def observe(call, result, view):\n    return None\n\ndef on_reply(text, view):\n    return Allow()\n",
}


def retail(n: int) -> list[Task]:
    return load_benchmark("tau2/retail").tasks("train", n, 1)


def test_a_harness_that_does_nothing_changes_nothing(tmp_path: Path) -> None:
    """Same transcript, same context, same official score: no harness touches what is scored."""
    folder, scores = write(tmp_path / "nothing", **NOTHING), []
    for task in retail(4):
        bare, idle = (
            run_trial(Setup("tau2/retail", "sim/small"), task, h, 0) for h in (SHIPPED / "empty", folder)
        )
        assert bare.trial.harness != idle.trial.harness
        for name in ("status", "score", "termination", "checks", "messages", "context", "shown", "truth"):
            assert getattr(bare, name) == getattr(idle, name), name
        assert (
            bare.interventions == idle.interventions == () and bare.harness_tokens == idle.harness_tokens == 0
        )
        scores.append(bare.score)
    assert set(scores) == {0.0, 1.0}


def test_the_transcript_never_shows_the_harness(tmp_path: Path) -> None:
    """Refusals, rewrites and notes stay in the model's context; the official evaluator replays the rest."""
    folder = write(
        tmp_path / "loud",
        actions="def check(call, view):\n"
        "    if view.kind(call.name) == 'write':\n        return Refuse('Not yet.', 'Ask again.')\n"
        "    if 'order_id' in call.arguments:\n"
        "        return Rewrite(arguments={**call.arguments, 'order_id': '#' + call.arguments['order_id'].lstrip('#')})\n"
        "    return Allow()\n",
        regulation="def observe(call, result, view):\n    return 'Noted.'\n",
    )
    actions, loud = set(), 0
    for task in retail(4):
        left = run_trial(Setup("tau2/retail", "sim/small"), task, folder, 0)
        assert left.status == "scored"
        assert "[harness]" not in json.dumps([m.content for m in left.messages])
        loud += any("[harness]" in (m.content or "") for m in left.context)
        assert left.context[0].content == "Hi! How can I help you today?" == left.messages[0].content
        asked = [c for m in left.messages for c in m.calls]
        assert [m.call_id for m in left.messages if m.role == "tool"] == [c.id for c in asked]
        actions |= {i.action for i in left.interventions}
    assert {"refuse", "annotate"} <= actions and loud >= 2


def test_giving_up_after_a_refusal_is_the_agents_failure(tmp_path: Path) -> None:
    """A harness that refuses everything must lose its trials, not have them set aside as faults of the user."""
    folder = write(tmp_path / "shut", actions=refuse_if("True"))
    for task in retail(4):
        left = run_trial(Setup("tau2/retail", "sim/flawless"), task, folder, 0)
        assert (left.status, left.score, left.error) == ("scored", 0.0, "")
        assert not any(m.calls for m in left.messages)
        assert left.truth["fatal"].startswith("refused:")


def test_malformed_arguments_end_a_trial_as_agent_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def complete(role: str, *args: Any, **options: Any) -> Completion:
        return garbled("get_user_details") if role == "agent" else say("I want to return a lamp.")

    for place in ("ecdysis_lab.harness.agent", "ecdysis_lab.benchmarks.tau2.sides"):
        monkeypatch.setattr(f"{place}.complete", complete)
    left = run_trial(Setup("tau2/retail", "openai/x", "openai/y"), retail(1)[0], SHIPPED / "empty", 0)
    assert (left.status, left.score, left.termination) == ("scored", 0.0, "agent_error")
    assert left.usage["agent"].calls == 4 and left.usage["user"].calls == 1
    assert [m.role for m in left.messages] == ["assistant", "user"] and len(left.context) == 2 + 2 * 3
