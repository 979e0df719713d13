// Draws what stands as JSON in #data; picture.cpp says what that is.
// Two tracks a rank, the first run above the second, and memory below where it is known.

const element = (id) => document.getElementById(id);
const data = JSON.parse(element("data").textContent);
const canvas = element("canvas");
const pen = canvas.getContext("2d");
const sides = data.sides;
// from, to: what is seen, in nanoseconds or slots. marked: a range, in pixels.
const view = { align: "start", colour: "kind", critical: true, cause: -1, from: 0, to: 1,
  under: null, marked: null };

// ---- Bars: each an action, or a block of neighbours, on one side

const colourNames = ["forward", "backward", "weight", "other", "neutral"];
const rowOfRank = new Map(data.ranks.map((rank, row) => [rank, row]));
// Of each row of the picture, of each side: bars in the order of time.
const tracks = data.ranks.map(() => sides.map(() => ({ work: [], transfers: [] })));

function nameOf([kind, stage, microbatch]) {
  return (data.staged ? stage : "") + data.kinds[kind] + (microbatch < 0 ? "" : microbatch);
}

function addOperations() {
  const openers = new Set(data.operations.map((row) => row[6]));
  data.operations.forEach((operation, id) => {
    if (openers.has(id)) return;  // its cell's backward stands for both
    const [kind, , microbatch, , , late, opener] = operation;
    const colour = data.colours[kind];
    const bar = { id, count: 1, own: late && late[0], late: late && late.reduce((a, b) => a + b),
      name: nameOf(operation) + (opener < 0 ? "" : " beside " + nameOf(data.operations[opener])),
      labels: [nameOf(operation), microbatch < 0 ? data.kinds[kind][0] : String(microbatch)],
      parts: opener < 0 ? [[colour, 1]] : [["forward", 0.5], [colour, 0.5]] };
    sides.forEach((_, side) => {
      if (!operation[3 + side]) return;
      const [rank, slot, start, end, slack, sender] = operation[3 + side];
      if (!rowOfRank.has(rank)) return;
      const track = tracks[rowOfRank.get(rank)][side];
      (sender === undefined ? track.work : track.transfers).push(
        { ...bar, side, rank, slot, start, end, slack, sender });
    });
  });
}

function addBlocks() {
  data.blocks.forEach(([side, rank, slot, count, start, end, busy, own, late, first, last], id) => {
    const parts = busy.map((ns, i) => [colourNames[i], ns / Math.max(1, end - start)]);
    tracks[rowOfRank.get(rank)][side].work.push({ id, side, rank, slot, count, start, end, own, late,
      name: count === 1 ? first : `${count} actions, ${first} to ${last}`,
      labels: count === 1 ? [first] : [], parts: parts.filter(([, share]) => share > 0) });
  });
}

if (data.blocks) addBlocks(); else addOperations();
const inTime = (a, b) => a.start - b.start || a.slot - b.slot;
for (const track of tracks.flat()) [track.work, track.transfers].forEach((bars) => bars.sort(inTime));
const work = tracks.flat().flatMap((track) => track.work);
const transfers = tracks.flat().flatMap((track) => track.transfers);
const critical = data.critical.map((ids) => new Set(ids));
const causes = data.causes.map((ids) => new Set(ids));
const isChosen = (bar) => view.cause >= 0 && causes[view.cause].has(bar.id);
const isCritical = (bar) => view.critical && critical[bar.side].has(bar.id);
const highest = (values) => values.reduce((most, value) => Math.max(most, value), 0);
const largest = { own: highest(work.map((bar) => Math.abs(bar.own))),
  late: highest(work.map((bar) => Math.abs(bar.late))) };
const mostBytes = highest(data.memory.flat().map((curve) => highest(curve.filter((_, i) => i % 2))));

const widestNumber = "8".repeat(highest(work.map((bar) => (bar.labels[1] || "").length)));

// A bar on both sides, where it is; of a block only its own.
function bothOf(bar) {
  const all = bar.sender === undefined ? work : transfers;
  return sides.map((_, side) => all.find((other) => other.id === bar.id && other.side === side));
}

// ---- Figures as text

function time(ns) {
  const size = Math.abs(ns);
  if (size < 1e3) return `${ns} ns`;
  if (size < 1e6) return `${Number((ns / 1e3).toPrecision(4))} us`;
  return size < 1e10 ? `${(ns / 1e6).toFixed(3)} ms` : `${(ns / 1e9).toFixed(3)} s`;
}

function bytes(count) {
  const unit = count < 1024 ? 0 : Math.min(5, Math.floor(Math.log2(count) / 10));
  return (count / 1024 ** unit).toFixed(unit ? 1 : 0) + " " + ["B", "KiB", "MiB", "GiB", "TiB", "PiB"][unit];
}

// ---- Places

const margin = data.names.some((name) => name.length > 9) ? 190 : 118;
const top = 48;
const track = tracks.length <= 8 ? 22 : tracks.length <= 16 ? 17 : 13;
const bySlot = () => view.align === "slot";
const memory = () => (mostBytes === 0 || bySlot() ? 0 : 30);
const pitch = () => 2 * track + 1 + (memory() ? memory() + 4 : 0) + 12;  // of ranks
const trackTop = (row, side) => top + row * pitch() + side * (track + 1);
const memoryTop = (row) => trackTop(row, 2) + 3;

const zero = (side) => (view.align === "absolute" ? data.zero_ns[side] : 0);
const from = (bar) => (bySlot() ? bar.slot : bar.start + zero(bar.side));
const to = (bar) => (bySlot() ? bar.slot + bar.count : bar.end + zero(bar.side));
const width = () => canvas.clientWidth - margin - 8;
const x = (value) => margin + (value - view.from) / (view.to - view.from) * width();
const valueAt = (px) => view.from + (px - margin) / width() * (view.to - view.from);

const extents = {};
function extent() {
  return extents[view.align] ||= work.reduce(
    ([low, high], bar) => [Math.min(low, from(bar)), Math.max(high, to(bar))], [Infinity, 1]);
}

// ---- Colours

const colours = {};
function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["ink", "faint", "line", "paper", "track", "neutral", "late", "early", "even",
    "on-forward", "on-backward", ...colourNames]) {
    colours[name] = style.getPropertyValue("--" + name).trim();
  }
}

// Of lateness or own error: early, as in the first run, late.
function mixed(value) {
  if (value === null) return colours.other;
  const share = Math.min(1, Math.abs(value) / (largest[view.colour] || 1));
  const channels = (name) => [1, 3, 5].map((i) => parseInt(colours[name].slice(i, i + 2), 16));
  const end = channels(value > 0 ? "late" : "early");
  return `rgb(${channels("even").map((even, i) => Math.round(even + (end[i] - even) * share))})`;
}

// Colours and their shares of the height.
function partsOf(bar) {
  if (view.colour === "kind") return bar.parts.map(([name, share]) => [colours[name], share]);
  const isEven = bar.side === 0 && bar[view.colour] !== null;
  return [[isEven ? colours.even : mixed(bar[view.colour]), 1]];
}

// ---- Drawing

function drawParts(parts, left, y, size) {
  for (const [colour, share] of parts) {
    pen.fillStyle = colour;
    pen.fillRect(left, y, size, track * share);
    y += track * share;
  }
}

function drawLabel(bar, left, right, y) {
  // Numbers stand on all bars of a size, or on none.
  const fits = (text) => pen.measureText(text).width <= right - left - 5;
  const label = bar.labels.find((text, i) => fits(i === 0 ? text : widestNumber));
  if (!label) return;
  const forward = bar.parts.length === 1 && bar.parts[0][0] === "forward";
  pen.fillStyle = view.colour !== "kind" ? colours.ink : colours[forward ? "on-forward" : "on-backward"];
  pen.textAlign = "center";
  pen.fillText(label, (left + right) / 2, y + track / 2 + 0.5);
}

// Of what is on the critical path and too narrow for an outline.
function drawEdges(left, y, size) {
  pen.fillStyle = colours.ink;
  for (const at of [y, y + track - 2]) pen.fillRect(left, at, size, 2);
}

function drawBar(bar, y) {
  const left = Math.max(x(from(bar)), margin - 2);
  const right = Math.min(x(to(bar)), margin + width() + 2);
  const gap = right - left > 5 ? 1 : 0;  // before the next
  pen.globalAlpha = view.cause < 0 || isChosen(bar) ? 1 : 0.2;
  if (bar.sender === undefined) {
    drawParts(partsOf(bar), left, y, right - left - gap);
    if (right - left > 12) drawLabel(bar, left, right, y);
  } else {
    const height = isChosen(bar) ? track : track / 3;
    pen.fillStyle = isChosen(bar) ? colours.late : colours.neutral;
    pen.fillRect(left, y + (track - height) / 2, Math.max(right - left, isChosen(bar) ? 2 : 0), height);
  }
  if (isCritical(bar) && bar.sender === undefined) {
    pen.strokeStyle = colours.ink;
    pen.lineWidth = 2;
    if (right - left > 8) pen.strokeRect(left + 1, y + 1, right - left - gap - 2, track - 2);
    else drawEdges(left, y, Math.max(right - left, 1));
  }
  pen.globalAlpha = 1;
}

// Around what the mouse points at, on both sides.
function drawOutline(bar) {
  pen.strokeStyle = colours.ink;
  pen.lineWidth = 3;
  const row = rowOfRank.get(bar.rank);
  pen.strokeRect(x(from(bar)) - 1, trackTop(row, bar.side) - 1, Math.max(x(to(bar)) - x(from(bar)), 2) + 2,
    track + 2);
}

// Bars too narrow to be told apart: of each column their shares.
const column = 3;
function drawDense(bars, y) {
  const columns = Array.from({ length: Math.ceil(width() / column) },
    () => ({ shares: colourNames.map(() => 0), value: 0, critical: false, chosen: false }));
  for (const bar of bars) {
    const left = Math.max(0, (x(from(bar)) - margin) / column);
    const right = Math.min(columns.length, (x(to(bar)) - margin) / column);
    for (let c = Math.floor(left); c < right; ++c) {
      const own = columns[c];
      for (const [name, share] of bar.parts) {
        own.shares[colourNames.indexOf(name)] += share * (Math.min(right, c + 1) - Math.max(left, c));
      }
      if (Math.abs(bar[view.colour]) > Math.abs(own.value) && bar.side === 1) own.value = bar[view.colour];
      own.critical ||= isCritical(bar);
      own.chosen ||= isChosen(bar);
    }
  }
  columns.forEach((own, c) => {
    pen.globalAlpha = view.cause < 0 || own.chosen ? 1 : 0.2;
    const parts = own.shares.map((share, i) => [colours[colourNames[i]], share]);
    const busy = own.shares.reduce((a, b) => a + b);
    drawParts(view.colour === "kind" ? parts : [[mixed(own.value), busy]], margin + c * column, y, column);
    if (own.critical) drawEdges(margin + c * column, y, column);
  });
  pen.globalAlpha = 1;
}

function drawTrack(own, y) {
  const isSeen = (bar) => to(bar) >= view.from && from(bar) <= view.to;
  const seen = own.work.filter(isSeen);
  const isDense = seen.length * 4 > width();
  const ways = bySlot() ? [] : own.transfers.filter(isSeen);
  if (!isDense) ways.forEach((bar) => drawBar(bar, y));
  if (isDense) drawDense(seen, y); else seen.forEach((bar) => drawBar(bar, y));
  ways.filter(isChosen).forEach((bar) => drawBar(bar, y));
}

function drawMemory(row) {
  const y = memoryTop(row);
  data.memory.forEach((curves, side) => {
    const curve = curves[row] || [];
    if (!curve.length) return;
    const bottom = y + memory();
    const height = (i) => bottom - curve[i + 1] / mostBytes * (memory() - 2);
    const end = x(data.makespan_ns[side] + zero(side));
    pen.beginPath();
    pen.moveTo(x(curve[0] + zero(side)), bottom);
    for (let i = 0; i < curve.length; i += 2) {
      pen.lineTo(x(curve[i] + zero(side)), height(i));
      pen.lineTo(i + 2 < curve.length ? x(curve[i + 2] + zero(side)) : end, height(i));
    }
    pen.lineWidth = 1.3;
    pen.setLineDash(side ? [] : [4, 2]);
    pen.strokeStyle = pen.fillStyle = side ? colours.other : colours.ink;
    pen.stroke();
    pen.setLineDash([]);
    pen.lineTo(end, bottom);
    pen.globalAlpha = side ? 0.2 : 0;
    pen.fill();
    pen.globalAlpha = 1;
  });
}

function drawAxis(height) {
  pen.textAlign = "center";
  const least = (view.to - view.from) * 110 / width();
  const power = 10 ** Math.floor(Math.log10(least));
  const step = Math.max([1, 2, 5, 10].find((f) => f * power >= least * 0.999) * power, bySlot() ? 1 : 0);
  const reach = Math.max(Math.abs(view.from), Math.abs(view.to));
  const [unit, name] = bySlot() ? [1, ""] : reach < 1e4 ? [1, " ns"] : reach < 1e7 ? [1e3, " us"]
    : reach < 1e10 ? [1e6, " ms"] : [1e9, " s"];
  const digits = Math.max(0, -Math.floor(Math.log10(step / unit) + 1e-9));
  for (let at = Math.ceil(view.from / step) * step; at <= view.to; at += step) {
    pen.fillStyle = colours.line;
    pen.fillRect(x(at), top - 8, 1, height - top + 8);
    pen.fillStyle = colours.faint;
    const text = (bySlot() ? "action " : "") + (at / unit).toFixed(digits) + name;
    const half = pen.measureText(text).width / 2;
    pen.fillText(text, Math.min(Math.max(x(at), margin + half), margin + width() - half), top - 15);
  }
}

// Where each run ends.
function drawEnds(height) {
  if (bySlot()) return;
  pen.textAlign = "right";
  pen.lineWidth = 1;
  pen.strokeStyle = colours.ink;
  const seen = [0, 1].map((side) => x(data.makespan_ns[side] + zero(side)));
  const isSeen = (at) => at >= margin && at <= margin + width() + 1;
  seen.forEach((at, side) => {
    if (!isSeen(at)) return;
    pen.setLineDash(side ? [] : [4, 3]);
    pen.beginPath();
    pen.moveTo(at - 0.5, 1 + 13 * side);
    pen.lineTo(at - 0.5, height);
    pen.stroke();
  });
  pen.setLineDash([]);
  seen.forEach((at, side) => {
    if (!isSeen(at)) return;
    const text = `${sides[side]} ${time(data.makespan_ns[side])}`;
    pen.fillStyle = colours.paper;
    const size = pen.measureText(text).width;
    pen.fillRect(at - size - 8, 1 + 13 * side, size + 6, 12);
    pen.fillStyle = colours.ink;
    pen.fillText(text, at - 5, 7 + 13 * side);
  });
}

function drawMargin(row) {
  const middle = (side) => trackTop(row, side) + track / 2 + 0.5;
  pen.textAlign = "left";
  pen.fillStyle = colours.ink;
  pen.font = "600 12px system-ui, 'DejaVu Sans', sans-serif";
  pen.fillText(data.names[row], 0, middle(0));
  pen.font = font;
  pen.fillStyle = colours.faint;
  pen.textAlign = "right";
  sides.forEach((name, side) => pen.fillText(name, margin - 6, middle(side)));
  if (!memory()) return;
  pen.fillText("memory", margin - 6, memoryTop(row) + 8);
  pen.fillText(`0 to ${bytes(mostBytes)}`, margin - 6, memoryTop(row) + 22);
}

const font = "11px system-ui, 'DejaVu Sans', sans-serif";
function drawNow() {
  readColours();
  const height = top + tracks.length * pitch();
  const scale = window.devicePixelRatio || 1;
  canvas.width = Math.round(canvas.clientWidth * scale);
  canvas.height = Math.round(height * scale);
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.textBaseline = "middle";
  pen.font = font;
  pen.fillStyle = colours.track;
  tracks.forEach((_, row) => {
    for (const side of [0, 1]) pen.fillRect(margin, trackTop(row, side), width(), track);
    pen.fillRect(margin, memoryTop(row), width(), memory());
  });
  drawAxis(height);
  pen.save();
  pen.beginPath();
  pen.rect(margin - 1, 0, width() + 3, height);
  pen.clip();
  tracks.forEach((both, row) => {
    both.forEach((own, side) => drawTrack(own, trackTop(row, side)));
    if (memory()) drawMemory(row);
  });
  if (view.under && view.under.bar) bothOf(view.under.bar).filter(Boolean).forEach(drawOutline);
  drawEnds(height);
  pen.fillStyle = colours.ink;
  pen.globalAlpha = 0.15;
  if (view.marked) pen.fillRect(view.marked[0], top - 8, view.marked[1] - view.marked[0], height);
  pen.restore();
  tracks.forEach((_, row) => drawMargin(row));
}

let isWaiting = false;
function draw() {
  if (isWaiting) return;
  isWaiting = true;
  requestAnimationFrame(() => { isWaiting = false; drawNow(); });
}
