// Bookie inside in the browser: draws the bands that bookie_bands.js makes of the events.

const BOOKIE_MARKS = { "node.killed": "◆", "node.started": "▲", "journal.replayed": "↺",
  "mark.persisted": "▼" };
const READS = { memtable: "tailing read: memtable, no disk",
  "entry log": "catch-up read: index, then entry log" };

function itemElement(item) {
  const element = make("span", { class: "lk-bi-item", "data-kind": item.kind });
  fillItem(element, item);
  return element;
}

function fillItem(element, item) {
  element.dataset.look = item.look;
  element.toggleAttribute("data-found", item.found);
  element.replaceChildren(make("span", {}, item.kind === "mark" ? "" : item.label));
  if (item.note) element.append(make("small", {}, item.note));
  if (item.hue >= 0) element.style.setProperty("--hue", `var(--bi-${item.hue % 6})`);
  const title = item.kind === "entry"
    ? `entry ${item.entry} of ledger ${item.ledger}: ${item.words}`
    : item.words || item.label || "padding: the next write begins a block";
  element.title = title;
  if (!["entry", "special", "mark"].includes(item.kind)) return;
  for (const [name, value] of Object.entries({ tabindex: -1, role: "img", "aria-label": title }))
    element.setAttribute(name, value);
}

/** What an item is about: items of one entry light up together; "" for padding and the like. */
function subjectOf({ kind, ledger, entry, note }) {
  return kind === "entry" ? `${ledger}/${entry}` : kind === "special" ? `${ledger} at ${note}` : "";
}

/** The bands as elements.  An item that stays keeps its element; one that is new may fly in. */
class Bands {
  constructor(changed, signal) {
    this.changed = changed;
    this.known = new Map();
    this.element = make("div", { class: "lk-bi-bands", tabindex: 0, role: "group",
      "aria-label": "Memtable, journal, entry log and index; arrow keys move among the entries" });
    const on = { signal };
    const keyOf = (target) => target.closest?.("[data-subject]")?.dataset.subject;
    this.element.addEventListener("pointerover", (e) => this.point(keyOf(e.target)), on);
    this.element.addEventListener("pointerleave", () => this.point(undefined), on);
    this.element.addEventListener("focusin", (e) => {
      this.element.tabIndex = -1;
      if (e.target === this.element) return this.items()[0]?.focus();
      this.chosen = keyOf(e.target);
      this.light();
    }, on);
    this.element.addEventListener("focusout", () => { this.element.tabIndex = 0; }, on);
  }

  draw(bands, fly) {
    const before = this.known, children = [];
    this.bands = bands;
    this.known = new Map();
    bands.forEach((band, place) => {
      const isNew = band.part !== bands[place - 1]?.part;
      const name = make("div", { class: "lk-bi-name" },
        ...(isNew ? [make("i", {}, band.part)] : []), make("b", {}, band.title),
        make("i", {}, band.subtitle));
      const items = make("div", { class: "lk-bi-items", role: "group", "data-part": band.part,
        "aria-label": `${band.part}: ${band.title}, ${band.subtitle}` });
      for (const item of band.items) items.append(this.itemOf(before, band, item, fly));
      for (const each of [name, items]) each.toggleAttribute("data-new", isNew && place > 0);
      children.push(name, items);
    });
    const focused = document.activeElement;
    this.element.replaceChildren(...children);
    if (this.element.contains(focused)) focused.focus({ preventScroll: true });
    this.light();
  }

  itemOf(before, band, item, fly) {
    const key = subjectOf(item), id = `${band.title} ${key}`;
    if (!key) return itemElement(item);
    const old = before.get(id), element = old ?? itemElement(item);
    if (old) fillItem(old, item);
    element.dataset.subject = key;
    this.known.set(id, element);
    // Into the memtable from the journal at replay, else from above: where it was just before.
    const from = band.part === "memory" && item.look === "replayed" ? 70 : -40;
    if (fly && !old) element.animate([{ transform: `translateY(${from}px)`, opacity: 0.2 }, {}],
      { duration: 280, easing: "ease-out" });
    return element;
  }

  items() { return [...this.element.querySelectorAll("[data-subject]")]; }

  point(key) {
    this.pointed = key;
    this.light();
  }

  light() {
    const lit = this.pointed ?? this.chosen;
    for (const element of this.items())
      element.toggleAttribute("data-lit", element.dataset.subject === lit);
    this.lit = lit;
    this.changed();
  }

  /** The lit entry's places, or what the lit record is, in words. */
  words() {
    if (!this.lit) return [make("span", { class: "lk-hint" },
      "Point at an entry, or go there with Tab and the arrow keys, to see all its places.")];
    const found = (this.bands ?? []).flatMap((band) => band.items
      .filter((item) => subjectOf(item) === this.lit).map((item) => [band.part, item]));
    const places = found.map(([part, { words }]) =>
      make("li", {}, make("b", {}, part), ` ${words}`));
    const { kind, ledger, entry } = found[0]?.[1] ?? {};
    const title = kind === "special" ? `Ledger ${ledger}` : `Entry ${entry} of ledger ${ledger}`;
    return found.length ? [make("b", {}, title), make("ul", {}, ...places)] : [];
  }

  move(key) {
    const items = this.items(), at = items.indexOf(document.activeElement);
    if (at < 0) return items[0]?.focus();
    const along = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: items.length - 1 }[key];
    if (along !== undefined) return items[Math.max(0, Math.min(items.length - 1, along))].focus();
    const bands = [...this.element.querySelectorAll(".lk-bi-items")];
    const step = key === "ArrowDown" ? 1 : -1;
    let to = bands.findIndex((band) => band.contains(items[at])) + step;
    while (bands[to] && !bands[to].querySelector("[data-subject]")) to += step;
    (bands[to]?.querySelector(`[data-subject="${items[at].dataset.subject}"]`)
      ?? bands[to]?.querySelector("[data-subject]"))?.focus();
  }
}

function legend(words) {
  return make("div", { class: "lk-legend" }, ...words.legend.map(([look, text]) => {
    const kind = ["special", "pad", "mark"].includes(look) ? look : "entry";
    const shown = { found: "put", special: "synced" }[look] ?? look;
    const key = itemElement({ ...EMPTY_ITEM, kind, look: shown, hue: 0, found: look === "found" });
    for (const name of ["tabindex", "role", "aria-label", "title"]) key.removeAttribute(name);
    key.setAttribute("aria-hidden", "true");
    return make("span", {}, key, text);
  }));
}

function render({ model, el, signal }) {
  const words = model.get("words"), calm = matchMedia("(prefers-reduced-motion: reduce)");
  const journal = new Journal(model.get("journal"));
  let moment = emptyBookie();

  const state = make("span", { class: "lk-bi-state" }), glyph = make("span", { class: "lk-bi-glyph" });
  const found = make("span", { class: "lk-bi-found" });
  const head = make("div", { class: "lk-bi-head" }, glyph, make("b", {}, model.get("bookie")),
    state, found);
  const sentence = make("p", { class: "lk-sentence", "aria-live": "polite" });
  const where = make("div", { class: "lk-where", "aria-live": "polite" });
  const bands = new Bands(() => say(where, ...bands.words()), signal);
  const player = new Player(journal, (steps) => draw(steps), signal);
  player.index = Math.min(model.get("start"), journal.count);
  const bar = new Bar(player, words, false, signal, BOOKIE_MARKS);
  const root = make("div", { class: "lk-view lk-bookie" }, head, legend(words), bands.element,
    bar.element, sentence, where);

  function draw(steps) {
    if (moment.count > player.index) moment = emptyBookie();
    advanceBookie(moment, journal.columns, player.index);
    const now = bookieStateOf(moment, journal.columns, words.sentences);
    root.dataset.state = now.state;
    glyph.textContent = { up: "●", down: "✕", unknown: "?" }[now.state];
    state.textContent = now.state === "down" ? "down: memory lost, files kept" : "";
    found.textContent = now.found ? READS[now.found.where] : "";
    bands.draw(bandsOf(now, model.get("page_size"), words.places),
      steps > 0 && steps < 20 && !calm.matches);
    bar.draw();
    sentence.setAttribute("aria-live", player.playing ? "off" : "polite");
    say(sentence, now.sentence || "Nothing has happened yet.");
  }

  keepKeys(root, signal, (event) => {
    const { key, target } = event;
    if (key === " " && !target.matches("button, select")) player.toggle();
    else if (bands.element.contains(target) && /^(Arrow|Home|End)/.test(key)) bands.move(key);
    else return;
    event.preventDefault();
  });
  signal.addEventListener("abort", () => { player.playing = false; });
  el.append(root);
  draw(0);
}

export default { render };
