// The space-time diagram in the browser: draws what space_time_model.py made of a trace.
// space_time.py joins this file with those that it needs to one ES module.

const ST_MARKS = { ...CLUSTER_MARKS, "recovery.started": "◇" };

/** The picture: lanes, messages and dots at a moment. */
class Picture {
  /** `choose(dot, place)` is called when an event is chosen. */
  constructor(diagram, words, broken, choose, signal) {
    Object.assign(this, { diagram, words, broken, choose });
    this.heads = shape("svg", { class: "lk-st-names", "aria-hidden": "true" });
    this.svg = shape("svg", { class: "lk-st-picture", role: "group",
      "aria-label": "Space-time diagram; arrow keys move among the events" });
    this.element = make("div", { class: "lk-st-box" }, this.heads, this.svg);
    this.svg.addEventListener("click", (event) => {
      const at = event.target.closest?.(".lk-st-dot");
      if (at) this.pick(this.nodes.indexOf(at));
    }, { signal });
  }

  /** Begin anew with another choice. */
  take(layout) {
    this.layout = layout;
    this.current = -1;
    this.chosen = null;
    this.heads.setAttribute("viewBox", `0 0 ${layout.width} 24`);
    this.svg.setAttribute("viewBox", `0 0 ${layout.width} ${layout.bottom}`);
    this.heads.replaceChildren(shape("text", { x: ST.left - 12, y: 16, class: "lk-st-time" }, "ms"),
      ...this.diagram.lanes.map((name, lane) =>
        shape("text", { x: layout.x(lane) - 6, y: 16, class: "lk-st-name" }, name)));
    this.back = shape("g", { "aria-hidden": "true" });
    this.cursor = line("", "cursor");
    this.nodes = layout.dots.map(() => shape("g", { class: "lk-st-dot", role: "button", tabindex: -1 }));
    this.svg.replaceChildren(heads(), ...clockShapes(layout), this.cursor, this.back, ...this.nodes);
  }

  draw(upto) {
    const { layout, diagram } = this;
    this.upto = upto;
    const faded = (at) => layout.lit && !layout.lit.has(at);
    this.back.replaceChildren(...laneShapes(layout, upto), ...diagram.messages.map((message) =>
      shape("g", faded(message.sent) ? { "data-faded": "" } : {}, ...messageShapes(layout, message, upto))),
    ...this.acrossShapes());
    this.labelled = new Map();
    layout.dots.forEach((dot, at) => this.drawDot(dot, this.nodes[at]));
    const last = this.visible(layout.dots.findLast((dot) => dot.places[0] < upto));
    const y = last ? layout.rows.get(last.time) : 0;
    this.cursor.setAttribute("d", last ? `M${ST.left - 6} ${y}H${layout.width - 8}` : "");
    if (this.current < 0 || this.nodes[this.current].hasAttribute("hidden")) this.rove(this.firstShown());
  }

  visible(dot) { return dot && dot.places.some((at) => at < this.upto) ? dot : null; }

  firstShown() { return Math.max(0, this.nodes.findIndex((node) => !node.hasAttribute("hidden"))); }

  /** Writes of metadata go straight across. */
  acrossShapes() {
    const { layout, diagram, upto } = this, end = layout.x(layout.metadata) - 6;
    return layout.places.filter((at) => diagram.in_metadata[at] && at < upto).map((at) => {
      const y = layout.rows.get(diagram.columns.time_us[at]);
      const x = layout.x(diagram.lanes.indexOf(diagram.columns.node[at]));
      const across = line(`M${x} ${y}H${end}`, "metadata", "metadata");
      across.toggleAttribute("data-faded", Boolean(layout.lit) && !layout.lit.has(at));
      return across;
    });
  }

  drawDot(dot, node) {
    const { layout, diagram, upto } = this, { columns } = diagram;
    const shown = dot.places.filter((at) => at < upto);
    node.toggleAttribute("hidden", !shown.length);
    if (!shown.length) return;
    const lit = shown.filter((at) => !layout.lit || layout.lit.has(at));
    const isMetadata = dot.lane === layout.metadata;
    const words = (lit.length ? lit : shown)
      .filter((at) => isMetadata || !diagram.in_metadata[at])
      .map((at) => [diagram.words[at], columns.entry[at]]);
    const room = isMetadata ? ST.metadata : layout.pitch;
    let label = labelOf(words, Math.floor((room - 10) / 5.7));
    const isBroken = shown.some((at) => columns.seq[at] === this.broken.seq);
    const x = layout.x(dot.lane), y = layout.rows.get(dot.time);
    const kinds = shown.map((at) => columns.kind[at]);
    const look = isMetadata ? "metadata" : label.includes("fenced") ? "confirmed" : lookOf(kinds);
    const shapes = [shape("circle", { cx: x, cy: y, r: label ? 4.5 : 2.5 }),
      shape("circle", { cx: x, cy: y, r: 10, class: "lk-st-hit" })];
    if (isBroken) shapes.push(shape("circle", { cx: x, cy: y, r: 9, class: "lk-st-broken" }));
    if (isBroken) label = `✕ ${label}`;
    if (label && y - (this.labelled.get(dot.lane) ?? -20) >= 12) {
      this.labelled.set(dot.lane, y);
      shapes.push(shape("text", { x: x + 7, y: y - 4 }, label));
    }
    const sentences = shown.map((at) => this.sentence(at));
    shapes.push(shape("title", {}, sentences.join("\n")));
    node.replaceChildren(...shapes);
    node.dataset.look = look;
    node.setAttribute("aria-label", sentences.join("; "));
    node.toggleAttribute("data-faded", !lit.length);
    const traced = this.chosen !== null && shown.some((at) => this.traced.has(at));
    node.toggleAttribute("data-traced", traced);
  }

  sentence(at) {
    const event = eventAt(this.diagram.columns, at);
    return fill(this.words.sentences[event.kind], event);
  }

  rove(index) {
    if (this.nodes[this.current]) this.nodes[this.current].setAttribute("tabindex", -1);
    this.current = index;
    this.nodes[index]?.setAttribute("tabindex", 0);
  }

  /** Choose a dot, and of its events the first that has a word. */
  pick(index, place) {
    const dot = this.layout.dots[index], shown = dot.places.filter((at) => at < this.upto);
    this.rove(index);
    this.nodes[index].focus({ preventScroll: true });
    this.scrollTo(dot);
    this.trace(place ?? shown.findLast((at) => this.diagram.words[at]) ?? shown[0]);
    this.choose(shown, this.chosen);
  }

  trace(at) {
    this.chosen = at;
    this.traced = this.layout.chain([at]);
    this.draw(this.upto);
  }

  /** Scroll the box, and nothing but the box. */
  scrollTo(dot) {
    const scale = this.svg.getBoundingClientRect().width / this.layout.width;
    const y = this.layout.rows.get(dot.time) * scale, box = this.element;
    if (y < box.scrollTop + 10) box.scrollTop = y - 40;
    else if (y > box.scrollTop + box.clientHeight - 60) box.scrollTop = y - box.clientHeight + 80;
  }

  /** Where a promise broke is in sight when the view opens. */
  showBroken() {
    const { seq } = this.diagram.columns, { dots } = this.layout;
    const dot = dots.find(({ places }) => places.some((at) => seq[at] === this.broken.seq));
    if (dot) this.scrollTo(dot);
  }

  /** The dot that lies there from the current one: earlier or later on the lane, or beside it. */
  move(key) {
    const { dots } = this.layout, now = dots[this.current];
    const open = dots.map((_, at) => at).filter((at) => !this.nodes[at].hasAttribute("hidden"));
    const along = open.filter((at) => dots[at].lane === now.lane);
    const step = (list, by) => list[Math.max(0, Math.min(list.length - 1, list.indexOf(this.current) + by))];
    const beside = (by) => {
      const lanes = open.map((at) => dots[at].lane).filter((lane) => (lane - now.lane) * by > 0);
      if (!lanes.length) return this.current;
      const lane = by > 0 ? Math.min(...lanes) : Math.max(...lanes);
      return open.filter((at) => dots[at].lane === lane)
        .reduce((a, b) => (Math.abs(dots[b].time - now.time) < Math.abs(dots[a].time - now.time) ? b : a));
    };
    const to = { ArrowUp: () => step(along, -1), ArrowDown: () => step(along, 1), Home: () => open[0],
      End: () => open.at(-1), ArrowLeft: () => beside(-1), ArrowRight: () => beside(1) }[key];
    if (to) this.pick(to());
  }
}

function stLegend(legend) {
  const key = (look) => shape("svg", { viewBox: "0 0 34 12", width: 34, height: 12, "aria-hidden": "true" },
    line("M2 6h26", look, ["add", "read", "fence", "refused"].includes(look) ? look : ""),
    ...(look === "lost" ? [shape("text", { x: 26, y: 10, class: "lk-st-cross" }, "✕")] : []));
  return make("div", { class: "lk-legend" }, ...legend.map(([look, text]) =>
    make("span", {}, key(look), text)));
}

/** What is chosen, over the picture. */
class Choices {
  constructor(model, changed, signal) {
    Object.assign(this, { model, changed, signal });
    const { columns, ledger } = model.get("diagram");
    const last = Math.max(0, ...columns.entry), end = (columns.time_us.at(-1) ?? 0) / 1000;
    const [first, to] = model.get("entries"), [from, until] = model.get("window_ms");
    const number = (value, most, step, label) => make("input",
      { type: "number", min: 0, max: most, step, value, "aria-label": label });
    const ms = (value) => Number(value.toFixed(2));
    this.entries = [number(first, last, 1, "First entry shown"), number(to, last, 1, "Last entry shown")];
    this.window = [number(ms(from), ms(end), "any", "Shown from, in ms"), number(ms(until), ms(end) + 0.01, "any", "Shown until, in ms")];
    this.follow = make("select", { "aria-label": "Entry to follow" });
    this.spacing = make("button", { title: "Rows as far apart as their times, quiet times cut short" }, "Real time");
    this.element = make("div", { class: "lk-title lk-st-choices" }, make("b", {}, `Ledger ${ledger}`),
      make("label", {}, "entries ", this.entries[0], " to ", this.entries[1]),
      make("label", {}, "ms ", this.window[0], " to ", this.window[1]),
      make("label", {}, "follow ", this.follow), this.spacing);
    const on = { signal };
    for (const input of this.entries) input.addEventListener("change", () => this.set("entries", this.entries), on);
    for (const input of this.window) input.addEventListener("change", () => this.set("window_ms", this.window), on);
    this.follow.addEventListener("change", () => this.put("follow", Number(this.follow.value)), on);
    this.spacing.addEventListener("click", () =>
      this.put("spacing", model.get("spacing") === "order" ? "time" : "order"), on);
    this.draw();
  }

  set(name, inputs) {
    const values = inputs.map((input) => Number(input.value) || 0);
    const whole = name === "window_ms" && inputs[1].value === inputs[1].defaultValue;
    const end = (this.model.get("diagram").columns.time_us.at(-1) ?? 0) / 1000;
    this.put(name, [Math.min(...values), whole ? end : Math.max(...values)]);
  }

  put(name, value) {
    this.model.set(name, value);
    this.model.save_changes();
    this.draw();
    this.changed();
  }

  draw() {
    const { model } = this, [first, last] = model.get("entries"), time = model.get("spacing") === "time";
    this.spacing.setAttribute("aria-pressed", String(time));
    const ids = Array.from({ length: Math.min(last - first + 1, 200) }, (_, at) => first + at);
    this.follow.replaceChildren(make("option", { value: -1 }, "nothing"),
      ...ids.map((id) => make("option", { value: id }, `entry ${id}`)));
    this.follow.value = ids.includes(model.get("follow")) ? model.get("follow") : -1;
  }
}

function render({ model, el, signal }) {
  const words = model.get("words"), diagram = model.get("diagram"), broken = model.get("broken");
  const sentence = make("p", { class: "lk-sentence", "aria-live": "polite" });
  const notice = make("p", { class: "lk-notice" });
  const where = make("div", { class: "lk-where", "aria-live": "polite" });
  const picture = new Picture(diagram, words, broken, tell, signal);
  const journal = new Journal({ kind: "whole", number: 0, columns: diagram.columns, left_out: 0 });
  const player = new Player(journal, () => draw(), signal);
  const bar = new Bar(player, words, false, signal, ST_MARKS);
  const choices = new Choices(model, () => begin(), signal);
  let width = ST.width;
  const root = make("div", { class: "lk-view lk-space-time" }, choices.element, stLegend(words.legend),
    picture.element, bar.element, sentence, notice, where);

  /** The player steps through what is shown, and through nothing else. */
  function begin() {
    const choice = Object.fromEntries(["entries", "window_ms", "follow", "spacing"]
      .map((name) => [name, model.get(name)]));
    const layout = new Layout(diagram, width, choice), { places } = layout;
    picture.take(layout);
    journal.columns = Object.fromEntries(Object.entries(diagram.columns)
      .map(([name, values]) => [name, places.map((at) => values[at])]));
    player.seek(places.filter((at) => at < model.get("upto")).length);
    say(where, make("span", { class: "lk-hint" },
      "Click a dot, or go there with Tab and the arrow keys, to see what happened and what led to it."));
  }

  function draw() {
    const { places } = picture.layout, atEnd = player.index === places.length;
    const upto = atEnd ? diagram.columns.seq.length : player.index ? places[player.index - 1] + 1 : 0;
    picture.draw(upto);
    if (player.playing && player.index) {
      const last = picture.layout.dots.findLast((dot) => dot.places[0] < upto);
      if (last) picture.scrollTo(last);
    } else if (model.get("upto") !== upto) {
      model.set("upto", upto);
      model.save_changes();
    }
    bar.draw();
    sentence.setAttribute("aria-live", player.playing ? "off" : "polite");
    say(sentence, player.index ? picture.sentence(places[player.index - 1]) : "Nothing has happened yet.");
    const isBroken = diagram.columns.seq.slice(0, upto).includes(broken.seq);
    say(notice, isBroken ? `✕ ${broken.name}: ${broken.reason}` : "");
  }

  /** What happened at the chosen dot, and what led to the chosen one of its events. */
  function tell(shown, chosen) {
    const item = (at) => {
      const button = make("button", { "aria-pressed": String(at === chosen) }, picture.sentence(at));
      button.addEventListener("click", () => { picture.trace(at); tell(shown, at); });
      return make("li", {}, button);
    };
    const led = [...picture.layout.chain([chosen])].slice(1).reverse();
    const { time_us } = diagram.columns;
    say(where, "");
    where.replaceChildren(make("b", {}, `${(time_us[chosen] / 1000).toFixed(2)} ms`),
      make("ul", { class: "lk-st-events" }, ...shown.map(item)),
      ...(led.length ? [make("span", { class: "lk-hint" }, "What led there:"), make("ol", {},
        ...led.map((at) => make("li", {}, `${(time_us[at] / 1000).toFixed(2)} ms  ${picture.sentence(at)}`)))] : []));
  }

  keepKeys(root, signal, (event) => {
    const { key, target } = event;
    if (picture.svg.contains(target) && /^(Arrow|Home|End)/.test(key)) picture.move(key);
    else if (picture.svg.contains(target) && key === "Enter") picture.pick(picture.current);
    else if (key === " " && !target.matches("button, select, input")) player.toggle();
    else return;
    event.preventDefault();
  });
  signal.addEventListener("abort", () => { player.playing = false; });
  el.append(root);
  begin();
  // How wide the box is, is known only once the page has laid it out; a window may change it later.
  let laidOut = false;
  const sized = new ResizeObserver(([{ contentRect: box }]) => {
    if (!box.width) return;
    if (widthIn(box.width) !== width) {
      width = widthIn(box.width);
      begin();
    }
    if (!laidOut) picture.showBroken();
    laidOut = true;
  });
  sized.observe(picture.element);
  signal.addEventListener("abort", () => sized.disconnect());
}

export default { render };
