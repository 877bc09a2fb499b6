"""What a pick adds to those before it, in words."""

from __future__ import annotations

from ecdysis_lab.failures.coverage import WRONG, Coverage
from ecdysis_lab.failures.transcript import shorten
from ecdysis_lab.records import Patterns


def reason_of(coverage: Coverage, patterns: Patterns, i: int, second: bool = False) -> str:
    """What a pick adds, as the end of a sentence.

    Parameters
    ----------
    coverage : before the pick. patterns : of all failures. i : position of the pick.
    second : whether it is the second task of its pattern.
    """
    steps, _, closer = coverage.parts(i)
    label = coverage.labels[i]
    where = f"pattern {label}"
    new = {what for _, what in coverage.pairs[i] - coverage.seen_pairs if what}
    wrong = [w.removeprefix(WRONG) for w in new if w.startswith(WRONG)]
    checks = ", ".join(sorted(w for w in new if not w.startswith(WRONG)))
    said = [f"is the second task of {where}"] if second else []
    if label >= 0 and not coverage.seen_by_label[label]:
        with_check = f" with the failed check {checks}" if checks else ""
        said.append(f"opens {where} ({patterns.patterns[label].name}){with_check}")
    else:
        said += [f"adds the failed check {checks} to {where}"] if checks else []
        at = f"shows {where} in a new way" if label >= 0 else "fits no pattern"
        said += [f"{at} ({shorten(w, 60)})" for w in wrong]
    if steps:
        example = min(coverage.steps[i] - coverage.seen_steps, key=_oddness)
        shown = "ending without any call" if example == ("<start>", "<end>") else " → ".join(example)
        said.append(f"adds {steps} new tool step{'s' if steps > 1 else ''}, e.g. {shown}")
    if closer >= 0.005:
        said.append(f"stands for {closer:.0%} more of all failures")
    if not said:
        return f"repeats what is covered of {where if label >= 0 else 'noise'}; it fills the budget."
    placed = "" if any(where in s for s in said) or label < 0 else f" ({where})"
    return ", ".join(said[:-1]) + (" and " if len(said) > 1 else "") + said[-1] + placed + "."


def _oddness(step: tuple[str, str]) -> tuple[bool, bool, tuple[str, str]]:
    """Sort key: steps into an error or refusal are the best examples, those at the ends the worst."""
    return (not step[1].endswith((":error", ":refused")), "<" in "".join(step), step)
