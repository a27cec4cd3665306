// Stripes in the browser.  The rules are those of stripes_rules.py, line by line; stripes_svg.py
// draws the same look.

const LEGEND = { enough: "counts towards Qa", copy: "one copy more", failed: "does not answer" };
const FATES = { safe: "✓ there", perhaps: "? perhaps lost", lost: "✕ lost" };

const count = (items, fits) => items.filter(fits).length;
const range = (size) => [...Array(size).keys()];

/** What E, Qw and Qa mean when some bookies fail. */
export class Striping {
  constructor(ensembleSize, writeQuorum, ackQuorum, failed) {
    Object.assign(this, { ensembleSize, writeQuorum, ackQuorum, failed });
  }

  writeSet(entry) { return range(this.writeQuorum).map((i) => (entry + i) % this.ensembleSize); }

  cells(entry) {
    const found = new Map();
    for (const place of this.writeSet(entry)) {
      const answering = count([...found.values()], (look) => look === "enough");
      const free = answering === this.ackQuorum ? "copy" : "enough";
      found.set(place, this.failed.includes(place) ? "failed" : free);
    }
    return found;
  }

  failedIn(entry) { return count(this.writeSet(entry), (place) => this.failed.includes(place)); }

  fate(entry) {
    const failed = this.failedIn(entry);
    if (failed < this.ackQuorum) return "safe";
    return failed < this.writeQuorum ? "perhaps" : "lost";
  }

  canBeAdded(entry) { return this.writeQuorum - this.failedIn(entry) >= this.ackQuorum; }

  get isCovered() { return range(this.ensembleSize).every((first) => this.fate(first) === "safe"); }

  get blocked() { return range(this.ensembleSize).find((first) => !this.canBeAdded(first)); }

  answers(entries) {
    const fates = range(entries).map((entry) => this.fate(entry));
    const parts = [["lost", "lost"], ["perhaps", "perhaps lost"]]
      .map(([fate, words]) => [count(fates, (each) => each === fate), words])
      .filter(([times]) => times).map(([times, words]) => `${words}: ${times}`);
    const { blocked, ackQuorum: qa } = this;
    return [
      ["Is every confirmed entry there?", !parts.length,
        parts.length ? `Of ${entries} entries ${parts.join(", ")}.`
          : `Yes: in each write set fewer than Qa = ${qa} fail.`],
      ["Can its writer go on as it is?", blocked === undefined,
        blocked === undefined ? `Yes: in each write set Qa = ${qa} answer.`
          : `No: of entry ${blocked}'s bookies ${this.writeQuorum - this.failedIn(blocked)} answer,`
            + ` ${qa} are wanted. Another bookie must take a place.`],
      ["Can its end be found, and the ledger closed?", this.isCovered,
        this.isCovered ? "Yes: those that answer know of all that was confirmed."
          : "No: an entry may have been confirmed by those that do not answer."],
    ];
  }

  tolerances() {
    return [
      [this.ackQuorum - 1, "every confirmed entry is there, and the ledger can be closed"],
      [this.writeQuorum - this.ackQuorum, "adds are confirmed, nobody is replaced"],
      [this.writeQuorum - 1, "an entry that all its Qw bookies have is there"],
    ];
  }
}

/** A number that can be changed: a slider with its name and value. */
class Slider {
  constructor(name, title, changed, signal) {
    this.input = make("input", { type: "range", min: 1, "aria-label": title });
    this.value = make("b", { "aria-hidden": "true" });
    this.element = make("label", { title }, name, this.input, this.value);
    this.input.addEventListener("input", () => changed(Number(this.input.value)), { signal });
  }

  draw(value, most) {
    this.input.max = most;
    this.input.value = value;
    this.value.textContent = value;
  }
}

/** The table: a head for each bookie, a line for each entry. */
function table(striping, entries, toggle) {
  const places = range(striping.ensembleSize);
  const heads = places.map((place) => {
    const failed = striping.failed.includes(place);
    const head = make("button", { "aria-pressed": failed, "data-place": place,
      "aria-label": `b${place} ${failed ? "does not answer" : "answers"}` },
    `b${place}`, make("small", {}, failed ? "✕ fails" : "answers"));
    head.addEventListener("click", () => toggle(place));
    return make("th", { scope: "col" }, head);
  });
  const lines = range(entries).map((entry) => {
    const cells = striping.cells(entry), fate = striping.fate(entry);
    return make("tr", { "data-entry": entry },
      make("th", { scope: "row" }, `entry ${entry}`),
      ...places.map((place) => {
        const look = cells.get(place), cell = make("td", look ? {} : { "aria-label": "no copy" });
        if (look) cell.append(make("span", { class: "lk-st-cell", "data-look": look,
          title: `entry ${entry} on b${place}: ${LEGEND[look]}` }, look === "enough" ? `${entry} ✓` : entry));
        cell.toggleAttribute("data-failed", striping.failed.includes(place));
        return cell;
      }),
      make("td", { class: "lk-st-fate", "data-fate": fate }, FATES[fate]));
  });
  return make("table", { "aria-label": "Entries and the bookies that store them" },
    make("thead", {}, make("tr", {}, make("td"), ...heads, make("td"))), make("tbody", {}, ...lines));
}

function story(striping, entries) {
  const answers = striping.answers(entries).flatMap(([title, isWell, words]) =>
    [make("h4", {}, title), make("p", { "data-well": isWell }, words)]);
  const lines = striping.tolerances().map(([most, words]) =>
    make("li", {}, make("b", {}, `any ${most} `), words));
  return [...answers, make("h4", {}, "Whichever fail"), make("ul", {}, ...lines)];
}

function render({ model, el, signal }) {
  const most = model.get("most");
  const legend = make("div", { class: "lk-legend" }, ...Object.entries(LEGEND).map(([look, words]) =>
    make("span", {}, make("i", { class: "lk-st-cell", "data-look": look, "aria-hidden": "true" }), words)));
  const sliders = {
    ensemble_size: new Slider("E", "Ensemble size: bookies that the ledger is spread over", (e) => set({ e }), signal),
    write_quorum: new Slider("Qw", "Write quorum: bookies that store each entry", (qw) => set({ qw }), signal),
    ack_quorum: new Slider("Qa", "Ack quorum: acknowledgements that confirm an entry", (qa) => set({ qa }), signal),
    entries: new Slider("entries", "Entries shown", (entries) => set({ entries }), signal),
  };
  const all = make("button", {}, "All answer");
  const grid = make("div", { class: "lk-st-grid" });
  const words = make("div", { class: "lk-st-story", "aria-live": "polite" });
  const root = make("div", { class: "lk-view lk-stripes" },
    make("div", { class: "lk-st-sizes" }, ...Object.values(sliders).map(({ element }) => element), all),
    legend, make("div", { class: "lk-st-sides" }, grid, words));

  /** Take new numbers; those that no longer fit follow. */
  function set({ e = model.get("ensemble_size"), qw = model.get("write_quorum"),
    qa = model.get("ack_quorum"), entries = model.get("entries"), failed = model.get("failed") }) {
    model.set("ensemble_size", e);
    model.set("write_quorum", Math.min(qw, e));
    model.set("ack_quorum", Math.min(qa, qw, e));
    model.set("entries", entries);
    model.set("failed", failed.filter((place) => place < e).sort((a, b) => a - b));
    model.save_changes();
    draw();
  }

  function toggle(place) {
    const failed = model.get("failed");
    set({ failed: failed.includes(place) ? failed.filter((each) => each !== place) : [...failed, place] });
  }

  function draw() {
    const [e, qw, qa] = ["ensemble_size", "write_quorum", "ack_quorum"].map((name) => model.get(name));
    const entries = model.get("entries"), failed = model.get("failed");
    const focused = root.querySelector(".lk-st-grid button:focus")?.dataset.place;
    const striping = new Striping(e, qw, qa, failed);
    sliders.ensemble_size.draw(e, most.bookies);
    sliders.write_quorum.draw(qw, e);
    sliders.ack_quorum.draw(qa, qw);
    sliders.entries.draw(entries, most.entries);
    all.setAttribute("aria-disabled", String(!failed.length));
    grid.replaceChildren(table(striping, entries, toggle));
    if (focused) grid.querySelector(`button[data-place="${focused}"]`)?.focus();
    say(words, ...story(striping, entries));
  }

  all.addEventListener("click", () => set({ failed: [] }), { signal });
  keepKeys(root, signal);
  const names = [...Object.keys(sliders), "failed"];
  for (const name of names) model.on(`change:${name}`, draw);
  signal.addEventListener("abort", () => { for (const name of names) model.off(`change:${name}`, draw); });
  el.append(root);
  draw();
}

export default { render };
