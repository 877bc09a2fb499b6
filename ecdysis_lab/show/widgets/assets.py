"""The JavaScript and CSS of the widgets and of the HTML export. Python computes, this only draws.

All of it works offline. Texts reach the page through ``textContent``, or as HTML that ``trace.py`` escaped.
"""

from __future__ import annotations

CSS = """
.el-picker, .el-reader, .el-table { font: 13px/1.4 Arial, Helvetica, sans-serif; color: #222; background: #fff; }
.el-picker:focus-within { outline: 2px solid #0072b2; outline-offset: 2px; }
.el-reader { overflow: auto; border: 1px solid #d0d3d8; position: relative; box-sizing: border-box; }
.el-trace { padding: 0 8px 8px; }
.el-head { position: sticky; top: 0; z-index: 2; background: #fff; padding: 6px 0; border-bottom: 1px solid #d0d3d8; }
.el-check { background: #b30000; color: #fff; border-radius: 3px; padding: 1px 6px; margin-right: 4px; }
.el-first { color: #b30000; } .el-facts { color: #5f6368; font-size: 12px; }
.el-facts b { font-weight: normal; color: #222; }
.el-reader .el-trace pre { margin: 2px 0; padding: 0; background: none; border: 0; white-space: pre-wrap;
  overflow-wrap: anywhere; word-break: normal; font: 12px/1.4 Arial, Helvetica, sans-serif; color: inherit; }
.el-reader .el-trace .el-call pre { font-family: Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: 11px; }
.el-trace i { color: #80868b; font-style: normal; font-size: 11px; margin-left: 6px; }
.el-trace summary { cursor: pointer; overflow-wrap: anywhere; }
.el-msg { margin: 6px 0; padding: 3px 8px; border-left: 4px solid #d0d3d8; }
.el-user { border-color: #56b4e9; background: #f2f8fc; } .el-assistant { border-color: #80868b; }
.el-call { border-color: #009e73; background: #f6f7f8; } .el-error { border-color: #d55e00; }
.el-harness { border-color: #e69f00; background: #fdf6e6; } .el-system { color: #5f6368; margin: 6px 0; }
.el-arguments { color: #5f6368; }
.el-bad { outline: 2px solid #b30000; background: #fdf0f0; scroll-margin-top: 96px; }
.el-table { overflow: auto; border: 1px solid #d0d3d8; }
.el-table table { border-collapse: collapse; width: 100%; font-size: 12px; }
.el-table th { position: sticky; top: 0; background: #eef0f2; cursor: pointer; text-align: left; padding: 3px 6px;
  white-space: nowrap; user-select: none; }
.el-table td { padding: 2px 6px; border-top: 1px solid #eef0f2; max-width: 340px; overflow: hidden;
  text-overflow: ellipsis; white-space: nowrap; text-align: left; }
.el-table tr { cursor: pointer; } .el-table tbody tr:hover { background: #f2f8fc; }
.el-table tr.el-current { background: #d8ecf8; }
.el-table tr.el-excluded td { color: #9aa0a6; text-decoration: line-through; }
.el-table tr.el-pinned td:first-child, .el-table tr.el-picked td:first-child { font-weight: bold; color: #0072b2; }
.el-legend { font: 12px/1.7 Arial, Helvetica, sans-serif; color: #222; }
.el-legend span { margin-right: 12px; white-space: nowrap; }
.el-note { font: 13px/1.5 Arial, Helvetica, sans-serif; color: #222; }
.el-alarm { color: #b30000; font-weight: bold; }
"""

# Scrolls its own box only: scrollIntoView would move the whole notebook.
READER_JS = """
function openAtBad(box) {
  const bad = box.querySelector(".el-bad"), head = box.querySelector(".el-head");
  const top = bad ? bad.getBoundingClientRect().top - box.getBoundingClientRect().top + box.scrollTop : 0;
  box.scrollTop = bad ? Math.max(0, top - (head ? head.offsetHeight : 0) - 40) : 0;
}
"""

READER_ESM = (
    READER_JS
    + """
function render({ model, el }) {
  const box = document.createElement("div");
  box.className = "el-reader";
  box.tabIndex = 0;
  el.appendChild(box);
  const draw = () => {
    box.style.height = model.get("height_pixels") + "px";
    box.innerHTML = model.get("html");
    box.dataset.key = model.get("key");
    requestAnimationFrame(() => openAtBad(box));
  };
  model.on("change:html", draw);
  draw();
}
export default { render };
"""
)

# The table also carries the keys, for the whole picker around it; JupyterLab must not take them as commands.
TABLE_ESM = """
const ACTS = { ArrowLeft: "previous", ArrowRight: "next", p: "pin", x: "exclude", u: "undo" };
function listen(picker, model) {
  picker.tabIndex = 0;
  picker.dataset.lmSuppressShortcuts = "true";
  picker.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, select, textarea, [contenteditable=true], .noUi-handle");
    if (typing || event.ctrlKey || event.metaKey || event.altKey || !(event.key in ACTS)) return;
    event.preventDefault();
    event.stopPropagation();
    model.send({ act: ACTS[event.key] });
  });
}
function render({ model, el }) {
  const box = document.createElement("div");
  box.className = "el-table";
  el.appendChild(box);
  const mark = () => {
    const marks = model.get("marks"), current = model.get("current");
    for (const row of box.querySelectorAll("tbody tr")) {
      const text = marks[row.dataset.key] || "";
      row.className = (text ? "el-" + text : "") + (row.dataset.key === current ? " el-current" : "");
      row.cells[0].textContent = text;
      if (row.dataset.key === current) {
        const at = row.offsetTop;
        if (at < box.scrollTop + 30 || at > box.scrollTop + box.clientHeight - 30) box.scrollTop = at - 80;
      }
    }
  };
  const draw = () => {
    box.style.height = model.get("height_pixels") + "px";
    const table = document.createElement("table"), [by, down] = model.get("order");
    const head = table.createTHead().insertRow();
    model.get("columns").forEach((name, i) => {
      const cell = document.createElement("th");
      cell.textContent = name + (i === by ? (down ? " ▼" : " ▲") : "");
      cell.onclick = () => model.send({ act: "sort", column: i });
      head.appendChild(cell);
    });
    const body = table.createTBody();
    for (const [key, ...cells] of model.get("rows")) {
      const row = body.insertRow();
      row.dataset.key = key;
      row.onclick = () => model.send({ act: "open", key });
      row.insertCell();
      for (const text of cells) { const cell = row.insertCell(); cell.textContent = text; cell.title = text; }
    }
    box.replaceChildren(table);
    mark();
  };
  model.on("change:rows change:order", draw);
  model.on("change:marks change:current", mark);
  draw();
  setTimeout(() => { const picker = el.closest(".el-picker"); if (picker) listen(picker, model); }, 0);
}
export default { render };
"""

EXPORT_JS = (
    READER_JS
    + """
const traces = JSON.parse(document.getElementById("traces").textContent);
const map = document.getElementById("map"), box = document.getElementById("reader");
const picker = document.getElementById("keys");
function show(key) {
  if (!(key in traces)) return;
  box.innerHTML = traces[key];
  box.dataset.key = key;
  picker.value = key;
  openAtBad(box);
  history.replaceState(null, "", "#" + key);
}
map.on("plotly_click", (event) => show(event.points[0].customdata[0]));
picker.onchange = () => show(picker.value);
document.addEventListener("keydown", (event) => {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!step || event.target === picker) return;
  const keys = [...picker.options].map((o) => o.value), n = keys.length;
  show(keys[(keys.indexOf(box.dataset.key) + step + n) % n]);
});
show(location.hash.slice(1) in traces ? location.hash.slice(1) : picker.value);
"""
)

EXPORT_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:">
<title>{title}</title>
<style>{css}
body {{ margin: 12px 16px; font: 13px Arial, Helvetica, sans-serif; color: #222; }}
#page {{ display: flex; flex-wrap: wrap; gap: 12px; align-items: flex-start; }}
#side {{ flex: 1 1 460px; min-width: 340px; }} #reader {{ height: 640px; }}
#keys {{ width: 100%; margin: 0 0 6px; padding: 3px; }}
table.patterns {{ border-collapse: collapse; margin-top: 14px; }}
table.patterns td, table.patterns th {{ padding: 3px 8px; border-top: 1px solid #d0d3d8; text-align: left;
  vertical-align: top; }}
</style></head>
<body><div id="page"><div>{figure}</div>
<div id="side"><select id="keys" aria-label="failure">{options}</select>
<div id="reader" class="el-reader" tabindex="0"></div></div></div>
{notes}
{table}
<p class="el-note">Click a point, or use ← and →, to read its trace; it opens at the first thing that went wrong.</p>
<noscript>The map and the traces need JavaScript; nothing is loaded from elsewhere.</noscript>
<script id="traces" type="application/json">{traces}</script>
<script>{script}</script>
</body></html>
"""
