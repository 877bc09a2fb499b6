"""The planted-defect testbed: each slip really happens, reacts only to shown text, and its cause stays hidden."""

import contextlib
import io
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from ecdysis_lab.benchmarks import load_benchmark
from ecdysis_lab.benchmarks.tau2.slips_airline import AIRLINE
from ecdysis_lab.benchmarks.tau2.slips_retail import RETAIL
from ecdysis_lab.failures.cards import find_failures
from ecdysis_lab.harness import SHIPPED, load_harness
from ecdysis_lab.harness.rollout import Setup, run_trial
from ecdysis_lab.hooks import Call
from ecdysis_lab.models import PermanentError, complete
from ecdysis_lab.models.sim import PROFILES, provider, user
from ecdysis_lab.models.sim.evidence import Event, Evidence, Excerpt
from ecdysis_lab.models.sim.findings import find
from ecdysis_lab.models.sim.profiles import Profile
from ecdysis_lab.models.sim.reviewer import object_to
from ecdysis_lab.models.sim.scene import BLUNDER, Slip, possible
from ecdysis_lab.records import Patterns, Pick, Subset, Task, Trajectory, to_json
from ecdysis_lab.review.context import build_context
from ecdysis_lab.store import Store

DOMAINS = ("airline", "retail")
EMPTY = SHIPPED / "empty"
HEAD = "from ecdysis_lab.hooks import Allow, Refuse, Rewrite\n"
STUBBORN = Profile("small", slip=1.0, heed=1.0, recover=0.0, recover_error=0.0, blunder=0.0)
EAGER = replace(STUBBORN, recover=1.0, recover_error=0.0)

# What a harness author would write, by slip; each has to match the slip's hint.
GUIDANCE = {
    "unknown_tool": "Use only the listed tools; no other tool exists.",
    "argument_name": "The argument is called reservation_id for reservations and order_id for orders.",
    "extra_argument": "Send no other argument than those of the schema.",
    "payment_id_form": "A payment method id has to be exact, in the form credit_card_1234567.",
    "stop_early": "Do not end the conversation before every change is done.",
    "loop": "Never make the same call again with nothing new in between, let alone twice.",
    "transfer_early": "Transfer to a human only if the request cannot be handled by you.",
    "unconfirmed_write": "Get the user's explicit yes before any change.",
    "expression_form": "The expression takes digits and operators, no currency signs.",
    "omit_info": "Always tell the user the figure that they asked for.",
    "reservation_id_form": "A reservation id has six upper-case letters or digits.",
    "date_form": "Dates have the form YYYY-MM-DD.",
    "airport_form": "Give origin and destination as IATA codes of three letters.",
    "number_as_text": "total_baggages is an integer, not text.",
    "partial_flights": "Send every segment of the new itinerary, changed or not.",
    "forbidden_cancel": "Cancel only within 24 hours, or with insurance, or in business class.",
    "apology_certificate": "Send a certificate only where the policy says so.",
    "bag_padding": "Do not add a bag that the user does not need: only those asked for.",
    "first_payment_method": "Use the payment method that the user chose.",
    "order_id_form": "An order id starts with #, e.g. #W1234567.",
    "zip_form": "A zip code has five digits.",
    "list_as_text": "item_ids is an array of ids.",
    "item_for_product": "A product id is different from an item id.",
    "reason_form": "The reason is exactly 'no longer needed' or 'ordered by mistake'.",
    "split_items": "Put all items of an order into one call.",
    "country_form": "The country is written USA.",
    "gift_card_refund": "Refund to the original payment method unless the user says otherwise.",
    "default_address_too": "Change the default address only when the user asks for it.",
}
CATALOGUE = {"airline": AIRLINE, "retail": RETAIL}
EVERY_SLIP = [(domain, slip) for domain in DOMAINS for slip in CATALOGUE[domain]]
each_slip = pytest.mark.parametrize(
    ("domain", "slip"), EVERY_SLIP, ids=[f"{d}-{s.name}" for d, s in EVERY_SLIP]
)


def tasks(domain: str) -> list[Task]:
    return load_benchmark(f"tau2/{domain}").tasks("all")


def where_possible(domain: str, slip: Slip) -> list[Task]:
    return [t for t in tasks(domain) if possible(slip, provider._scene(t.benchmark, t.id))]


def susceptible(domain: str, name: str) -> list[Task]:
    return [t for t in tasks(domain) if name in {s.name for s in provider.susceptible(t.benchmark, t.id)}]


def named(domain: str, name: str) -> Slip:
    return next(s for s in CATALOGUE[domain] if s.name == name)


@pytest.fixture
def forced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """``forced(task, slip, profile, **files)``: the trial of a model with exactly this slip in a harness of these files."""

    def run(task: Task, slip: Slip, profile: Profile = STUBBORN, seed: int = 0, **files: str) -> Trajectory:
        monkeypatch.setitem(PROFILES, "small", profile)
        monkeypatch.setattr(provider, "active", lambda *given: (slip,))
        folder = tmp_path / f"harness{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        for name, source in files.items():
            (folder / f"{name}.py").write_text(HEAD + source)
        return run_trial(Setup(task.benchmark, "sim/small"), task, folder, seed)

    return run


# -- flawless ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("domain", "n"), [("airline", 50), ("retail", 114)])
def test_flawless_scores_one_on_every_task(domain: str, n: int) -> None:
    """Adapter, user, environment and evaluator lose nothing: the gold plan is worth 1.0 everywhere."""
    left = [run_trial(Setup(f"tau2/{domain}", "sim/flawless"), task, EMPTY, 0) for task in tasks(domain)]
    assert len(left) == n
    assert [(t.trial.task_id, t.status, t.score) for t in left if not t.success] == []
    assert all(t.truth == {"slips": {}, "fatal": None, "cause": None} for t in left)


# -- slips -------------------------------------------------------------------------------------------------------


def test_each_domain_has_its_kinds_of_slip() -> None:
    """At least eight that tasks bring out, two of them quirks that some profile has, three of them defects."""
    for domain in DOMAINS:
        names = [s.name for s in CATALOGUE[domain]]
        assert len(set(names)) == len(names)
        out = {s.name: s for t in tasks(domain) for s in provider.susceptible(t.benchmark, t.id)}
        quirks = {n for n, s in out.items() if s.quirk}
        assert len(out) >= 8 and len(quirks) >= 2 and len(out) - len(quirks) >= 6
        assert all(any(q in p.quirks for p in PROFILES.values()) for q in quirks)
        assert {s.cause for s in out.values()} == {"defect", "quirk"}


LIVE = [pytest.param(d, s, id=f"{d}-{s.name}") for d, s in EVERY_SLIP]


@pytest.mark.parametrize(("domain", "slip"), LIVE)
def test_each_slip_alone_costs_a_trial(forced: Any, domain: str, slip: Slip) -> None:
    """On the first tasks where it can happen: it fires, its name is the fatal cause, and the trial fails for it."""
    left = []
    for task in where_possible(domain, slip)[:3]:
        left.append(forced(task, slip))
        assert left[-1].status == "scored"
        if left[-1].success:
            continue  # a wrong act without effect, such as a booking that takes "1" for 1
        assert left[-1].truth == {"slips": {slip.name: "fatal"}, "fatal": slip.name, "cause": slip.cause}
        break
    assert left and left[-1].score == 0.0


FORMS = [p for p in LIVE if p.values[1].form and not p.marks]


@pytest.mark.parametrize(("domain", "slip"), FORMS)
def test_a_wrong_form_is_rejected_by_the_environment(forced: Any, domain: str, slip: Slip) -> None:
    """``form`` says that the wrong call has no effect: an error or an empty result."""
    left = forced(where_possible(domain, slip)[0], slip)
    results = [m for m in left.messages if m.role == "tool"]
    assert results[-1].error or results[-1].content == "[]"
    assert not any(m.error for m in results[:-1])


def test_a_harmless_slip_leaves_the_score(forced: Any) -> None:
    """A form slip where the gold plan writes nothing and nothing else is owed."""
    slip = named("airline", "reservation_id_form")
    task = next(t for t in where_possible("airline", slip) if not provider._scene(t.benchmark, t.id).writes)
    left = forced(task, slip)
    assert left.score == 1.0 and left.truth["slips"] == {slip.name: "fatal"}


def test_a_blunder_fails_and_no_text_prevents_it(forced: Any) -> None:
    task = next(t for t in tasks("retail") if provider._scene(t.benchmark, t.id).writes)
    left = forced(task, BLUNDER)
    assert left.score == 0.0 and left.truth == {
        "slips": {"blunder": "fatal"},
        "fatal": "blunder",
        "cause": "quirk",
    }
    assert not any(re.search(BLUNDER.hint, text) for text in GUIDANCE.values())


def test_rates_order_the_profiles() -> None:
    """Share of (task, seed) pairs in which anything goes wrong."""
    pairs = [(t, seed) for d in DOMAINS for t in tasks(d) for seed in range(3)]
    share = {
        name: sum(bool(provider.active(p, t.benchmark, t.id, s, [])) for t, s in pairs) / len(pairs)
        for name, p in PROFILES.items()
    }
    assert share["flawless"] == 0.0
    assert 0.1 < share["large"] < share["medium"] < share["small"] < 0.95


# -- what reacts to what -----------------------------------------------------------------------------------------


@each_slip
def test_matching_guidance_suppresses_a_slip(domain: str, slip: Slip) -> None:
    text = GUIDANCE[slip.name]
    assert re.search(slip.hint, text, re.I | re.S)
    profile = replace(STUBBORN, quirks=(slip.name,))
    for task in susceptible(domain, slip.name)[:2]:

        def names(texts: Sequence[str], task: Task = task) -> set[str]:
            return {s.name for s in provider.active(profile, task.benchmark, task.id, 0, texts)}

        assert slip.name in names([]) and slip.name in names(["Be polite and brief."])
        assert slip.name not in names([text])
        assert slip.name in {s.name for s in provider.active(
            replace(profile, heed=0.0), task.benchmark, task.id, 0, [text]
        )}  # fmt: skip


def test_the_policy_alone_suppresses_nothing() -> None:
    """Only what the harness adds counts: the benchmark's own prompt and tools are no guidance."""
    bench = load_benchmark("tau2/retail")
    tools = [
        {"type": "function", "function": {k: t[k] for k in ("name", "description", "parameters")}}
        for t in bench.tools
    ]
    assert provider.guidance(bench.name, bench.system_prompt, tools) == []
    tools[0]["function"]["description"] += " Send digits only."
    brief = bench.system_prompt + "\n<skills>\nFirst.\n\nSecond.\n</skills>"
    texts = provider.guidance(bench.name, brief, tools)
    assert texts[:2] == ["First.", "Second."]
    assert (
        len(texts) == 3
        and texts[2].startswith(f"{tools[0]['function']['name']}: ")
        and "digits only" in texts[2]
    )


@pytest.mark.parametrize("layer", ["skills", "contract"])
def test_guidance_in_the_prompt_or_in_a_tool_saves_the_trial(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, layer: str
) -> None:
    """End to end: the text reaches the model through the harness, and the official score rises."""
    monkeypatch.setitem(PROFILES, "small", STUBBORN)
    name, source = "order_id_form", {
        "skills": "def brief(opening, policy):\n    return 'An order id starts with #: always keep it.'\n",
        "contract": "def describe(tool):\n"
        "    if 'order_id' not in tool['parameters']['properties']:\n        return tool\n"
        "    return {**tool, 'description': 'order_id must look exactly like #W1234567. ' + tool['description']}\n",
    }  # fmt: skip
    (tmp_path / f"{layer}.py").write_text(source[layer])
    others = {
        t.id
        for s in CATALOGUE["retail"]
        if s.name != name and not s.quirk
        for t in susceptible("retail", s.name)
    }
    task = next(t for t in susceptible("retail", name) if t.id not in others)
    bare, guided = (run_trial(Setup(task.benchmark, "sim/small"), task, h, 0) for h in (EMPTY, tmp_path))
    assert (bare.score, bare.truth["fatal"]) == (0.0, name)
    assert (guided.score, guided.truth["slips"]) == (1.0, {})
    assert guided.harness_tokens > 0


def test_bloat_costs_heed() -> None:
    """Every thousand tokens of harness text make the same guidance count for less."""
    task, text = susceptible("retail", "order_id_form")[0], GUIDANCE["order_id_form"]

    def slips(texts: list[str]) -> int:
        profile = replace(STUBBORN, heed=0.9)
        out = [provider.active(profile, task.benchmark, task.id, seed, texts) for seed in range(200)]
        return sum("order_id_form" in {s.name for s in active} for active in out)

    short, long, huge = slips([text]), slips([text, "x" * 40_000]), slips([text, "x" * 120_000])
    assert slips([]) == 200
    assert 8 <= short <= 35 and short + 40 < long < huge == 200


def refusing(condition: str) -> str:
    return (
        f"def check(call, view):\n    if {condition}:\n        return Refuse('Wrong form.', 'Send the right form.')\n"
        "    return Allow()\n"
    )


def test_a_refusal_lets_it_correct_itself(forced: Any) -> None:
    slip = named("retail", "order_id_form")
    task = where_possible("retail", slip)[0]
    guard = refusing("not call.arguments.get('order_id', '#').startswith('#')")
    saved, lost = forced(task, slip, EAGER, actions=guard), forced(task, slip, STUBBORN, actions=guard)
    assert (saved.score, saved.truth["slips"], saved.truth["fatal"]) == (1.0, {slip.name: "corrected"}, None)
    assert (lost.score, lost.truth["slips"]) == (0.0, {slip.name: "fatal"})
    assert [i.action for i in saved.interventions] == ["refuse"] and not any(m.error for m in saved.messages)


def test_a_bare_error_is_corrected_with_its_own_chance(forced: Any) -> None:
    slip = named("retail", "order_id_form")
    task = where_possible("retail", slip)[0]
    left = forced(task, slip, replace(STUBBORN, recover_error=1.0))
    assert (left.score, left.truth["slips"]) == (1.0, {slip.name: "corrected"})
    assert sum(m.error for m in left.messages) == 1


def test_a_note_breaks_a_loop(forced: Any) -> None:
    slip = named("retail", "loop")
    task = where_possible("retail", slip)[0]
    watch = (
        "def observe(call, result, view):\n"
        "    return 'You have this already.' if sum(d.call.arguments == call.arguments for d in view.done) > 2 else None\n"
    )
    bare, noted = forced(task, slip, EAGER), forced(task, slip, EAGER, regulation=watch)
    assert (bare.score, bare.truth["slips"]) == (0.0, {"loop": "fatal"})
    assert (noted.score, noted.truth["slips"]) == (1.0, {"loop": "corrected"})


def test_a_stopped_claim_is_made_good(forced: Any) -> None:
    slip = named("retail", "stop_early")
    task = where_possible("retail", slip)[0]
    watch = (
        "def on_reply(text, view):\n"
        "    if 'made that change' in text:\n        return Refuse('Nothing was changed.', 'Make the change.')\n"
        "    return Allow()\n"
    )
    bare, stopped = forced(task, slip, EAGER), forced(task, slip, EAGER, regulation=watch)
    assert (bare.score, bare.truth["slips"]) == (0.0, {"stop_early": "fatal"})
    assert (stopped.score, stopped.truth["slips"]) == (1.0, {"stop_early": "corrected"})


def test_a_rewrite_puts_a_wrong_form_right(forced: Any) -> None:
    slip = named("retail", "order_id_form")
    task = where_possible("retail", slip)[0]
    source = (
        "def check(call, view):\n    given = call.arguments.get('order_id', '#')\n"
        "    if given.startswith('#'):\n        return Allow()\n"
        "    return Rewrite(arguments={**call.arguments, 'order_id': '#' + given})\n"
    )
    left = forced(task, slip, actions=source)
    assert (left.score, left.truth["slips"]) == (1.0, {slip.name: "corrected"})


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_legal_call_refused_makes_it_give_up(tmp_path: Path, domain: str) -> None:
    """So an over-broad guard loses trials that pass without it."""
    (tmp_path / "actions.py").write_text(HEAD + refusing("view.kind(call.name) == 'write'"))
    task = next(t for t in tasks(domain) if provider._scene(t.benchmark, t.id).writes)
    left = run_trial(Setup(task.benchmark, "sim/flawless"), task, tmp_path, 0)
    first = provider._scene(task.benchmark, task.id).writes[0].name
    assert left.score == 0.0
    assert left.truth == {"slips": {f"refused:{first}": "fatal"}, "fatal": f"refused:{first}", "cause": None}
    assert [i.action for i in left.interventions] == ["refuse"]  # it does not try again


# -- same in, same out -------------------------------------------------------------------------------------------


def request(task: Task, said: Sequence[str] = (), seed: int = 0) -> dict[str, Any]:
    """A first request of the agent, or one after results."""
    bench = load_benchmark(task.benchmark)
    messages = [
        {"role": "system", "content": bench.system_prompt},
        {"role": "assistant", "content": bench.opening},
        {"role": "user", "content": "Help me."},
    ]
    for n, result in enumerate(said):
        messages += [
            {"role": "assistant", "content": None},
            {"role": "tool", "content": result, "tool_call_id": str(n)},
        ]
    return {
        "messages": messages,
        "tools": [],
        "seed": seed,
        "metadata": {"benchmark": bench.name, "task_id": task.id},
    }


def test_an_answer_depends_on_the_request_alone() -> None:
    """Not on what was asked before, nor on how often."""
    some = [request(t, said, seed) for t in tasks("retail")[:6] for said in ((), ("{}",)) for seed in (0, 1)]
    forward = [provider.agent_act("small", r) for r in some]
    backward = [provider.agent_act("small", r) for r in reversed(some)]
    assert forward == backward[::-1] and len({str(a) for a in forward}) > 3


def test_seeds_and_profiles_draw_on_their_own() -> None:
    task = max(tasks("retail"), key=lambda t: len(provider.susceptible(t.benchmark, t.id)))
    drawn = {
        (name, seed): tuple(
            s.name for s in provider.active(PROFILES[name], task.benchmark, task.id, seed, [])
        )
        for name in ("medium", "large")
        for seed in range(12)
    }
    assert len({drawn["large", s] for s in range(12)}) > 1
    assert [drawn["medium", s] for s in range(12)] != [drawn["large", s] for s in range(12)]


DIGEST = """
import hashlib
from dataclasses import replace
from ecdysis_lab.benchmarks import load_benchmark
from ecdysis_lab.harness import SHIPPED, load_harness
from ecdysis_lab.records import to_json
from ecdysis_lab.harness.rollout import Setup, run_trial
left = [run_trial(Setup("tau2/retail", "sim/quirky"), t, SHIPPED / "empty", 3)
        for t in load_benchmark("tau2/retail").tasks("test", 4, 2)]
stable = [to_json(replace(t, seconds=0.0, usage={})) for t in left]
print(hashlib.sha256("".join(stable).encode()).hexdigest())
"""


def test_another_process_with_another_hash_seed_gets_the_same_trajectories() -> None:
    here = io.StringIO()
    with contextlib.redirect_stdout(here):
        exec(DIGEST, {})
    environment = {"PYTHONHASHSEED": "1", "PATH": "", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    root = SHIPPED.parents[2]
    there = subprocess.run(
        [sys.executable, "-c", DIGEST], cwd=root, check=True, capture_output=True, text=True, env=environment
    )
    assert there.stdout == here.getvalue() and len(there.stdout.strip()) == 64


# -- the planted cause stays hidden ------------------------------------------------------------------------------


def slipped(n: int = 6) -> list[Trajectory]:
    """Failed trials of the small model, with their truth."""
    left = (run_trial(Setup("tau2/retail", "sim/small"), t, EMPTY, 0) for t in tasks("retail"))
    return [t for t, _ in zip((t for t in left if t.score == 0.0 and t.truth["fatal"]), range(n))]


def test_truth_reaches_no_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the names of slips nor the gold plan are in what the two models are sent."""
    import litellm

    sent: list[dict[str, Any]] = []
    real = litellm.completion

    def spy(**request: Any) -> Any:
        sent.append(request)
        return real(**request)

    monkeypatch.setattr(litellm, "completion", spy)
    failed = slipped(3)
    text = json.dumps([{k: v for k, v in r.items() if k != "metadata"} for r in sent])
    assert len(sent) > 10 and all(s.name not in text for s in CATALOGUE["retail"] if "_" in s.name)
    assert {frozenset(r["metadata"]) for r in sent} == {frozenset({"benchmark", "task_id", "role"})}
    assert all(t.truth["slips"] for t in failed)


def test_truth_reaches_no_card_no_review_and_no_plain_read_of_the_store(tmp_path: Path) -> None:
    bench = load_benchmark("tau2/retail")
    marked = [
        replace(t, truth={"slips": {"CANARY": "fatal"}, "fatal": "CANARY", "cause": "CANARY"})
        for t in slipped(3)
    ]
    for disclosure in ("transcript", "checks", "scenario"):
        failures = find_failures(marked, 1.0, disclosure, scenario=lambda i: f"scenario {i}")
        noise = {f.key: (-1, 0.0) for f in failures}
        patterns = Patterns((), noise, {}, "signature", "none", 1.0, None)
        picks = Subset(tuple(Pick(f.key, 1.0, "") for f in failures), 3, 3)
        context = build_context(failures, patterns, picks, marked, load_harness(EMPTY), bench, contract="")
        assert len(failures) == 3 and "CANARY" not in context.text
        assert not any("CANARY" in f.card + str(f.path) + f.first_bad_what for f in failures)
    store = Store(tmp_path)
    for trajectory in marked:
        store.put(trajectory)
        kept = store.get(trajectory.key)
        assert kept is not None and "CANARY" not in to_json(kept)
        asked = store.get(trajectory.key, with_truth=True)
        assert asked is not None and asked.truth["fatal"] == "CANARY"
    assert not any("CANARY" in to_json(t) for t in store.trajectories())


def test_the_context_of_the_model_holds_no_truth() -> None:
    for trajectory in slipped(3):
        seen = json.dumps([asdict(m) for m in (*trajectory.context, *trajectory.messages)])
        assert trajectory.truth["fatal"] not in seen and '"corrected"' not in seen


# -- through LiteLLM ---------------------------------------------------------------------------------------------


def test_it_is_a_provider_of_litellm() -> None:
    """A plain ``litellm.completion`` gets a real response with usage and no cost."""
    import litellm

    from ecdysis_lab.models.sim import register

    register()
    register()
    assert sum(entry["provider"] == "sim" for entry in litellm.custom_provider_map) == 1
    task = tasks("retail")[0]
    asked = request(task)
    answer = litellm.completion(
        model="sim/flawless", messages=asked["messages"], tools=None, metadata=asked["metadata"], seed=0
    )
    call = answer.choices[0].message.tool_calls[0]
    first = provider._scene(task.benchmark, task.id).plan[0]
    assert Call(call.function.name, json.loads(call.function.arguments)) == first
    assert answer.choices[0].finish_reason == "tool_calls"
    assert answer.usage.prompt_tokens == len(json.dumps(asked["messages"] + [])) // 4 + len("[]") // 4
    assert answer.usage.completion_tokens == len(json.dumps(first.arguments)) // 4
    assert litellm.completion_cost(completion_response=answer) == 0.0


def test_through_llm_complete() -> None:
    task = tasks("retail")[0]
    asked = request(task)
    answer = complete("agent", "sim/flawless", asked["messages"], metadata=asked["metadata"], seed=0)
    assert [(c.name, c.arguments) for c in answer.calls] == [
        (c.name, c.arguments) for c in provider._scene(task.benchmark, task.id).plan[:1]
    ]
    assert answer.usage.calls == 1 and answer.usage.cost_usd == 0.0 and answer.usage.prompt_tokens > 500


def test_mistakes_name_the_choices() -> None:
    messages = [{"role": "user", "content": "Hi"}]
    with pytest.raises(
        PermanentError, match=r"unknown model 'sim/tiny'; choose one of sim/small, sim/medium"
    ):
        complete("agent", "sim/tiny", messages)
    with pytest.raises(
        PermanentError, match="sim/small plays benchmark tasks only; it was asked without one"
    ):
        complete("editor", "sim/small", messages)


# -- the simulated user ------------------------------------------------------------------------------------------

SCENARIO = """<scenario>
Instructions:
\tDomain: retail
Reason for call:
\tYou want to return your lamp.
Known info:
\tYou are Mia Li, and your zip code is 12345.
</scenario>"""


def reply(*talk: str) -> str:
    """The user's next message after agent and user took turns."""
    turns = [{"role": "user" if n % 2 == 0 else "assistant", "content": text} for n, text in enumerate(talk)]
    return user.reply([{"role": "system", "content": SCENARIO}, *turns])


def test_the_user_speaks_from_the_scenario() -> None:
    opening = "I want to return my lamp. I am Mia Li, and my zip code is 12345."
    assert reply("Hi!") == opening
    assert reply("Hi!", opening, "What is your zip code?") == "I am Mia Li, and my zip code is 12345."
    assert reply("Hi!", opening, "I will return it. Do you confirm (yes/no)?") == "Yes, please proceed."
    assert reply("Hi!", opening, "Noted.") == "What I need is this: I want to return my lamp."
    assert reply("Hi!", opening, "Is there anything else?") == "No, that is all. Thank you. ###STOP###"
    assert reply("Hi!", opening, "YOU ARE BEING TRANSFERRED TO A HUMAN AGENT.") == "###TRANSFER###"
    assert reply(*(["Noted.", "So?"] * user.PATIENCE_TURNS), "Noted.").endswith("###STOP###")


def test_the_reviewer_cites_two_tasks_where_it_can_and_proposes_nothing_of_one_where_two_are_shown() -> None:
    """Six trials of T1 claim work that they did not do, then one of T2; the loop is on T1 only."""
    tool = Event(1, "call", "pay", "{}")
    yes, claim = (
        Event(1, "user", "", "Yes, please do."),
        Event(2, "assistant", "", "Your booking is cancelled."),
    )
    several = tuple(Excerpt(f"{n:08x}", 0, "T2" if n == 6 else "T1", (), (yes, claim)) for n in range(7))
    looped = Excerpt("0000000f", 0, "T1", (), (tool, tool, tool))
    kinds = {"pay": "write"}
    seen = Evidence((*several, looped), {}, kinds, (), "", frozenset({0}), arguments={"pay": ()})
    by_kind = {f.guard["kind"]: f for f in find(seen)}
    assert by_kind["unfinished_work"].evidence[:2] == ("00000000#2", "00000006#2")
    assert object_to(by_kind["unfinished_work"], seen) == ""
    assert "though several show its pattern" in object_to(by_kind["repeat_breaker"], seen)
    alone = replace(seen, excerpts=(looped,))
    assert object_to(by_kind["repeat_breaker"], alone) == ""
    assert object_to(by_kind["repeat_breaker"], replace(seen, auxiliary=True)) == ""
