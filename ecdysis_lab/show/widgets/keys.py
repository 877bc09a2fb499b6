"""Keys of the keyboard for a box of widgets, heard only while that box has the focus."""

from __future__ import annotations

import anywidget
import traitlets

# JupyterLab must not take the keys as its own commands, and typing in a text field stays typing.
ESM = """
function render({ model, el }) {
  el.style.display = "none";
  setTimeout(() => {
    const box = el.closest("." + model.get("around"));
    if (!box) return;
    box.tabIndex = 0;
    box.dataset.lmSuppressShortcuts = "true";
    box.addEventListener("keydown", (event) => {
      const typing = event.target.closest("input, select, textarea, [contenteditable=true]");
      if (typing || event.ctrlKey || event.metaKey || event.altKey || !model.get("heard").includes(event.key)) return;
      event.preventDefault();
      event.stopPropagation();
      model.send({ key: event.key });
    });
  }, 0);
}
export default { render };
"""


class Keys(anywidget.AnyWidget):
    """Sends ``{"key": …}`` for each key in ``heard`` pressed inside the nearest box with the class ``around``."""

    _esm = ESM
    heard = traitlets.List(traitlets.Unicode()).tag(sync=True)
    around = traitlets.Unicode("").tag(sync=True)
