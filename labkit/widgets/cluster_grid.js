// Bookies as columns and entries as rows.  Elements are reused, and only the rows in sight exist, so
// a ledger of thousands of entries costs no more than one of twenty.

const ROW_PX = 24;
const GLYPHS = { up: "●", down: "✕", paused: "‖", unknown: "?" };

/** How a copy is drawn: what is stored on a bookie that answers nobody is hatched. */
function lookOf(copy, bookieState) {
  if (["memtable", "durable", "flushed"].includes(copy.state))
    return { down: "hatched", paused: "stopped" }[bookieState] ?? copy.state;
  return copy.state;
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
    this.head.setAttribute("aria-label", `${this.name}, ${state}`);
    this.glyph.textContent = GLYPHS[state];
    const place = slot >= 0 ? `place ${slot}` : "";
    const told = { down: "down", paused: "paused", unknown: "no word yet" }[state];
    this.slot.textContent = told ? `${told}${slot >= 0 ? `, place ${slot}` : ""}` : place;
    this.slot.title = place && `place ${slot} of the ensemble, counted from 0: entry i goes to the`
      + " Qw places from i mod E on";
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
    place(this.lac, lac, `LAC ${lac}`);
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
      ? `${top}–${bottom} of ${this.last + 1}` : "";
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
