// The exported map: a click on a point, the list, or ← and → open a trace; open_at_bad.js stands before it.
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
