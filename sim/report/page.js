// What mouse, keys, buttons and paper do with the picture.

// ---- What the mouse points at

// A bar, or an instant of a rank's memory, or nothing.
function pointedAt(px, py) {
  const row = Math.floor((py - top) / pitch());
  if (px < margin || row < 0 || row >= tracks.length) return null;
  const below = py - memoryTop(row);
  if (below >= 0 && below < memory()) return { row, at: Math.round(valueAt(px)) };
  const side = py < trackTop(row, 1) ? 0 : 1;
  if (py >= trackTop(row, 2)) return null;
  const hits = (bar) => px >= x(from(bar)) - 1 && px <= Math.max(x(to(bar)), x(from(bar)) + 1);
  const own = tracks[row][side];
  const bar = own.work.findLast(hits) || (bySlot() ? null : own.transfers.findLast(hits));
  return bar ? { bar } : null;
}

const later = (ns) => (ns === 0 ? `as in the ${data.nouns[0]}` :
  `${time(Math.abs(ns))} ${ns > 0 ? "later" : "earlier"} than in the ${data.nouns[0]}`);
const signed = (ns) => (ns === 0 ? "-" : (ns > 0 ? "+" : "") + time(ns));

function made(tag, text) {
  const node = document.createElement(tag);
  node.textContent = text;
  return node;
}

function tableOf(rows) {
  const table = document.createElement("table");
  rows.forEach((row, i) => {
    const line = table.insertRow();
    row.forEach((text, j) => {
      line.appendChild(made(i && j ? "td" : "th", text)).className = j ? "n" : "";
    });
  });
  return table;
}

function describe(bar) {
  const both = bothOf(bar);
  const rows = [["", ...sides, "difference"]];
  for (const [name, value] of [["start", (own) => own.start], ["end", (own) => own.end],
    ["duration", (own) => own.end - own.start], ["slack", (own) => own.slack]]) {
    if (name === "slack" && data.blocks) continue;
    const [predicted, measured] = both.map((own) => own && value(own));
    const isBoth = both[0] && both[1];
    rows.push([name, ...[predicted, measured].map((ns) => (ns === undefined ? "" : time(ns))),
      isBoth ? signed(measured - predicted) : ""]);
  }
  const where = bar.sender === undefined ? `rank ${bar.rank}` : `rank ${bar.sender} to ${bar.rank}`;
  const text = [made("p", `${bar.name}, ${where}`), tableOf(rows)];
  if (data.blocks) {
    text.push(made("p", `own error ${signed(bar.own)}; ends up to ${later(bar.late)}`));
  } else if (bar.late !== null) {
    text.push(made("p", `ends ${later(bar.late)}; by cause`));
    text.push(tableOf([["own", "launch", "communication", "inherited"],
      data.operations[bar.id][5].map(signed)]));
  } else if (!both[0] || !both[1]) {
    text.push(made("p", `only ${sides[bar.side]}`));
  }
  const paths = both.filter((own) => own && critical[own.side].has(own.id)).map((own) => sides[own.side]);
  if (paths.length) text.push(made("p", `on the critical path, ${paths.join(" and ")}`));
  return text;
}

function describeMemory({ row, at }) {
  const held = data.memory.map((curves, side) => {
    const curve = curves[row] || [];
    let last = null;
    for (let i = 0; i < curve.length && curve[i] + zero(side) <= at; i += 2) last = curve[i + 1];
    return last === null ? "" : bytes(last);
  });
  return [made("p", `rank ${data.ranks[row]} at ${time(at)}`), tableOf([["", ...sides], ["holds", ...held]])];
}

function point(event) {
  const tip = element("tip");
  const found = pointedAt(event.offsetX, event.offsetY);
  const isNew = (found && found.bar) !== (view.under && view.under.bar);
  view.under = found;
  if (isNew) draw();
  tip.hidden = !found;
  if (!found) return;
  if (isNew || !found.bar) tip.replaceChildren(...(found.bar ? describe(found.bar) : describeMemory(found)));
  const beside = (at, size, room) => Math.max(0, at + 16 + size > room ? at - 12 - size : at + 16);
  tip.style.left = beside(event.clientX, tip.offsetWidth, innerWidth) + "px";
  tip.style.top = beside(event.clientY, tip.offsetHeight, innerHeight) + "px";
}

function leave() {
  element("tip").hidden = true;
  view.under = null;
  draw();
}

// ---- Zooming and moving

function show(low, high) {
  const [first, last] = extent();
  const span = Math.min(last - first, Math.max(high - low, (last - first) / 1e5, bySlot() ? 2 : 10));
  view.from = Math.min(Math.max(first, low), last - span);
  view.to = view.from + span;
  draw();
}
const reset = () => show(...extent());
const move = (by) => show(view.from + by, view.to + by);
const zoom = (factor, around) =>
  show(around - (around - view.from) * factor, around + (view.to - around) * factor);

canvas.addEventListener("wheel", (event) => {
  const [first, last] = extent();
  const sideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
  // Where there is nothing to zoom out of or to move, the page scrolls.
  const isWhole = view.to - view.from >= (last - first) * 0.9999;
  if (event.offsetX < margin || (isWhole && (sideways || event.deltaY > 0))) return;
  event.preventDefault();
  if (sideways) {
    move((event.deltaX || event.deltaY) / width() * (view.to - view.from));
  } else {
    zoom(1.0018 ** event.deltaY, valueAt(event.offsetX));
  }
}, { passive: false });

let dragged = null;
canvas.addEventListener("pointerdown", (event) => {
  if (event.button !== 0 || event.offsetX < margin) return;
  dragged = { px: event.offsetX, isRange: event.shiftKey };
  canvas.setPointerCapture(event.pointerId);
});
canvas.addEventListener("pointermove", (event) => {
  if (!dragged) return point(event);
  element("tip").hidden = true;
  if (dragged.isRange) {
    view.marked = [dragged.px, event.offsetX];
    return draw();
  }
  move((dragged.px - event.offsetX) / width() * (view.to - view.from));
  dragged.px = event.offsetX;
});
canvas.addEventListener("pointerup", () => {
  const marked = view.marked;
  dragged = view.marked = null;
  if (marked && marked[0] !== marked[1]) show(...marked.map(valueAt).sort((a, b) => a - b));
});
canvas.addEventListener("pointercancel", () => { dragged = view.marked = null; draw(); });
canvas.addEventListener("pointerleave", leave);
canvas.addEventListener("keydown", (event) => {
  const span = view.to - view.from;
  const middle = view.from + span / 2;
  const act = { ArrowLeft: () => move(-span / 5), ArrowRight: () => move(span / 5), 0: reset,
    "+": () => zoom(0.7, middle), "-": () => zoom(1 / 0.7, middle) }[event.key];
  if (!act || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  act();
});

// ---- Buttons and the legend

function press(group, value) {
  view[group] = value;
  for (const button of element(group).children) {
    button.setAttribute("aria-pressed", String(button.dataset.value === value));
  }
}

function showLegend() {
  const swatch = (name, text) => `<span><b style="background:var(--${name})"></b>${text}</span>`;
  const isUsed = (name) => work.some((bar) => bar.parts.some((part) => part[0] === name));
  const kinds = colourNames.map((name, i) => (isUsed(name) ? swatch(name, data.words[i]) : "")).join("") +
    (transfers.length ? swatch("neutral", "transfer to this rank") : "");
  const most = time(largest[view.colour] || 0);
  const scale = `<span>${sides[1]}: -${most}<b class="scale"></b>+${most} ` +
    `${view.colour === "late" ? "later" : "longer"} than in the ${data.nouns[0]}</span>` +
    (work.some((bar) => bar[view.colour] === null) ? swatch("other", "in one run only") : "");
  element("legend").innerHTML = (view.colour === "kind" ? kinds : scale) +
    (memory() ? `<span>memory: dashed ${sides[0]}, filled ${sides[1]}</span>` : "");
}

for (const group of ["align", "colour"]) {
  element(group).addEventListener("click", (event) => {
    if (!event.target.dataset.value) return;
    press(group, event.target.dataset.value);
    if (group === "align" && bySlot()) press("colour", "late");
    showLegend();
    if (group === "align") reset(); else draw();
  });
}
element("reset").addEventListener("click", reset);
element("critical").addEventListener("click", (event) => {
  view.critical = !view.critical;
  event.target.setAttribute("aria-pressed", String(view.critical));
  draw();
});

// ---- Causes

function choose(cause) {
  view.cause = view.cause === cause ? -1 : cause;
  const chosen = element("chosen");
  chosen.hidden = view.cause < 0;
  for (const row of document.querySelectorAll("tr[data-cause]")) {
    const button = row.querySelector("button");
    const isThis = Number(row.dataset.cause) === view.cause;
    row.classList.toggle("chosen", isThis);
    button.setAttribute("aria-pressed", String(isThis));
    if (!isThis) continue;
    chosen.textContent = button.textContent + (causes[cause].size ? "" : "; nothing of it is in the picture");
    chosen.append(made("button", "show all"));
    // To the top of the picture, or further where the first row concerned is below.
    const first = tracks.findIndex((both) => both.some((own) => [...own.work, ...own.transfers].some(isChosen)));
    const bottom = canvas.offsetTop + trackTop(first, 2) + 60;
    scrollTo({ top: Math.max(element("picture").offsetTop, bottom - innerHeight), behavior: "smooth" });
  }
  draw();
}
element("chosen").addEventListener("click", (event) => {
  if (event.target.tagName === "BUTTON") choose(view.cause);
});
element("causes").addEventListener("click", (event) => {
  const row = event.target.closest("tr[data-cause]");
  if (row) choose(Number(row.dataset.cause));
});

// ---- Windows and paper

addEventListener("resize", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
for (const event of ["beforeprint", "afterprint"]) {
  addEventListener(event, () => {
    document.documentElement.classList.toggle("printing", event === "beforeprint");
    drawNow();
  });
}
showLegend();
[view.from, view.to] = extent();
drawNow();
