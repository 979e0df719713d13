// Draws what stands as JSON in #data; comparison_picture.cpp says what that is.
// Two tracks a rank, predicted above measured, and memory below where it is known.

const element = (id) => document.getElementById(id);
const data = JSON.parse(element("data").textContent);
const canvas = element("canvas");
const pen = canvas.getContext("2d");
const sides = ["predicted", "measured"];
const view = { align: "start", colour: "kind", critical: true, cause: -1, from: 0, to: 1, under: null };

// ---- What is drawn: bars, each an action or a block of neighbours on one side

const kindColour = { F: "forward", I: "backward", B: "backward", W: "weight" };
const kindWords = { F: "forward", I: "input gradient", W: "weight gradient", B: "backward",
  SEND_F: "transfer of activations", SEND_B: "transfer of gradients", OPTIMIZER: "optimizer step",
  REDUCE_GRAD: "gradient reduction" };
const rowOfRank = new Map(data.ranks.map((rank, row) => [rank, row]));
// Of each row of the picture, of each side: bars in the order of time.
const tracks = data.ranks.map(() => sides.map(() => ({ work: [], transfers: [] })));

function nameOf([kind, stage, microbatch]) {
  return stage + data.kinds[kind] + (microbatch < 0 ? "" : microbatch);
}

function addOperations() {
  const openers = new Set(data.operations.map((row) => row[6]));
  data.operations.forEach((operation, id) => {
    if (openers.has(id)) return;  // its cell's backward stands for both
    const [kind, stage, microbatch, , , late, opener] = operation;
    const kindName = data.kinds[kind];
    const colour = kindColour[kindName] || "other";
    sides.forEach((name, side) => {
      const own = operation[3 + side];
      if (!own || !rowOfRank.has(own[0])) return;
      const [rank, slot, start, end, slack, sender] = own;
      const isTransfer = sender !== undefined;
      const bar = { id, side, rank, slot, start, end, slack, sender, count: 1,
        name: (opener < 0 ? "" : nameOf(data.operations[opener]) + " with ") + nameOf(operation),
        label: kindName[0] + (microbatch < 0 ? "" : microbatch),
        what: `${kindWords[kindName] || kindName} of stage ${stage}` +
          (microbatch < 0 ? "" : `, microbatch ${microbatch}`) +
          (opener < 0 ? "" : `, beside ${nameOf(data.operations[opener])}`),
        parts: opener < 0 ? [[colour, 1]] : [["forward", 0.5], [colour, 0.5]],
        own: late ? late[0] : null, late: late ? late[0] + late[1] + late[2] + late[3] : null };
      const track = tracks[rowOfRank.get(rank)][side];
      (isTransfer ? track.transfers : track.work).push(bar);
    });
  });
}

function addBlocks() {
  data.blocks.forEach(([side, rank, slot, count, start, end, busy, own, late, first, last], id) => {
    const whole = Math.max(1, end - start);
    const parts = ["forward", "backward", "weight", "other"].map((c, i) => [c, busy[i] / whole]);
    const name = count === 1 ? first : `${first} to ${last}`;
    tracks[rowOfRank.get(rank)][side].work.push({ id, side, rank, slot, count, start, end, own, late,
      name, label: count === 1 ? first : "", parts: parts.filter((part) => part[1] > 0),
      what: count === 1 ? "one action" : `${count} actions, ` +
        `${Math.round(100 * busy.reduce((a, b) => a + b) / whole)} % busy` });
  });
}

if (data.blocks) addBlocks(); else addOperations();
const everyTrack = tracks.flat();
for (const track of everyTrack) {
  for (const bars of [track.work, track.transfers]) bars.sort((a, b) => a.start - b.start || a.slot - b.slot);
}
const everyBar = everyTrack.flatMap((track) => [...track.transfers, ...track.work]);
const critical = data.critical.map((ids) => new Set(ids));
const causes = data.causes.map((ids) => new Set(ids));
const largest = { late: 0, own: 0 };
for (const bar of everyBar) {
  for (const key of ["late", "own"]) largest[key] = Math.max(largest[key], Math.abs(bar[key] || 0));
}
let mostBytes = 0;
for (const curve of data.memory.flat()) {
  for (let i = 1; i < curve.length; i += 2) mostBytes = Math.max(mostBytes, curve[i]);
}

// ---- Figures as text

function time(ns) {
  const size = Math.abs(ns);
  if (size < 1e3) return ns + " ns";
  const [unit, name] = size < 1e6 ? [1e3, "us"] : size < 1e9 ? [1e6, "ms"] : [1e9, "s"];
  return (ns / unit).toPrecision(4) + " " + name;
}
const signed = (ns) => (ns > 0 ? "+" : "") + (ns === 0 ? "-" : time(ns));
function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; count >= 1024 && unit < 4; ++unit) count /= 1024;
  return count.toFixed(unit ? 1 : 0) + " " + units[unit];
}

// ---- Places

const slots = () => view.align === "slot";
const zero = (side) => (view.align === "absolute" ? data.zero_ns[side] : 0);
const from = (bar) => (slots() ? bar.slot : bar.start + zero(bar.side));
const to = (bar) => (slots() ? bar.slot + bar.count : bar.end + zero(bar.side));

const extents = {};
function extent() {
  return extents[view.align] ||= everyBar.filter((bar) => bar.slot >= 0).reduce(
    ([low, high], bar) => [Math.min(low, from(bar)), Math.max(high, to(bar))], [Infinity, 1]);
}

const many = data.ranks.length;
const margin = 118;
const track = many <= 8 ? 22 : many <= 16 ? 17 : 13;
const memory = mostBytes > 0 ? 30 : 0;
const top = 48;
const pitch = 2 * track + 1 + (memory ? memory + 4 : 0) + 12;
const trackTop = (row, side) => top + row * pitch + side * (track + 1);
const memoryTop = (row) => top + row * pitch + 2 * track + 5;
const width = () => canvas.clientWidth - margin - 8;
const x = (value) => margin + (value - view.from) / (view.to - view.from) * width();
const valueAt = (px) => view.from + (px - margin) / width() * (view.to - view.from);

function show(low, high) {
  const [first, last] = extent();
  const span = Math.min(last - first, Math.max(high - low, (last - first) / 1e5, slots() ? 2 : 10));
  view.from = Math.min(Math.max(first, low), last - span);
  view.to = view.from + span;
  draw();
}

// ---- Drawing

let colours = {};
function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["ink", "faint", "line", "paper", "track", "forward", "backward", "weight", "other",
    "transfer", "late", "early", "even", "on-forward", "on-backward"]) {
    colours[name] = style.getPropertyValue("--" + name).trim();
  }
}

function mixed(share) {
  const channels = (name) => [1, 3, 5].map((i) => parseInt(colours[name].slice(i, i + 2), 16));
  const even = channels("even");
  return `rgb(${channels(share > 0 ? "late" : "early").map((end, i) =>
    Math.round(even[i] + (end - even[i]) * Math.min(1, Math.abs(share))))})`;
}

function partsOf(bar) {
  if (view.colour === "kind") return bar.parts.map(([name, share]) => [colours[name], share]);
  if (bar[view.colour] === null) return [[colours.other, 1]];
  return [[bar.side === 0 ? colours.even : mixed(bar[view.colour] / (largest[view.colour] || 1)), 1]];
}

function drawLabel(bar, left, right, y) {
  const room = right - left - 4;
  if (room < 7 || track < 13) return;
  const text = [bar.name, bar.label, bar.label.slice(1)].find((t) => t && pen.measureText(t).width <= room);
  if (!text) return;
  const onDark = view.colour === "kind" && bar.parts.length === 1 && bar.parts[0][0] === "forward";
  const plain = view.colour !== "kind" && bar.side === 0;
  pen.fillStyle = onDark ? colours["on-forward"] : plain ? colours.ink : colours["on-backward"];
  if (view.colour !== "kind" && bar.side === 1) pen.fillStyle = colours.ink;
  pen.textAlign = "center";
  pen.fillText(text, (left + right) / 2, y + track / 2 + 0.5);
}

function drawBar(bar, y) {
  const left = Math.max(x(from(bar)), margin - 2);
  const right = Math.min(x(to(bar)), margin + width() + 2);
  if (right < margin || left > margin + width()) return;
  const chosen = view.cause >= 0 && causes[view.cause].has(bar.id);
  pen.globalAlpha = view.cause < 0 || chosen ? 1 : 0.2;
  const gap = right - left > 5 ? 1 : 0;  // between neighbours
  if (bar.sender !== undefined) {
    const height = chosen ? track : track / 3;
    pen.fillStyle = chosen ? colours.late : colours.transfer;
    pen.fillRect(left, y + (track - height) / 2, Math.max(right - left, chosen ? 2 : 0), height);
  } else {
    let bottom = y;
    for (const [colour, share] of partsOf(bar)) {
      pen.fillStyle = colour;
      pen.fillRect(left, bottom, right - left - gap, track * share);
      bottom += track * share;
    }
    if (right - left > 9) drawLabel(bar, left, right, y);
  }
  if (view.critical && critical[bar.side].has(bar.id) && bar.sender === undefined) {
    pen.strokeStyle = pen.fillStyle = colours.ink;
    pen.lineWidth = 2;
    if (right - left > 6) {
      pen.strokeRect(left + 1, y + 1, right - left - gap - 2, track - 2);
    } else {
      for (const edge of [y, y + track - 2]) pen.fillRect(left, edge, Math.max(right - left, 1), 2);
    }
  }
  const under = view.under && view.under.bar;
  if (under && (under === bar || (!data.blocks && under.id === bar.id))) {
    pen.strokeStyle = colours.ink;
    pen.lineWidth = 3;
    pen.strokeRect(left - 1, y - 1, Math.max(right - left, 2) + 2, track + 2);
  }
  pen.globalAlpha = 1;
}

function drawMemory(row) {
  const y = memoryTop(row);
  pen.fillStyle = colours.track;
  pen.fillRect(margin, y, width(), memory);
  if (slots()) return;
  sides.forEach((name, side) => {
    const curve = (data.memory[side] || [])[row];
    if (!curve || !curve.length) return;
    const height = (i) => y + memory - curve[i + 1] / mostBytes * (memory - 2);
    const end = x(data.makespan_ns[side] + zero(side));
    pen.beginPath();
    pen.moveTo(x(curve[0] + zero(side)), y + memory);
    for (let i = 0; i < curve.length; i += 2) {
      pen.lineTo(x(curve[i] + zero(side)), height(i));
      pen.lineTo(i + 2 < curve.length ? x(curve[i + 2] + zero(side)) : end, height(i));
    }
    pen.lineWidth = side ? 1.5 : 1.2;
    pen.setLineDash(side ? [] : [4, 2]);
    pen.strokeStyle = side ? colours.other : colours.ink;
    pen.stroke();
    pen.setLineDash([]);
    if (!side) return;
    pen.lineTo(end, y + memory);
    pen.globalAlpha = 0.2;
    pen.fillStyle = colours.other;
    pen.fill();
    pen.globalAlpha = 1;
  });
}

function drawAxis(height) {
  pen.textAlign = "center";
  let step = (view.to - view.from) * 110 / width();
  const power = 10 ** Math.floor(Math.log10(step));
  step = Math.max([1, 2, 5, 10].find((f) => f * power >= step * 0.999) * power, slots() ? 1 : 0);
  const reach = Math.max(Math.abs(view.from), Math.abs(view.to));
  const [unit, name] = slots() ? [1, ""] : reach < 1e4 ? [1, " ns"] : reach < 1e7 ? [1e3, " us"]
    : reach < 1e10 ? [1e6, " ms"] : [1e9, " s"];
  const digits = Math.max(0, -Math.floor(Math.log10(step / unit) + 1e-9));
  for (let at = Math.ceil(view.from / step) * step; at <= view.to; at += step) {
    pen.fillStyle = colours.line;
    pen.fillRect(x(at), top - 8, 1, height - top + 8);
    pen.fillStyle = colours.faint;
    const text = (slots() ? "action " : "") + (at / unit).toFixed(digits) + name;
    const half = pen.measureText(text).width / 2;
    pen.fillText(text, Math.min(Math.max(x(at), margin + half), margin + width() - half), top - 16);
  }
}

function drawEnds(height) {
  if (slots()) return;
  pen.textAlign = "right";
  sides.forEach((name, side) => {
    const at = x(data.makespan_ns[side] + zero(side));
    if (at < margin || at > margin + width() + 1) return;
    const label = 6 + 13 * side;
    pen.strokeStyle = pen.fillStyle = colours.ink;
    pen.lineWidth = 1;
    pen.setLineDash(side ? [] : [4, 3]);
    pen.beginPath();
    pen.moveTo(at - 0.5, label - 5);
    pen.lineTo(at - 0.5, height);
    pen.stroke();
    pen.setLineDash([]);
    pen.fillText(`${name} ${time(data.makespan_ns[side])}`, at - 5, label);
  });
}

function drawMargin(row) {
  pen.textAlign = "left";
  pen.fillStyle = colours.ink;
  pen.font = "600 12px system-ui, 'DejaVu Sans', sans-serif";
  pen.fillText(`rank ${data.ranks[row]}`, 0, trackTop(row, 0) + track / 2);
  pen.font = "11px system-ui, 'DejaVu Sans', sans-serif";
  pen.fillStyle = colours.faint;
  pen.textAlign = "right";
  sides.forEach((name, side) => pen.fillText(name, margin - 6, trackTop(row, side) + track / 2 + 0.5));
  if (!memory) return;
  pen.fillText("memory", margin - 6, memoryTop(row) + 8);
  pen.fillText(`of ${bytes(mostBytes)}`, margin - 6, memoryTop(row) + 22);
}

function drawNow() {
  readColours();
  const height = top + many * pitch;
  const scale = window.devicePixelRatio || 1;
  canvas.width = Math.round(canvas.clientWidth * scale);
  canvas.height = Math.round(height * scale);
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.textBaseline = "middle";
  pen.font = "11px system-ui, 'DejaVu Sans', sans-serif";
  for (let row = 0; row < many; ++row) {
    pen.fillStyle = colours.track;
    for (const side of [0, 1]) pen.fillRect(margin, trackTop(row, side), width(), track);
  }
  drawAxis(height);
  pen.save();
  pen.beginPath();
  pen.rect(margin, 0, width() + 2, height);
  pen.clip();
  tracks.forEach((both, row) => {
    both.forEach((own, side) => {
      const y = trackTop(row, side);
      const isChosen = (bar) => view.cause >= 0 && causes[view.cause].has(bar.id);
      if (!slots()) own.transfers.forEach((bar) => drawBar(bar, y));
      own.work.forEach((bar) => drawBar(bar, y));
      if (!slots()) own.transfers.filter(isChosen).forEach((bar) => drawBar(bar, y));
    });
    if (memory) drawMemory(row);
  });
  drawEnds(height);
  if (view.marked) {
    pen.fillStyle = colours.ink;
    pen.globalAlpha = 0.15;
    pen.fillRect(view.marked[0], top - 8, view.marked[1] - view.marked[0], height);
    pen.globalAlpha = 1;
  }
  pen.restore();
  for (let row = 0; row < many; ++row) drawMargin(row);
}

let waiting = false;
function draw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; drawNow(); });
}

// ---- What the mouse points at

function barAt(px, py) {
  const row = Math.floor((py - top) / pitch);
  if (row < 0 || row >= many || px < margin) return null;
  const y = py - top - row * pitch;
  if (memory && !slots() && y >= 2 * track + 5 && y < pitch - 8) return { row, at: valueAt(px) };
  const side = y < track + 0.5 ? 0 : 1;
  if (y >= 2 * track + 1) return null;
  const hits = (bar) => px >= x(from(bar)) - 1 && px <= Math.max(x(to(bar)), x(from(bar)) + 1);
  const own = tracks[row][side];
  const bar = own.work.findLast(hits) || (slots() ? null : own.transfers.findLast(hits));
  return bar ? { bar } : null;
}

function cell(tag, text) {
  const made = document.createElement(tag);
  made.textContent = text;
  return made;
}

function tableOf(rows) {
  const table = document.createElement("table");
  rows.forEach((row, i) => {
    const line = table.insertRow();
    row.forEach((text, j) => {
      const made = line.appendChild(cell(i && j ? "td" : "th", text));
      if (j) made.className = "n";
    });
  });
  return table;
}

function describe(bar) {
  const both = sides.map((name, side) => (data.blocks ? (bar.side === side ? bar : null)
    : everyBar.find((other) => other.id === bar.id && other.side === side) || null));
  const rows = [["", ...sides, "difference"]];
  for (const [name, value] of [["start", (b) => b.start], ["end", (b) => b.end],
    ["duration", (b) => b.end - b.start], ["slack", (b) => b.slack]]) {
    const values = both.map((b) => (b && b.slack !== undefined || b && name !== "slack" ? value(b) : null));
    if (values.every((v) => v === null)) continue;
    rows.push([name, ...values.map((v) => (v === null ? "" : time(v))),
      values.includes(null) ? "" : signed(values[1] - values[0])]);
  }
  const where = bar.sender === undefined ? `rank ${bar.rank}` : `rank ${bar.sender} to rank ${bar.rank}`;
  const parts = [cell("p", `${bar.name}: ${bar.what}, ${where}`), tableOf(rows)];
  if (data.blocks) {
    parts.push(cell("p", `own error ${signed(bar.own)}, largest lateness ${signed(bar.late)}`));
  } else if (bar.late !== null) {
    const late = data.operations[bar.id][5];
    parts.push(cell("p", `ends ${signed(bar.late)} later than predicted, of which`));
    parts.push(tableOf([["own", "launch", "communication", "inherited"], late.map(signed)]));
  } else if (both.includes(null)) {
    parts.push(cell("p", `only ${sides[bar.side]}`));
  }
  const marks = sides.filter((name, side) => critical[side].has(bar.id) && (!data.blocks || bar.side === side));
  if (marks.length) parts.push(cell("p", `on the critical path, ${marks.join(" and ")}`));
  return parts;
}

function describeMemory({ row, at }) {
  const rows = [["", ...sides]];
  rows.push([`rank ${data.ranks[row]} holds`, ...sides.map((name, side) => {
    const curve = (data.memory[side] || [])[row] || [];
    let held = null;
    for (let i = 0; i < curve.length && curve[i] + zero(side) <= at; i += 2) held = curve[i + 1];
    return held === null ? "" : bytes(held);
  })]);
  return [cell("p", `at ${time(Math.round(at))}`), tableOf(rows)];
}

function point(event) {
  const found = barAt(event.offsetX, event.offsetY);
  const tip = element("tip");
  const before = view.under && view.under.bar;
  view.under = found;
  if ((found && found.bar) !== before) draw();
  tip.hidden = !found;
  if (!found) return;
  tip.replaceChildren(...(found.bar ? describe(found.bar) : describeMemory(found)));
  const left = event.clientX + 16 + tip.offsetWidth > innerWidth ? event.clientX - 12 - tip.offsetWidth
    : event.clientX + 16;
  const below = event.clientY + 16 + tip.offsetHeight > innerHeight
    ? event.clientY - 12 - tip.offsetHeight : event.clientY + 16;
  tip.style.left = Math.max(0, left) + "px";
  tip.style.top = Math.max(0, below) + "px";
}

// ---- Zooming and moving

function zoom(factor, around) {
  show(around - (around - view.from) * factor, around + (view.to - around) * factor);
}
function reset() { show(...extent()); }

canvas.addEventListener("wheel", (event) => {
  const [first, last] = extent();
  const whole = view.to - view.from >= (last - first) * 0.9999;
  // Where there is nothing to zoom or to move, the page scrolls.
  if (event.offsetX < margin || (whole && (event.deltaY > 0 || event.deltaX))) return;
  event.preventDefault();
  if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
    const by = (event.deltaX || event.deltaY) / width() * (view.to - view.from);
    show(view.from + by, view.to + by);
  } else {
    zoom(1.0018 ** event.deltaY, valueAt(event.offsetX));
  }
}, { passive: false });

let dragged = null;
canvas.addEventListener("pointerdown", (event) => {
  if (event.button !== 0 || event.offsetX < margin) return;
  dragged = { px: event.offsetX, from: view.from, to: view.to, marks: event.shiftKey };
  canvas.setPointerCapture(event.pointerId);
});
canvas.addEventListener("pointermove", (event) => {
  if (!dragged) return point(event);
  element("tip").hidden = true;
  if (dragged.marks) {
    view.marked = [dragged.px, event.offsetX];
    return draw();
  }
  const by = (event.offsetX - dragged.px) / width() * (dragged.to - dragged.from);
  show(dragged.from - by, dragged.to - by);
});
canvas.addEventListener("pointerup", () => {
  const marked = view.marked;
  dragged = view.marked = null;
  if (marked && marked[0] !== marked[1]) show(...marked.map(valueAt).sort((a, b) => a - b));
});
canvas.addEventListener("pointercancel", () => { dragged = view.marked = null; draw(); });
canvas.addEventListener("pointerleave", () => { element("tip").hidden = true; view.under = null; draw(); });
canvas.addEventListener("keydown", (event) => {
  const by = (view.to - view.from) / 5;
  const middle = (view.from + view.to) / 2;
  const act = { ArrowLeft: () => show(view.from - by, view.to - by), 0: reset,
    ArrowRight: () => show(view.from + by, view.to + by), "+": () => zoom(0.7, middle),
    "-": () => zoom(1 / 0.7, middle) }[event.key];
  if (act) { event.preventDefault(); act(); }
});

// ---- Buttons, causes, paper

function press(group, value) {
  view[group] = value;
  for (const button of element(group).children) {
    button.setAttribute("aria-pressed", String(button.dataset.value === value));
  }
}

function legend() {
  const swatch = (name, text) => `<span><b style="background:var(--${name})"></b>${text}</span>`;
  const kinds = [["forward", "forward"], ["backward", "backward, input gradient"],
    ["weight", "weight gradient"], ["other", "optimizer, reduction"]]
    .filter(([name]) => everyBar.some((bar) => bar.sender === undefined && bar.parts.some((part) => part[0] === name)));
  if (everyBar.some((bar) => bar.sender !== undefined)) kinds.push(["transfer", "transfer to this rank"]);
  const most = largest[view.colour];
  element("legend").innerHTML = view.colour === "kind" ? kinds.map((pair) => swatch(...pair)).join("")
    : `<span>measured: ${time(-most)}<b class="scale"></b>+${time(most)}` +
      ` ${view.colour === "late" ? "later" : "longer"} than predicted</span>` +
      (everyBar.some((bar) => bar.sender === undefined && bar[view.colour] === null)
        ? swatch("other", "in one run only") : "");
}

element("align").addEventListener("click", (event) => {
  if (!event.target.dataset.value) return;
  press("align", event.target.dataset.value);
  if (slots()) press("colour", "late");
  legend();
  reset();
});
element("colour").addEventListener("click", (event) => {
  if (!event.target.dataset.value) return;
  press("colour", event.target.dataset.value);
  legend();
  draw();
});
element("reset").addEventListener("click", reset);
element("critical").addEventListener("click", (event) => {
  view.critical = !view.critical;
  event.target.setAttribute("aria-pressed", String(view.critical));
  draw();
});

function choose(cause) {
  view.cause = view.cause === cause ? -1 : cause;
  for (const row of document.querySelectorAll("tr[data-cause]")) {
    const isChosen = Number(row.dataset.cause) === view.cause;
    row.classList.toggle("chosen", isChosen);
    row.querySelector("button").setAttribute("aria-pressed", String(isChosen));
    if (isChosen) element("chosen").textContent = "Shown: " + row.querySelector("button").textContent +
      (causes[cause].size ? "" : "; nothing of it is in the picture");
  }
  element("chosen").hidden = view.cause < 0;
  if (view.cause >= 0) {
    const clear = element("chosen").appendChild(cell("button", "show all"));
    clear.addEventListener("click", () => choose(cause));
    element("picture").scrollIntoView({ behavior: "smooth" });
  }
  draw();
}
element("causes").addEventListener("click", (event) => {
  const row = event.target.closest("tr[data-cause]");
  if (row) choose(Number(row.dataset.cause));
});

addEventListener("resize", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
for (const [event, printing] of [["beforeprint", true], ["afterprint", false]]) {
  addEventListener(event, () => {
    document.documentElement.classList.toggle("printing", printing);
    drawNow();
  });
}
legend();
[view.from, view.to] = extent();
drawNow();
