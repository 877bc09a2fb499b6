// Scrolls its own box only: scrollIntoView would move the whole notebook.
function openAtBad(box) {
  const bad = box.querySelector(".el-bad"), head = box.querySelector(".el-head");
  const top = bad ? bad.getBoundingClientRect().top - box.getBoundingClientRect().top + box.scrollTop : 0;
  box.scrollTop = bad ? Math.max(0, top - (head ? head.offsetHeight : 0) - 40) : 0;
}
