// A table of failures: a click on a row opens it, a click on a column's head sorts.
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
}
export default { render };
