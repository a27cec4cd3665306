// The events of one run or of two: filtered, in sight only, each with what led to it.

const EVENT_PX = 22;
const FAULT_GLYPHS = { "node.killed": "◆", "node.paused": "‖", "node.resumed": "▲", "link.cut": "✂",
  "link.healed": "▲", "message.lost": "✕", "message.copied": "⧉", "message.swapped": "⇄",
  "disk.bad": "!", "disk.rotted": "!", "clock.skewed": "!", "session.lost": "!", "node.failed": "!" };

/** The steps of the view as events: which run, which row, and the event itself. */
class Events {
  constructor(runs) {
    this.runs = runs;
    this.columns = runs.map((run) => run.columns);
    this.steps = stepsOf(...this.columns);
    this.count = this.steps.which.length;
    this.parting = this.steps.which.findIndex((which) => which !== BOTH);
    this.broken = runs.map((run) => new Set(run.broken.map(([, , , seq]) => seq)));
  }

  /** Which run step n tells of, and the row there. */
  placeOf(n) {
    const { which, ofFirst, ofOther } = this.steps;
    return which[n] === OTHER ? [1, ofOther[n] - 1] : [0, ofFirst[n] - 1];
  }

  at(n) {
    const [run, row] = this.placeOf(n);
    return eventAt(this.columns[run], row);
  }

  get(n, column) {
    const [run, row] = this.placeOf(n);
    return this.columns[run][column][row];
  }

  /** The step in which the event of that seq of a run happens; -1 if none. */
  stepOf(run, seq) {
    const row = this.columns[run].seq.indexOf(seq);
    const counts = run ? this.steps.ofOther : this.steps.ofFirst;
    return row < 0 ? -1 : counts.indexOf(row + 1);
  }

  isBroken(n) {
    const [run, row] = this.placeOf(n);
    if (this.broken[run].has(this.columns[run].seq[row])) return true;
    return this.steps.which[n] === BOTH && this.runs.length > 1
      && this.broken[1].has(this.columns[1].seq[this.steps.ofOther[n] - 1]);
  }

  /** The promise that broke in step n: name, promise, reason, seq and lineage. */
  breakAt(n) {
    const [run, row] = this.placeOf(n), seq = this.columns[run].seq[row];
    return this.runs[run].broken.find((broken) => broken[3] === seq);
  }

  /** Step n and what led to it, in order: its causes, or all that a broken promise speaks of. */
  lineage(n) {
    const path = [], [run] = this.placeOf(n), broken = this.breakAt(n);
    if (broken?.[4].length)
      return broken[4].map((seq) => this.stepOf(run, seq)).sort((a, b) => a - b);
    while (n >= 0) {
      path.push(n);
      const cause = this.get(n, "cause");
      n = cause < 0 ? -1 : this.stepOf(run, cause);
    }
    return path.reverse();
  }

  /** All steps as columns, for the bar that plays them. */
  asColumns() {
    const names = ["seq", "time_us", "node", "kind", "ledger", "entry", "peer", "file", "offset", "size", "note"];
    const columns = Object.fromEntries(names.map((name) => [name, new Array(this.count)]));
    for (let n = 0; n < this.count; n++) {
      const [run, row] = this.placeOf(n);
      for (const name of names) columns[name][n] = this.columns[run][name][row];
    }
    return columns;
  }
}

/** Which events are listed. */
class Filter {
  constructor(events, changed, signal) {
    const kinds = new Set(), nodes = new Set(), entries = new Set();
    for (let n = 0; n < events.count; n++) {
      kinds.add(events.get(n, "kind"));
      nodes.add(events.get(n, "node"));
      if (events.get(n, "ledger") >= 0) entries.add(`${events.get(n, "ledger")}`);
      if (events.get(n, "entry") >= 0) entries.add(`${events.get(n, "ledger")}/${events.get(n, "entry")}`);
    }
    const parts = (text) => text.split("/").map(Number);
    const inOrder = [...entries].sort((a, b) => {
      const [l, e = -1] = parts(a), [m, f = -1] = parts(b);
      return l - m || e - f;
    });
    const groups = [...new Set([...kinds].map((kind) => kind.split(".")[0]))].sort();
    const select = (label, all, values) => {
      const element = make("select", { "aria-label": label }, make("option", { value: "" }, all),
        ...values.map(([value, text]) => make("option", { value }, text)));
      element.addEventListener("change", changed, { signal });
      return element;
    };
    this.node = select("Events of this node", "all nodes", [...nodes].sort().map((name) => [name, name]));
    this.entry = select("Events of this ledger or entry", "all entries",
      inOrder.map((id) => [id, id.includes("/") ? `entry ${id}` : `ledger ${id}`]));
    this.kind = select("Events of this kind", "all kinds", [
      ["!faults", "faults only"],
      ...groups.flatMap((group) => [[`${group}.`, `${group} …`],
        ...[...kinds].filter((kind) => kind.startsWith(`${group}.`)).sort().map((kind) => [kind, `   ${kind}`])])]);
    this.count = make("span", { class: "lk-hint" });
    this.element = make("div", { class: "lk-tl-filter" }, this.node, this.entry, this.kind, this.count);
  }

  /** The steps that pass. */
  steps(events) {
    const node = this.node.value, kind = this.kind.value, [ledger, entry] = this.entry.value.split("/");
    const kept = [];
    for (let n = 0; n < events.count; n++) {
      const is = events.get(n, "kind");
      if (node && events.get(n, "node") !== node && events.get(n, "peer") !== node) continue;
      if (kind === "!faults" ? !(is in FAULT_GLYPHS) : kind.endsWith(".") ? !is.startsWith(kind) : kind && is !== kind) continue;
      if (ledger && events.get(n, "ledger") !== Number(ledger)) continue;
      if (entry !== undefined && events.get(n, "entry") !== Number(entry)) continue;
      kept.push(n);
    }
    this.count.textContent = kept.length === events.count ? `${events.count} events`
      : `${kept.length} of ${events.count} events`;
    return kept;
  }
}

/** The list: only its rows in sight exist. */
class EventList {
  constructor(events, sentence, choose, signal) {
    Object.assign(this, { events, sentence, choose });
    this.id = `lk-tl-${Math.random().toString(36).slice(2)}`;
    this.filter = new Filter(events, () => { this.refresh(); this.draw(this.index, true); }, signal);
    this.rows = make("div", { class: "lk-tl-rows" });
    this.box = make("div", { class: "lk-tl-list", tabindex: 0, role: "listbox",
      "aria-label": "Events; arrow keys move among them" }, this.rows);
    this.element = make("div", { class: "lk-tl-events" }, this.filter.element, this.box);
    this.box.addEventListener("scroll", () => this.drawRows(), { signal });
    this.box.addEventListener("click", (event) => {
      const row = event.target.closest("[data-step]");
      if (row) choose(Number(row.dataset.step) + 1);
    }, { signal });
    this.box.addEventListener("keydown", (event) => {
      const by = { ArrowUp: -1, ArrowDown: 1, PageUp: -10, PageDown: 10 }[event.key];
      if (!by) return;
      event.preventDefault();
      this.move(by);
    }, { signal });
    this.refresh();
  }

  refresh() {
    this.kept = this.filter.steps(this.events);
    this.rows.style.height = `${this.kept.length * EVENT_PX}px`;
  }

  /** Go that many listed events on. */
  move(by) {
    const { kept } = this, here = this.index - 1;
    let place = kept.findIndex((n) => n >= here);
    if (place < 0) place = kept.length;
    if (by > 0 && kept[place] !== here) place--;
    const to = kept[Math.max(0, Math.min(kept.length - 1, place + by))];
    if (to !== undefined) this.choose(to + 1);
  }

  /** The moment is after the first `index` steps. */
  draw(index, follow) {
    this.index = index;
    this.lit = new Set(index ? this.events.lineage(index - 1) : []);
    if (follow) this.reveal();
    this.drawRows();
  }

  reveal() {
    let place = this.kept.findIndex((n) => n >= this.index);
    place = (place < 0 ? this.kept.length : place) - 1;
    const top = place * EVENT_PX, { box } = this;
    if (top < box.scrollTop + EVENT_PX) box.scrollTop = top - EVENT_PX * 2;
    else if (top + EVENT_PX * 2 > box.scrollTop + box.clientHeight)
      box.scrollTop = top + EVENT_PX * 3 - box.clientHeight;
  }

  drawRows() {
    const { box, kept, events } = this;
    const first = Math.max(0, Math.floor(box.scrollTop / EVENT_PX) - 2);
    const end = Math.min(kept.length, first + Math.ceil(box.clientHeight / EVENT_PX) + 4);
    this.rows.replaceChildren(...range(first, end).map((place) => this.row(kept[place], place)));
    const here = this.rows.querySelector("[aria-selected=true]");
    if (here) box.setAttribute("aria-activedescendant", here.id);
    else box.removeAttribute("aria-activedescendant");
    box.toggleAttribute("data-two", events.runs.length > 1);
  }

  row(n, place) {
    const { events } = this, event = events.at(n), which = events.steps.which[n];
    const words = this.sentence(event), isBroken = events.isBroken(n);
    const glyph = isBroken ? "✘" : FAULT_GLYPHS[event.kind] ?? (this.lit.has(n) && n !== this.index - 1 ? "•" : "");
    const row = make("div", { role: "option", id: `${this.id}-${n}`, "data-step": n, title: `${event.kind}: ${words}`,
      "data-which": which, "aria-selected": n === this.index - 1, style: `top:${place * EVENT_PX}px` },
    make("i", { "aria-hidden": "true" }, glyph),
    make("time", {}, (event.time_us / 1000).toFixed(2)),
    make("span", {}, ...(words.startsWith(`${event.node} `)
      ? [make("b", {}, event.node), words.slice(event.node.length)] : [words])));
    row.toggleAttribute("data-later", n >= this.index);
    row.toggleAttribute("data-lineage", this.lit.has(n));
    row.toggleAttribute("data-broken", isBroken);
    row.toggleAttribute("data-fault", event.kind in FAULT_GLYPHS);
    row.toggleAttribute("data-parting", n === events.parting);
    return row;
  }
}
