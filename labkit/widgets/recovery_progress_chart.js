// The chart of a recovery: the lanes that recovery_progress_chart.py made, drawn once, and the line
// that says which moment is shown.

const CHART = { width: 760, gutter: 84, top: 24, strip: 15, labelRoom: 7, tickRoom: 36,
  heights: { auditor: 22, bookie: 17, ledger: 50 } };

function shape(name, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

class Chart {
  /** `seek(step)` is called when a step is pointed out. */
  constructor(chart, seek, signal) {
    this.chart = chart;
    const { width, gutter, top, heights } = CHART;
    const height = top + chart.lanes.reduce((sum, lane) => sum + heights[lane.kind], 0);
    this.element = shape("svg", { class: "lk-rp-chart", viewBox: `0 0 ${width} ${height}`, role: "img",
      "aria-label": "Auditor, bookies and ledgers over the steps of the run" });
    this.element.append(shape("pattern", { id: "lk-rp-away", width: 6, height: 6,
      patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    shape("rect", { class: "lk-rp-away", width: 1.5, height: 6 })));
    this.now = shape("path", { class: "lk-rp-now" });
    this.height = height;
    this.drawTicks();
    let y = top;
    for (const lane of chart.lanes) {
      this.drawLane(lane, y);
      y += heights[lane.kind];
    }
    this.element.append(this.now);
    let isDown = false;
    const point = (event) => {
      const box = this.element.getBoundingClientRect();
      const share = ((event.clientX - box.left) / box.width * width - gutter) / (width - gutter);
      if (share < -0.02) return;
      const step = chart.edges.findIndex((edge) => edge > share);
      seek(step < 0 ? chart.edges.length - 1 : step);
    };
    const on = { signal };
    this.element.addEventListener("pointerdown", (event) => { isDown = true; point(event); }, on);
    this.element.addEventListener("pointermove", (event) => { if (isDown) point(event); }, on);
    for (const name of ["pointerup", "pointerleave"])
      this.element.addEventListener(name, () => { isDown = false; }, on);
  }

  x(step) { return CHART.gutter + (CHART.width - CHART.gutter) * this.chart.edges[step]; }

  drawTicks() {
    let free = 0;
    for (const [step, words] of this.chart.ticks) {
      const x = this.x(step);
      this.element.append(shape("path", { class: "lk-rp-tick", d: `M${x} ${CHART.top - 6}V${this.height}` }));
      if (x < free) continue;
      this.element.append(shape("text", { class: "lk-rp-time", x, y: CHART.top - 10,
        "text-anchor": step ? "middle" : "start" }, words));
      free = x + CHART.tickRoom;
    }
  }

  drawLane({ kind, name, spans, present, copied }, y) {
    const { gutter, strip, heights } = CHART, isLedger = kind === "ledger";
    const bar = isLedger ? strip - 1 : heights[kind] - 4;
    this.element.append(shape("text", { x: gutter - 10, "text-anchor": "end",
      y: isLedger ? y + strip + 9 : y + heights[kind] / 2 + 4 }, name));
    if (isLedger) this.drawLevels(present, copied, y + strip + 1, heights.ledger - strip - 7);
    for (const span of spans) {
      const x = this.x(span.first), width = this.x(span.end) - x;
      const flat = span.look === "up" ? { y: y + 1 + bar / 2 - 2, height: 4, x, width }
        : { y: y + 1, height: bar, x: x + 0.5, width: Math.max(width - 1, 1) };
      const group = shape("g", { class: "lk-rp-span", "data-look": span.look },
        shape("title", {}, span.words), shape("rect", { rx: 3, ...flat }));
      const room = CHART.labelRoom * span.label.length;
      if (span.label && room + 10 <= width) group.append(
        shape("rect", { class: "lk-rp-plate", x: x + 4, y: y + 2.5, width: room, height: bar - 3, rx: 3 }),
        shape("text", { x: x + 6, y: y + 1 + bar / 2 + 3.8 }, span.label));
      this.element.append(group);
    }
  }

  drawLevels(present, copied, y, height) {
    const { width, gutter } = CHART;
    this.element.append(shape("rect", { class: "lk-rp-due", x: gutter, y, width: width - gutter, height }));
    const both = present.map((level, step) => level + copied[step]);
    for (const [levels, look] of [[both, "copied"], [present, "present"]]) {
      const path = levels.map((level, step) => `V${y + height * (1 - level)}H${this.x(step + 1)}`).join("");
      this.element.append(shape("path", { class: "lk-rp-level", "data-look": look,
        d: `M${gutter} ${y + height}${path}V${y + height}Z` }));
    }
  }

  show(step) {
    const x = this.x(step);
    this.now.setAttribute("d", `M${x} ${CHART.top - 6}V${this.height}`);
  }
}
