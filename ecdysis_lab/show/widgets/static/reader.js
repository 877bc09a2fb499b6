// A trace reader; open_at_bad.js stands before it.
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
