"""Slips that either domain can bring out."""

from __future__ import annotations

from functools import cache
from typing import Any

from ecdysis_lab.benchmarks.tau2.dialogue import DENIED, FINAL, HUMAN, TRANSFER, customer_of
from ecdysis_lab.hooks import Call
from ecdysis_lab.models.sim.scene import Act, Scene, Slip, changed, on


@cache
def customer(scene: Scene) -> dict[str, Any]:
    """The customer's profile, or an empty dict when the scenario does not identify one."""
    return customer_of(scene.plan, scene.scenario, scene.read)


def transferred(scene: Scene) -> bool:
    """Whether the gold plan hands the customer over, so that nothing may follow."""
    return any(c.name == TRANSFER for c in scene.plan)


def _claim(scene: Scene, call: Call | None) -> list[Act] | None:
    return [f"I have made that change for you. {scene.answer}"] if scene.writes else None


def _repeat_read(scene: Scene, call: Call | None) -> list[Act] | None:
    kinds = ("get_reservation_details", "get_order_details", "get_user_details")
    return [call] * 9 if call is not None and call.name in kinds and scene.writes else None


def _transfer(scene: Scene, call: Call | None) -> list[Act] | None:
    if not scene.writes or transferred(scene):
        return None
    return [Call(TRANSFER, {"summary": "The customer asks for a change that I am not sure about."}), HUMAN]


def _other_payment(scene: Scene, call: Call | None) -> list[Act] | None:
    """The first write with another of the user's payment methods, before the user agreed to anything."""
    if call is None or call != next(iter(scene.writes), None):
        return None
    key = next((k for k in ("payment_id", "payment_method_id") if k in call.arguments), None)
    if key is not None:
        others = [m for m in sorted(customer(scene).get("payment_methods", {})) if m != call.arguments[key]]
        others = [m for m in others if not m.startswith("certificate")]
        return changed(call, **{key: others[0]}) if others else None
    if call.name == "cancel_pending_order":
        other = {"no longer needed": "ordered by mistake", "ordered by mistake": "no longer needed"}
        return changed(call, reason=other[call.arguments["reason"]])
    return None


def first_method(scene: Scene, call: Call | None) -> list[Act] | None:
    """A write paid by another method of the user."""
    return _other_payment(scene, call) if call is not None and scene.effect(call) == "write" else None


def _expression(scene: Scene, call: Call | None) -> list[Act] | None:
    return [Call("calculate", {"expression": "$120.50 + $49.99"})] if scene.writes else None


def _silence(scene: Scene, call: Call | None) -> list[Act] | None:
    bare = FINAL if scene.writes else DENIED
    return [bare] if scene.answer != bare and not transferred(scene) else None


def _unknown_tool(scene: Scene, call: Call | None) -> list[Act] | None:
    """A tool that other systems have and this one does not."""
    if not scene.writes:
        return None
    for name, key in (("get_booking", "reservation_id"), ("get_order_status", "order_id")):
        value = next((c.arguments[key] for c in scene.plan if key in c.arguments), None)
        if value:
            return [Call(name, {key: value})]
    return None


def _other_argument_name(scene: Scene, call: Call | None) -> list[Act] | None:
    assert call is not None
    for right, wrong in (("reservation_id", "reservation_number"), ("order_id", "order_number")):
        if right in call.arguments:
            rest = {k: v for k, v in call.arguments.items() if k != right}
            return [Call(call.name, {wrong: call.arguments[right], **rest})]
    return None


def _extra_argument(scene: Scene, call: Call | None) -> list[Act] | None:
    return (
        changed(call, note="requested by the customer") if call is not None and call in scene.writes else None
    )


def _spoken_payment(scene: Scene, call: Call | None) -> list[Act] | None:
    """``credit_card_1`` as a person would write it: ``Credit Card 1``."""
    if call is None or call not in scene.writes:
        return None
    key = next((k for k in ("payment_id", "payment_method_id") if k in call.arguments), None)
    return changed(call, **{key: str(call.arguments[key]).replace("_", " ").title()}) if key else None


_BY_ID = ("get_reservation_details", "get_order_details", "cancel_reservation", "cancel_pending_order")
COMMON = (
    Slip(
        "unknown_tool",
        "before_write",
        _unknown_tool,
        r"(only|no other).{0,60}tool.{0,80}(exist|listed|given)",
        share=0.16,
    ),
    Slip(
        "argument_name",
        "call",
        on(*_BY_ID)(_other_argument_name),
        r"argument.{0,80}(called|named)",
        form=True,
        share=0.16,
    ),
    Slip(
        "extra_argument",
        "call",
        _extra_argument,
        r"(no other|no further|only these|only the) argument",
        form=True,
        share=0.14,
    ),
    Slip(
        "payment_id_form",
        "call",
        _spoken_payment,
        r"payment.{0,20}id.{0,160}(form|look|exact)",
        form=True,
        share=0.22,
    ),
    Slip("stop_early", "skip_last_write", _claim, r"(before|until).{0,80}(done|complete|finish)", share=0.1),
    Slip(
        "loop",
        "loop",
        _repeat_read,
        r"(same|identical).{0,40}(call|read).{0,60}(again|twice|repeat)",
        share=0.08,
    ),
    Slip("transfer_early", "instead_of_write", _transfer, r"transfer.{0,120}(only|cannot|never)", share=0.06),
    Slip(
        "unconfirmed_write",
        "unconfirmed",
        _other_payment,
        r"(confirm|yes).{0,80}before|before.{0,80}(confirm|yes)",
        share=0.15,
    ),
    Slip(
        "expression_form",
        "before_write",
        _expression,
        r"expression.{0,160}(digits|currency|\$|plain)",
        form=True,
        share=0.08,
    ),
    Slip("omit_info", "info", _silence, r"(state|tell|answer).{0,80}(figure|number|amount|asked)", share=0.5),
)
