"""A report as one HTML file: Plotly once, inside; no request leaves the page."""

from __future__ import annotations

import base64
import html
from pathlib import Path
from typing import TYPE_CHECKING

from ecdysis_lab.show.tables import readable
from ecdysis_lab.store import commit_hash
from ecdysis_lab.store.spreadsheet import to_csv

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

    from ecdysis_lab.show.report.build import Report, Section

STYLE = """
body{margin:0 auto;max-width:1048px;padding:24px;color:#222}
body{font:15px/1.5 Arial,Helvetica,"Liberation Sans",sans-serif} h1{font-size:27px;margin:0 0 4px}
h2{font-size:22px;margin:44px 0 8px;border-bottom:2px solid #e3e5e8;padding-bottom:4px}
h3{font-size:17px;margin:30px 0 6px} a{color:#0072b2} p{margin:6px 0 12px;max-width:820px}
nav{columns:2;margin:18px 0;font-size:14px} nav a{display:block;text-decoration:none;padding:1px 0}
nav .l3{padding-left:16px;color:#5f6368}
table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums;margin:8px 0 16px}
td,th{padding:4px 10px 4px 0;text-align:left;border-bottom:1px solid #e3e5e8;vertical-align:top}
th{color:#5f6368;font-weight:600} .wide{overflow-x:auto}
.simulated{background:#fdecea;color:#8a0000;padding:8px 14px;border-radius:4px;font-weight:bold;margin:14px 0}
.published{background:#f1f3f4;padding:2px 18px 10px;border-radius:6px;margin-top:44px} .published h2{margin-top:14px}
figure{margin:12px 0 20px} figcaption{font-size:12px;color:#5f6368} summary{cursor:pointer;color:#0072b2;margin:8px 0}
footer{margin-top:56px;border-top:2px solid #e3e5e8;padding-top:10px;font-size:12px;color:#5f6368}
@media print{nav,summary{display:none} body{padding:0}}
"""


def page(report: Report) -> str:
    """The whole file as text."""
    import plotly

    script = (Path(plotly.__file__).parent / "package_data" / "plotly.min.js").read_text(encoding="utf-8")
    mark = "SIMULATED. The models are planted-defect simulations; nothing here is a result about real ones."
    banner = f'<div class="simulated">{mark}</div>' if report.footer.simulated else ""
    title = html.escape(report.title)
    body = "\n".join(_section(n, section) for n, section in enumerate(report.sections))
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title><style>{STYLE}</style>
<script>{script}</script></head><body>
<h1>{title}</h1>{banner}
<nav>{_contents(report)}</nav>
{body}
<noscript><p>Figures are drawn by JavaScript inside this file; the table behind each is linked below it.</p></noscript>
<footer>{html.escape(report.footer.text)}<br>report written by ecdysis_lab at commit {html.escape(commit_hash())};
wall clock of its runs {report.seconds:,.0f} s</footer>
</body></html>
"""


def _contents(report: Report) -> str:
    return "".join(
        f'<a class="l{s.level}" href="#s{n}">{html.escape(s.title)}</a>'
        for n, s in enumerate(report.sections)
    )


def _section(n: int, section: Section) -> str:
    inside = [f"<p>{section.words}</p>" if section.words else ""]
    inside += [_figure(f"s{n}-{name}", *pair) for name, pair in section.plots.items()]
    for i, (heading, frame) in enumerate(section.tables):
        inside.append((f"<h3>{html.escape(heading)}</h3>" if heading else "") + _table(f"s{n}-{i}", frame))
    content = "\n".join(inside)
    if section.folded:
        content = f"<details><summary>Show</summary>{content}</details>"
    head = f'<h{section.level} id="s{n}">{html.escape(section.title)}</h{section.level}>'
    return f'<section class="{section.ground}">{head}\n{content}</section>'


def _figure(name: str, figure: go.Figure, frame: pd.DataFrame) -> str:
    drawing = figure.to_html(
        full_html=False, include_plotlyjs=False, config={"displaylogo": False}, div_id=f"fig-{name}"
    )
    csv = base64.b64encode(to_csv(frame).encode()).decode()
    link = f'<a download="{name}.csv" href="data:text/csv;base64,{csv}">Table behind this figure (CSV)</a>'
    return f"<figure>{drawing}<figcaption>{link}</figcaption></figure>"


def _table(name: str, frame: pd.DataFrame) -> str:
    if frame.empty:
        return "<p>Nothing to show.</p>"
    return f'<div class="wide">{readable(frame).set_uuid(name).to_html()}</div>'
