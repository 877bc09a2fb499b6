"""The JavaScript, CSS and HTML of the widgets, kept in files under ``static``. Python computes, they only draw.

All of it works offline. Texts reach a page through ``textContent``, or as HTML that ``trace.py`` escaped.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@cache
def asset(*names: str) -> str:
    """Text of files of ``static``, one after the other, read when first asked for."""
    folder = files("ecdysis_lab.show.widgets") / "static"
    return "".join((folder / name).read_text(encoding="utf-8") for name in names)


@dataclass(frozen=True)
class Page:
    """HTML that a notebook shows in the widgets' style; ``html`` is the bare fragment."""

    html: str

    def _repr_html_(self) -> str:
        return f"<style>{asset('style.css')}</style>{self.html}"
