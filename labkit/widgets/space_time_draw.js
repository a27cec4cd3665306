// Where the space-time diagram's dots and messages lie, and their shapes: space_time_svg.py draws
// the same.

const ST = { width: 900, narrowest: 620, left: 62, metadata: 166, top: 18, row: 26, least: 7, most: 130, long: 6 };
const SVG_NS = "http://www.w3.org/2000/svg";
const METADATA = "metadata";
const BAD_KINDS = ["node.killed", "link.cut", "session.lost", "disk.rotted"];

/** An SVG element with attributes and children. */
function shape(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG_NS, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** How wide the picture is drawn in a box so wide: in a narrow one lanes move together, and the
    words keep their size. */
const widthIn = (box) => (box > ST.width - 60 ? ST.width : Math.max(box, ST.narrowest));

/** A diagram with what was chosen of it: which events are shown, as dots on lanes and rows. */
class Layout {
  constructor(diagram, width, { entries, window_ms, follow, spacing }) {
    Object.assign(this, { diagram, width, entries, window_ms, spacing });
    const { columns, lanes, in_metadata } = diagram, count = columns.seq.length;
    this.places = [...Array(count).keys()].filter((at) => this.shows(at));
    this.metadata = lanes.indexOf(METADATA);
    const found = new Map(), put = (time, lane, at) => {
      const key = `${time} ${lane}`;
      if (!found.has(key)) found.set(key, { time, lane, places: [] });
      found.get(key).places.push(at);
    };
    for (const at of this.places) {
      put(columns.time_us[at], lanes.indexOf(columns.node[at]), at);
      if (in_metadata[at] && this.metadata >= 0) put(columns.time_us[at], this.metadata, at);
    }
    this.dots = [...found.values()].sort((a, b) => a.time - b.time || a.lane - b.lane);
    this.times = [...new Set(this.dots.map(({ time }) => time))];
    this.lay();
    const plain = lanes.filter((name) => name !== METADATA).length;
    this.pitch = (width - ST.left - ST.metadata - 10) / Math.max(plain, 1);
    this.lit = follow >= 0 ? this.chain(columns.entry.flatMap((entry, at) =>
      (entry === follow && diagram.about[at] === follow ? [at] : []))) : null;
  }

  shows(at) {
    const { columns, about } = this.diagram, ms = columns.time_us[at] / 1000;
    return ms >= this.window_ms[0] && ms <= this.window_ms[1]
      && (about[at] === -1 || (about[at] >= this.entries[0] && about[at] <= this.entries[1]));
  }

  lay() {
    const gaps = this.times.slice(1).map((time, at) => time - this.times[at]);
    const sorted = [...gaps].sort((a, b) => a - b);
    this.median = gaps.length ? Math.max(sorted[Math.floor(sorted.length / 2)], 1) : 1;
    this.rows = new Map();
    let y = ST.top;
    this.times.forEach((time, at) => {
      if (at) {
        const gap = ST.row * gaps[at - 1] / this.median;
        y += this.spacing === "order" ? ST.row : Math.min(Math.max(gap, ST.least), ST.most);
      }
      this.rows.set(time, y);
    });
    this.bottom = y + 22;
  }

  /** Places of these events and of all that led to them. */
  chain(from) {
    const { seq, cause } = this.diagram.columns;
    this.placeOf ??= new Map(seq.map((number, at) => [number, at]));
    const chain = new Set();
    for (const at of from)
      for (let step = at; step !== undefined && !chain.has(step); step = this.placeOf.get(cause[step]))
        chain.add(step);
    return chain;
  }

  x(lane) { return ST.left + this.pitch * lane + 14; }

  /** Where an event lies; undefined if it is not shown or not past. */
  y(at, upto) {
    return at >= 0 && at < upto && this.shows(at) ? this.rows.get(this.diagram.columns.time_us[at]) : undefined;
  }

  rowNear(at) {
    const time = this.diagram.columns.time_us[at];
    const next = this.times.find((each) => each >= time);
    return next === undefined ? this.bottom - 6 : this.rows.get(next);
  }
}

const line = (d, look, head) => shape("path", { d, class: "lk-st-line", "data-look": look,
  ...(head ? { "marker-end": `url(#lk-st-${head})` } : {}) });

/** One message at a moment. */
function messageShapes(layout, message, upto) {
  const begin = layout.y(message.sent, upto);
  if (begin === undefined) return [];
  const source = layout.x(message.source), target = layout.x(message.target), { what, end } = message;
  const arrived = layout.y(message.arrived, upto), answered = layout.y(message.answered, upto);
  const arrow = (x1, y1, x2, y2, look = what) =>
    line(`M${x1} ${y1}L${x2 - (x2 > x1 ? 6 : -6)} ${y2}`, look, look);
  const back = end === "refused" ? "refused" : what;
  const never = message.arrived >= 0 ? message.left >= 0 : true;
  const isLost = never && ["", "silence"].includes(end) && message.arrived < upto;
  const lost = (x1, y1, x2) => {
    const x = x1 + (x2 - x1) * 0.55, y = y1 + ST.row / 2;
    return [line(`M${x1} ${y1}L${x} ${y}`, "lost"),
      shape("text", { x, y: y + 4, class: "lk-st-cross", "text-anchor": "middle" }, "✕")];
  };
  if (arrived !== undefined) {
    const left = layout.y(message.left, upto), came = arrow(source, begin, target, arrived);
    if (answered !== undefined && end !== "silence")
      return [came, arrow(target, left ?? arrived, source, answered, back)];
    return left !== undefined && isLost ? [came, ...lost(target, left, source)] : [came];
  }
  if (answered !== undefined && end !== "silence") {
    // Nobody told when it came.  A refusal is quick, so it was late rather than early.
    const middle = Math.max((begin + answered) / 2, answered - ST.row / 2);
    return [arrow(source, begin, target, middle), arrow(target, middle, source, answered, back)];
  }
  if (isLost) return lost(source, begin, target);
  return [arrow(source, begin, source + (target - source) / 2, begin + ST.row / 3)];
}

/** The lanes, broken where their node was down, paused or cut off. */
function laneShapes(layout, upto) {
  const { diagram, bottom } = layout, end = bottom - 6;
  return diagram.lanes.flatMap((name, lane) => {
    const x = layout.x(lane), shapes = [];
    let y = 0;
    const plain = (to) => shapes.push(line(`M${x} ${y}V${Math.max(to, y)}`, "lane"));
    for (const each of diagram.breaks) {
      if (each.lane !== lane || each.begin >= upto) continue;
      const from = layout.rowNear(each.begin);
      const to = each.end >= 0 && each.end < upto ? layout.rowNear(each.end) : end;
      plain(from);
      const gap = line(`M${x} ${from}V${to}`, each.state);
      gap.append(shape("title", {}, `${name} is ${each.state}`));
      shapes.push(gap);
      y = to;
    }
    plain(end);
    return shapes;
  });
}

/** Times of the run on the left; quiet time has its mark. */
function clockShapes(layout) {
  let last = -20;
  return layout.times.flatMap((time, at) => {
    const y = layout.rows.get(time), shapes = [];
    if (y - last >= 12) {
      shapes.push(shape("text", { x: ST.left - 12, y: y + 4, class: "lk-st-time" }, (time / 1000).toFixed(2)));
      last = y;
    }
    if (at && time - layout.times[at - 1] > ST.long * layout.median)
      shapes.push(line(`M${ST.left - 2} ${y - ST.row / 2}H${layout.width - 12}`, "quiet"));
    return shapes;
  });
}

function lookOf(kinds) {
  if (kinds.some((kind) => BAD_KINDS.includes(kind))) return "bad";
  if (kinds.includes("lac.advanced")) return "confirmed";
  return kinds.some((kind) => kind.endsWith(".failed")) ? "bad" : "plain";
}

function heads() {
  return shape("defs", {}, ...["add", "read", "fence", "refused", "metadata"].map((name) =>
    shape("marker", { id: `lk-st-${name}`, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 8,
      markerHeight: 8, markerUnits: "userSpaceOnUse", orient: "auto" },
    shape("path", { d: "M0 0L8 4L0 8z", class: "lk-st-headof", "data-look": name }))));
}
