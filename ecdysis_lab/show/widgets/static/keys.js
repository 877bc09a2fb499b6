// Keys for the box of widgets around this one. JupyterLab must not take them as commands; typing stays typing.
const TYPING = "input, select, textarea, [contenteditable=true], .noUi-handle";
function render({ model, el }) {
  el.style.display = "none";
  setTimeout(() => {
    const box = el.closest("." + model.get("around"));
    if (!box) return;
    box.tabIndex = 0;
    box.dataset.lmSuppressShortcuts = "true";
    box.addEventListener("keydown", (event) => {
      const other = event.target.closest(TYPING) || event.ctrlKey || event.metaKey || event.altKey;
      if (other || !model.get("heard").includes(event.key)) return;
      event.preventDefault();
      event.stopPropagation();
      model.send({ key: event.key });
    });
  }, 0);
}
export default { render };
