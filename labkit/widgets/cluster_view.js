// The cluster view in the browser.  Follows cluster_fold.js in one ES module (cluster_view.py joins
// the two) and draws the fold's state; it keeps no other model.  Elements are reused, and only the
// rows in sight exist, so a ledger of thousands of entries costs no more than one of twenty.

const ROW_PX = 24;
const GLYPHS = { up: "●", down: "✕", paused: "‖", unknown: "?" };
const MARKS = { "node.killed": "◆", "node.paused": "‖", "node.started": "▲", "node.resumed": "▲",
  "ensemble.set": "●", "ledger.closed": "■" };
const MOST_MARKS = 60;
const REPLAY_S = 40; // how long a replay of a long log takes at normal speed
const SLOWEST_PER_S = 6;

/** Make an element with attributes and children. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** How a copy is drawn: what is stored on a bookie that answers nobody is hatched. */
function lookOf(copy, bookieState) {
  if (["memtable", "durable", "flushed"].includes(copy.state))
    return { down: "hatched", paused: "stopped" }[bookieState] ?? copy.state;
  return copy.state;
}

/** The events that the front end has, and whether it missed a message. */
class Journal {
  constructor(whole) { this.take(whole); }

  get count() { return this.columns.seq?.length ?? 0; }

  /** Take a message; false when an earlier one is missing. */
  take(message) {
    if (message.kind === "whole") {
      this.columns = structuredClone(message.columns);
      this.leftOut = message.left_out;
    } else if (message.number === this.number + 1) {
      for (const name in message.columns)
        for (const value of message.columns[name]) this.columns[name].push(value);
    } else return message.number <= this.number;
    this.number = message.number;
    return true;
  }
}

/** Play, step, scrub: owns which moment is shown.  `change(steps)` is called after each move. */
class Player {
  constructor(journal, change, signal) {
    Object.assign(this, { journal, change, signal });
    this.index = journal.count;
    this.playing = false;
    this.speed = 1;
  }

  get atEnd() { return this.index >= this.journal.count; }

  seek(index) {
    const before = this.index;
    this.index = Math.max(0, Math.min(this.journal.count, Math.round(index)));
    this.change(this.index - before);
  }

  step(count) { this.playing = false; this.seek(this.index + count); }

  toggle() {
    this.playing = !this.playing;
    if (this.playing && this.atEnd) this.seek(0);
    this.change(0);
    let last = performance.now(), due = 0;
    const frame = (now) => {
      if (!this.playing || this.signal.aborted) return;
      due += (now - last) / 1000 * this.speed
        * Math.max(SLOWEST_PER_S, this.journal.count / REPLAY_S);
      last = now;
      const whole = Math.floor(due);
      due -= whole;
      if (whole) this.seek(this.index + whole);
      if (this.atEnd) { this.playing = false; this.change(0); }
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }
}

/** The bar with the buttons, the scrubber and its event marks. */
class Bar {
  constructor(player, words, live, signal) {
    Object.assign(this, { player, words, live });
    const on = { signal };
    this.play = make("button", { class: "lk-play" });
    const back = make("button", { tabindex: -1, "aria-label": "One event back" }, "◀|");
    const next = make("button", { tabindex: -1, "aria-label": "One event on" }, "|▶");
    this.range = make("input", { type: "range", min: 0, "aria-label": "Moment of the run" });
    this.marks = make("div", { class: "lk-marks" });
    this.clock = make("span", { class: "lk-clock" });
    this.speed = make("select", { "aria-label": "Speed of the replay" },
      ...[["0.25", "¼×"], ["1", "1×"], ["4", "4×"], ["16", "16×"]].map(
        ([value, text]) => make("option", { value }, text)));
    this.speed.value = "1";
    this.end = make("button", { class: "lk-live", "aria-pressed": "true" }, "Live");
    this.play.addEventListener("click", () => player.toggle(), on);
    back.addEventListener("click", () => player.step(-1), on);
    next.addEventListener("click", () => player.step(1), on);
    this.range.addEventListener("input", () => {
      player.playing = false;
      player.seek(Number(this.range.value));
    }, on);
    this.speed.addEventListener("change", () => { player.speed = Number(this.speed.value); }, on);
    this.end.addEventListener("click", () => {
      player.playing = false;
      player.seek(player.journal.count);
    }, on);
    this.element = make("div", { class: "lk-player" }, this.play, back, next,
      make("div", { class: "lk-track" }, this.marks, this.range), this.clock, this.speed);
    if (live) this.element.append(this.end);
  }

  draw() {
    const { player, range } = this;
    const { columns, count } = player.journal;
    range.max = count;
    range.value = player.index;
    this.play.textContent = player.playing ? "❚❚" : "▶";
    this.play.setAttribute("aria-label", player.playing ? "Pause the replay" : "Play");
    this.end.setAttribute("aria-pressed", String(player.atEnd));
    const at = player.index ? columns.time_us[player.index - 1] - columns.time_us[0] : 0;
    this.clock.textContent = `${(at / 1e6).toFixed(3)} s`;
    range.setAttribute("aria-valuetext", `event ${player.index} of ${count}, ${this.clock.textContent}`);
    if (this.marked !== columns || this.markedCount !== count) this.drawMarks();
  }

  drawMarks() {
    const { player } = this, { columns, count } = player.journal;
    this.marked = columns;
    this.markedCount = count;
    const marked = [], stopped = new Set();
    for (let row = 0; row < count; row++) {
      const kind = columns.kind[row], node = columns.node[row];
      if (!(kind in MARKS)) continue;
      if (kind === "node.started" && !stopped.delete(node)) continue;
      if (kind === "ensemble.set" && columns.entry[row] <= 0) continue;
      if (kind === "node.killed") stopped.add(node);
      marked.push(row);
    }
    this.marks.replaceChildren(...marked.slice(-MOST_MARKS).map((row) => {
      const event = eventAt(columns, row);
      const words = fill(this.words.sentences[event.kind], event);
      const mark = make("button", { tabindex: -1, title: words, "aria-label": `Go to: ${words}`,
        "data-kind": event.kind, style: `--at:${(row + 1) / count}` }, MARKS[event.kind]);
      mark.addEventListener("click", () => { player.playing = false; player.seek(row + 1); });
      return mark;
    }));
  }
}

/** One bookie: its head with the buttons, and the column of its entries. */
class Column {
  constructor(name, act) {
    this.name = name;
    this.cells = new Map();
    this.glyph = make("span", { class: "lk-glyph", "aria-hidden": "true" });
    this.slot = make("span", { class: "lk-slot" });
    this.head = make("div", { class: "lk-head", role: "group" },
      make("div", { class: "lk-name", title: name }, this.glyph, make("span", {}, name)), this.slot);
    this.body = make("div", { class: "lk-column" });
    this.buttons = [];
    if (act) {
      this.buttons = [0, 1].map(() => make("button", { tabindex: -1 }));
      for (const button of this.buttons)
        button.addEventListener("click", () => {
          if (button.getAttribute("aria-disabled") === "false") act(button.dataset.do, name);
        });
      this.head.append(make("div", { class: "lk-acts" }, ...this.buttons));
    }
  }

  draw(state, slot, busy) {
    const word = { unknown: "not heard of yet" }[state] ?? state;
    this.head.setAttribute("aria-label", `${this.name}, ${word}`);
    this.glyph.textContent = GLYPHS[state];
    const place = slot >= 0 ? `ensemble place ${slot}` : "";
    const away = state === "down" || state === "paused";
    this.slot.textContent = away ? `${state}${slot >= 0 ? `, place ${slot}` : ""}` : place;
    this.slot.title = place && `${place}, counted from 0: entry i goes to place i mod E and the next`;
    for (const part of [this.head, this.body]) {
      part.dataset.state = state;
      part.dataset.ensemble = String(slot >= 0);
    }
    const acts = [state === "down" ? "restart" : "kill", state === "paused" ? "resume" : "pause"];
    this.buttons.forEach((button, i) => {
      const act = acts[i], off = Boolean(busy) || (act === "pause" && state === "down");
      const text = act[0].toUpperCase() + act.slice(1);
      button.dataset.do = act;
      button.textContent = busy === act ? "…" : text;
      button.setAttribute("aria-label", `${text} ${this.name}`);
      button.setAttribute("aria-disabled", String(off));
    });
  }

  /** Show these copies ([entry, copy, look, title, marks]) and no others; fresh ones may fly in. */
  drawCells(copies, fly) {
    const wanted = new Set(copies.map(([entry]) => entry));
    for (const [entry, cell] of this.cells)
      if (!wanted.has(entry)) { cell.remove(); this.cells.delete(entry); }
    for (const [entry, look, title, marks] of copies) {
      let cell = this.cells.get(entry);
      if (!cell) {
        cell = make("div", { class: "lk-cell", tabindex: -1, role: "img", "data-entry": entry,
          style: `top:${entry * ROW_PX + 2}px` });
        this.cells.set(entry, cell);
        this.body.append(cell);
        if (fly && look === "sent")
          cell.animate([{ transform: `translateX(${-this.body.offsetLeft}px)`, opacity: 0.3 }, {}],
            { duration: 250, easing: "ease-out" });
      }
      const key = `${look}|${title}|${Object.values(marks)}`;
      if (cell.key === key) continue;
      cell.key = key;
      cell.dataset.look = look;
      cell.title = title;
      cell.setAttribute("aria-label", title);
      for (const mark in marks) cell.toggleAttribute(`data-${mark}`, marks[mark]);
      cell.replaceChildren(make("span", {},
        `${entry}${{ failed: " ?", lost: " ✕" }[look] ?? ""}`));
    }
  }
}

/** The columns of bookies over the rows of entries: one tab stop, arrow keys inside. */
class Grid {
  constructor(words, act, choose, signal) {
    Object.assign(this, { words, act, choose });
    this.columns = new Map();
    this.first = 0;
    this.heads = make("div", { class: "lk-heads" });
    this.ids = make("div", { class: "lk-ids" });
    this.sight = make("span", { class: "lk-sight" });
    this.lac = make("div", { class: "lk-lac" }, make("b"));
    this.lap = make("div", { class: "lk-lap" }, make("b"));
    this.fragments = make("div");
    this.body = make("div", { class: "lk-body" }, this.ids);
    this.element = make("div", { class: "lk-grid", tabindex: 0, role: "group",
      "aria-label": "Bookies and the entries they hold; arrow keys move among them" },
    this.heads, this.body);
    const on = { signal };
    this.element.addEventListener("scroll", () => this.drawRows(false), on);
    for (const kind of ["wheel", "touchmove", "pointerdown"])
      this.element.addEventListener(kind, () => { this.sticky = false; }, { signal, passive: true });
    this.element.addEventListener("keydown", (event) => this.key(event), on);
    this.element.addEventListener("focusin", (event) => this.focused(event.target), on);
    this.element.addEventListener("focusout", () => { this.element.tabIndex = 0; }, on);
    const entryOf = (event) => event.target.closest(".lk-cell")?.dataset.entry;
    this.element.addEventListener("pointerover", (event) => this.point(entryOf(event)), on);
    this.element.addEventListener("pointerleave", () => this.point(undefined), on);
    this.sticky = true;
  }

  /** Draw one ledger of the moment. */
  draw(moment, ledgerId, busy, { fly, row }) {
    this.moment = moment;
    this.ledgerId = ledgerId;
    this.ledger = moment.ledgers.get(ledgerId) ?? EMPTY_LEDGER;
    const names = bookieNames(moment);
    if (names.join() !== [...this.columns.keys()].join()) this.arrange(names);
    const ensemble = this.ledger.fragments.at(-1)?.ensemble ?? [];
    for (const [name, column] of this.columns)
      column.draw(moment.nodes[name] ?? "unknown", ensemble.indexOf(name), busy[name]);
    this.last = Math.max(this.ledger.last_add_pushed, this.ledger.last_add_confirmed,
      ...names.map((name) => lastKey(moment.bookies.get(name).get(ledgerId))));
    this.body.style.height = `${Math.max(this.last + 1, 3) * ROW_PX + 10}px`;
    this.drawLines();
    if (this.sticky && row >= 0) this.reveal(row);
    this.drawRows(fly);
  }

  arrange(names) {
    this.columns = new Map(names.map((name) => [name, new Column(name, this.act)]));
    this.element.style.setProperty("--n", names.length);
    this.heads.replaceChildren(
      make("div", { class: "lk-corner" }, make("span", { class: "lk-writer" }, "writer"), this.sight),
      ...[...this.columns.values()].map((column) => column.head));
    this.body.replaceChildren(this.ids, ...[...this.columns.values()].map((column) => column.body),
      this.fragments, this.lap, this.lac);
  }

  drawLines() {
    const { last_add_confirmed: lac, last_add_pushed: lap, fragments } = this.ledger;
    const place = (line, entry, text) => {
      line.hidden = entry < 0;
      line.style.top = `${(entry + 1) * ROW_PX - 1}px`;
      line.firstChild.textContent = text;
    };
    place(this.lac, lac, lac === lap ? `LAC = LAP ${lac}` : `LAC ${lac}`);
    place(this.lap, lap > lac ? lap : -1, `LAP ${lap}`);
    this.fragments.replaceChildren(...fragments.slice(1).map(({ first_entry, ensemble }) =>
      make("div", { class: "lk-fragment", style: `top:${first_entry * ROW_PX - 1}px`,
        title: `from entry ${first_entry} on: ${ensemble.join(", ")}` })));
  }

  /** Scroll so that the row can be seen under the heads. */
  reveal(row) {
    const { element } = this, top = row * ROW_PX;
    const height = element.clientHeight - this.heads.offsetHeight - 12;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + ROW_PX > element.scrollTop + height)
      element.scrollTop = top + ROW_PX - height;
  }

  drawRows(fly) {
    if (!this.moment) return;
    const first = Math.max(0, Math.floor(this.element.scrollTop / ROW_PX) - 2);
    const end = Math.min(this.last + 1, first + Math.ceil(this.element.clientHeight / ROW_PX) + 4);
    this.drawSight();
    const { read } = this.moment;
    for (const [name, column] of this.columns) {
      const state = this.moment.nodes[name], copies = [];
      const held = this.moment.bookies.get(name).get(this.ledgerId) ?? new Map();
      for (let entry = first; entry < end; entry++) {
        const copy = held.get(entry);
        if (!copy) continue;
        const reading = read !== null && read.ledger === this.ledgerId && read.entry === entry
          && read.bookie === name;
        copies.push([entry, lookOf(copy, state), this.title(entry, name, copy),
          { acked: copy.acked, read: copy.reads > 0, reading, lit: entry === this.lit }]);
      }
      column.drawCells(copies, fly);
    }
    this.ids.replaceChildren(...range(first, end).map((entry) => make("span",
      { style: `top:${entry * ROW_PX}px`, ...(entry === this.lit && { "data-lit": "" }) }, entry)));
  }

  /** Say which rows are in sight, when not all are. */
  drawSight() {
    const rows = (this.element.clientHeight - this.heads.offsetHeight) / ROW_PX;
    const top = Math.round(this.element.scrollTop / ROW_PX);
    const bottom = Math.min(this.last, top + Math.floor(rows) - 1);
    this.sight.textContent = rows > 0 && this.last + 1 > rows
      ? `rows ${top}–${bottom} of ${this.last + 1}` : "";
  }

  title(entry, bookie, copy) {
    return `entry ${entry} of ledger ${this.ledgerId} on ${bookie}: ${this.where(bookie, copy)}`;
  }

  where(bookie, copy) {
    const state = this.moment.nodes[bookie];
    const away = state === "down" || state === "paused" ? ` (${bookie} is ${state})` : "";
    const reads = copy.reads ? `, read from here${copy.reads > 1 ? ` ${copy.reads} times` : ""}` : "";
    return fill(this.words.copies[copy.state], copy) + reads + away;
  }

  /** Light the entry that the pointer is on, else the one that has the focus. */
  point(entry) {
    this.pointed = entry === undefined ? undefined : Number(entry);
    this.light();
  }

  focused(target) {
    this.element.tabIndex = -1;
    if (target === this.element) return this.enter();
    const cell = target.closest(".lk-cell");
    this.chosen = cell ? Number(cell.dataset.entry) : undefined;
    this.light();
  }

  light() {
    const lit = this.pointed ?? this.chosen;
    if (lit === this.lit) return;
    this.lit = lit;
    this.drawRows(false);
    this.choose();
  }

  // Keys

  enter() {
    const cell = this.body.querySelector(`.lk-cell[data-entry="${this.chosen ?? this.last}"]`)
      ?? this.body.querySelector(".lk-cell") ?? this.heads.querySelector("button");
    cell?.focus({ preventScroll: true });
  }

  key(event) {
    const moves = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0],
      Home: [0, -Infinity], End: [0, Infinity] };
    if (!(event.key in moves)) return;
    event.preventDefault();
    this.sticky = false;
    const [across, down] = moves[event.key];
    const { target } = event;
    if (target.matches(".lk-acts button")) this.moveFromButton(target, across, down);
    else if (target.matches(".lk-cell")) this.moveFromCell(target, across, down);
    else this.enter();
  }

  moveFromButton(button, across, down) {
    const buttons = [...this.heads.querySelectorAll(".lk-acts button")];
    const place = buttons.indexOf(button);
    if (across) buttons[Math.max(0, Math.min(buttons.length - 1, place + across))].focus();
    else if (down > 0) this.focusCell(Math.floor(place / 2), -1, 1);
  }

  moveFromCell(cell, across, down) {
    const columns = [...this.columns.values()], entry = Number(cell.dataset.entry);
    const column = columns.findIndex((each) => each.body === cell.parentElement);
    if (across) {
      for (let to = column + across; to >= 0 && to < columns.length; to += across)
        if (columns[to].cells.has(entry)) return columns[to].cells.get(entry).focus();
    } else if (down === -Infinity) this.focusCell(column, -1, 1);
    else if (down === Infinity) this.focusCell(column, this.last + 1, -1);
    else if (!this.focusCell(column, entry, down) && down < 0) columns[column].buttons[0]?.focus();
  }

  /** Focus the column's next cell from that entry in that direction; false if there is none. */
  focusCell(column, entry, step) {
    const { name, cells } = [...this.columns.values()][column];
    const held = this.moment.bookies.get(name).get(this.ledgerId) ?? new Map();
    for (let to = entry + step; to >= 0 && to <= this.last; to += step) {
      if (!held.has(to)) continue;
      this.reveal(to);
      this.drawRows(false);
      cells.get(to).focus({ preventScroll: true });
      return true;
    }
    return false;
  }
}

const range = (first, end) => Array.from({ length: Math.max(0, end - first) }, (_, i) => first + i);

function lastKey(map) {
  let last = -1;
  for (const key of map?.keys() ?? []) last = Math.max(last, key);
  return last;
}

/** The line over the picture: which ledger, its quorums, how far it is. */
class Title {
  constructor(changed, signal) {
    this.select = make("select", { "aria-label": "Ledger" });
    this.select.addEventListener("change", changed, { signal });
    this.badges = make("span", { class: "lk-badges" });
    this.element = make("div", { class: "lk-title" }, this.select, this.badges);
  }

  /** The ledger to draw: the fixed one, the one chosen, else the newest. */
  ledger(moment, fixed) {
    const newest = Math.max(-1, ...moment.ledgers.keys());
    const known = fixed >= 0 ? [fixed] : [...moment.ledgers.keys()].sort((a, b) => b - a);
    if (known.join() !== this.known) {
      const chosen = this.select.value;
      this.known = known.join();
      this.select.replaceChildren(
        make("option", { value: "" }, newest < 0 && fixed < 0 ? "No ledger yet"
          : `Ledger ${known[0]}${known.length > 1 ? " (newest)" : ""}`),
        ...known.slice(1).map((id) => make("option", { value: id }, `Ledger ${id}`)));
      // Who looks at the newest follows it; who chose another stays there.
      this.select.value = known.slice(1).includes(Number(chosen)) ? chosen : "";
    }
    this.select.disabled = known.length < 2;
    return this.select.value === "" ? known[0] ?? -1 : Number(this.select.value);
  }

  draw(ledger, leftOut) {
    const number = (value) => (value < 0 ? "?" : value);
    const { ensemble_size, write_quorum, ack_quorum, closed } = ledger;
    const badges = [
      [`E ${number(ensemble_size)}`, "ensemble size: bookies that the ledger is spread over"],
      [`Qw ${number(write_quorum)}`, "write quorum: bookies that each entry is sent to"],
      [`Qa ${number(ack_quorum)}`, "ack quorum: acknowledgements after which an entry is confirmed"],
      [closed ? "closed" : "open", closed ? "its last entry is fixed" : "its writer may add"],
    ];
    if (leftOut) badges.push([`${leftOut.toLocaleString("en")} events left out`,
      "the oldest events of single entries are not kept in the view"]);
    this.badges.replaceChildren(...badges.map(([text, title]) => make("span", { title }, text)));
  }
}

/** Where the lit entry lies, in words; one line per bookie. */
function wordsOf(grid) {
  const entry = grid.lit;
  if (entry === undefined)
    return [make("span", { class: "lk-hint" }, "Point at an entry, or go there with Tab and the arrow keys, to see where it lies.")];
  const confirmed = entry <= grid.ledger.last_add_confirmed ? "confirmed" : "not confirmed";
  const lines = [...grid.columns.keys()].flatMap((name) => {
    const copy = grid.moment.bookies.get(name).get(grid.ledgerId)?.get(entry);
    return copy ? [make("li", {}, make("b", {}, name), ` ${grid.where(name, copy)}`)] : [];
  });
  return [make("b", {}, `Entry ${entry} of ledger ${grid.ledgerId}, ${confirmed}`),
    make("ul", {}, ...lines)];
}

function legend(words) {
  return make("div", { class: "lk-legend" }, ...words.legend.map(([look, text]) =>
    make("span", {}, make("i", { class: "lk-key", "data-look": look, "aria-hidden": "true" }), text)));
}

function render({ model, el, signal }) {
  const words = model.get("words"), live = model.get("live");
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  const journal = new Journal(model.get("journal"));
  const ask = (command, bookie = "") => model.send({ do: command, bookie });
  let moment = beginning(model.get("bookies")), folded = null;

  const sentence = make("p", { class: "lk-sentence", "aria-live": "polite" });
  const where = make("div", { class: "lk-where", "aria-live": "polite" });
  const notice = make("p", { class: "lk-notice", role: "alert" });
  const title = new Title(() => draw(0), signal);
  const grid = new Grid(words, live ? ask : null, () => where.replaceChildren(...wordsOf(grid)), signal);
  const player = new Player(journal, (steps) => draw(steps), signal);
  const bar = new Bar(player, words, live, signal);
  const root = make("div", { class: "lk-cluster" }, title.element, legend(words), grid.element,
    bar.element, sentence, notice, where);

  function draw(steps) {
    if (folded !== journal.columns || moment.count > player.index) {
      moment = beginning(model.get("bookies"));
      folded = journal.columns;
    }
    advance(moment, journal.columns, player.index);
    const ledgerId = title.ledger(moment, model.get("ledger"));
    title.draw(moment.ledgers.get(ledgerId) ?? EMPTY_LEDGER, journal.leftOut);
    const last = player.index ? eventAt(journal.columns, player.index - 1) : null;
    if (steps > 0 && player.atEnd && live || player.playing) grid.sticky = true;
    grid.draw(moment, ledgerId, model.get("busy"), {
      fly: steps > 0 && steps < 100 && !calm.matches,
      row: last?.ledger === ledgerId ? last.entry : -1,
    });
    bar.draw();
    sentence.textContent = last ? fill(words.sentences[last.kind], last) : "Nothing has happened yet.";
    notice.textContent = model.get("notice");
    where.replaceChildren(...wordsOf(grid));
  }

  function receive(message) {
    const follow = player.atEnd && !player.playing;
    if (!journal.take(message)) return ask("resync");
    if (follow || player.index > journal.count) player.seek(journal.count);
    else bar.draw();
  }

  model.on("msg:custom", receive);
  const journalChanged = () => {
    const whole = model.get("journal");
    if (whole.number > journal.number) receive(whole);
  };
  const redraw = () => draw(0);
  model.on("change:journal", journalChanged);
  model.on("change:busy change:notice", redraw);
  signal.addEventListener("abort", () => {
    player.playing = false;
    model.off("msg:custom", receive);
    model.off("change:journal", journalChanged);
    model.off("change:busy change:notice", redraw);
  });

  // Keys that the view understands must not reach JupyterLab, where `b` inserts a cell; those with
  // Ctrl, Meta or Alt are JupyterLab's.
  root.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    event.stopPropagation();
    if (event.key === " " && !event.target.matches("button, select")) {
      event.preventDefault();
      player.toggle();
    }
  }, { signal });
  el.append(root);
  draw(0);
  // The height is known only once the page has laid the view out.
  requestAnimationFrame(() => grid.drawRows(false));
}

export default { render };
