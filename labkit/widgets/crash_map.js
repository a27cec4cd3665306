// The crash map in the browser: draws the cells that crash_map.py sends, and tells the chosen one.
// crash_map_svg.py draws and tells the same.

const GLYPHS = { safe: "", lost: "✕", invented: "?", refused: "!" };
const LEGEND = { safe: "everything acknowledged is there", lost: "something acknowledged is gone",
  refused: "the bookie does not start", invented: "there is what nobody asked for" };

const short = (operation) => operation.replaceAll("current/", "").replace(" bytes at ", " B at ");
const fate = (share) => ({ 0: "lost", 1: "kept" })[share] ?? "torn";

/** One map: its cells by row and column, and what each says in words. */
class Crashes {
  constructor(data) { Object.assign(this, data); }

  end(row, column) { return this.ends[this.cells[row][column][0]]; }

  place(row, column) {
    const { operation, step } = this.points[row], name = this.variants[column][0];
    if (!operation) return `after the last operation, ${name}`;
    return `before ${short(operation)}, during ${step}, ${name}`;
  }

  replay({ replayed }) {
    if (!replayed.length) return "none: the bookie does not start";
    const records = `${replayed[0]} record${replayed[0] === 1 ? "" : "s"}`;
    return replayed.length < 2 ? records : `${records}; after one more power cut ${replayed[1]}`;
  }

  /** The crash of one cell, as elements. */
  story(row, column) {
    const end = this.end(row, column), fates = this.cells[row][column][1];
    const promised = this.points[row].promised.map((i) => this.texts[i]).join(", ");
    const title = (text) => make("h4", {}, text);
    const list = (items) => make("ul", {}, ...items.map((item) => make("li", {}, ...item)));
    const survived = fates.map(([i, share]) => [make("b", {}, fate(share)), ` ${short(this.texts[i])}`]);
    const all = end.files.map((i) => this.files[i]), isEmpty = ([, , words]) => words === "empty";
    const files = all.filter((file) => !isEmpty(file)).map(([path, size, words, offset, data]) =>
      [make("b", { title: `${size.toLocaleString("en")} bytes` }, path), ` ${words}`,
        make("code", {}, `${offset}: ${data.slice(0, 47)}`)]);
    const empty = all.filter(isEmpty).map(([path]) => path).join(", ");
    if (empty) files.push([`empty: ${empty}`]);
    return [make("h3", {}, `Crash ${this.place(row, column)}`),
      make("p", { class: "lk-cm-end", "data-verdict": end.verdict }, end.words),
      title("Acknowledged before"), make("p", {}, promised || "nothing"),
      title(`Not synced: ${this.variants[column][1]}`),
      list(survived.length ? survived : [["there was nothing"]]),
      title("On disk at the next start"), list(files),
      title("Replay"), make("p", {}, this.replay(end))];
  }
}

function legend() {
  return make("div", { class: "lk-legend" }, ...Object.entries(LEGEND).map(([verdict, words]) =>
    make("span", {}, make("i", { class: "lk-cm-cell", "data-verdict": verdict, "aria-hidden": "true" },
      GLYPHS[verdict]), words)));
}

/** The table of cells.  `choose(row, column)` is called when a cell is chosen. */
class Table {
  constructor(crashes, choose, signal) {
    this.crashes = crashes;
    const heads = crashes.variants.map(([name, meaning]) => make("th", { scope: "col", title: meaning }, name));
    this.rows = crashes.points.map((point, row) => this.row(point, row));
    this.element = make("div", { class: "lk-cm-grid" }, make("table", { "aria-label":
      "Crash points; arrow keys move among the cells" },
    make("thead", {}, make("tr", {}, make("th", {}, "step"), make("th", {}, "the machine stops before"), ...heads)),
    make("tbody", {}, ...this.rows.map(({ element }) => element))));
    const at = (event) => event.target.closest?.("button[data-verdict]");
    this.element.addEventListener("click", (event) => {
      const cell = at(event);
      if (cell) choose(Number(cell.dataset.row), Number(cell.dataset.column));
    }, { signal });
  }

  row(point, row) {
    const { crashes } = this, first = crashes.points[row - 1]?.step !== point.step;
    const cells = crashes.variants.map((_, column) => {
      const { verdict, words } = crashes.end(row, column);
      return make("button", { class: "lk-cm-cell", tabindex: -1, "data-verdict": verdict, "data-row": row,
        "data-column": column, "aria-label": `${crashes.place(row, column)}: ${words}` }, GLYPHS[verdict]);
    });
    const label = short(point.operation) || "(the script has ended)";
    const element = make("tr", {}, ...(first ? [this.step(point.step, row)] : []),
      make("td", { class: "lk-cm-operation", title: label }, label), ...cells.map((cell) => make("td", {}, cell)));
    element.toggleAttribute("data-first", first);
    return { element, cells };
  }

  /** The name of a step, beside all of its rows. */
  step(name, row) {
    const after = this.crashes.points.slice(row).findIndex((point) => point.step !== name);
    const rowspan = after < 0 ? this.crashes.points.length - row : after;
    return make("th", { scope: "rowgroup", rowspan, title: name }, name);
  }

  light(row, column, focus) {
    for (const lit of this.element.querySelectorAll("[data-lit]")) {
      lit.removeAttribute("data-lit");
      lit.setAttribute("tabindex", -1);
    }
    const cell = this.rows[row].cells[column];
    cell.setAttribute("tabindex", 0);
    cell.toggleAttribute("data-lit", true);
    this.rows[row].element.toggleAttribute("data-lit", true);
    if (focus) cell.focus({ preventScroll: true });
    this.show(cell);
  }

  /** Scroll the table, and nothing but the table, so that the cell is in sight. */
  show(cell) {
    const box = this.element.getBoundingClientRect(), { top, bottom } = cell.getBoundingClientRect();
    if (top < box.top + 48) this.element.scrollTop += top - box.top - 48;
    else if (bottom > box.bottom - 8) this.element.scrollTop += bottom - box.bottom + 8;
  }
}

function render({ model, el, signal }) {
  const crashes = new Crashes(model.get("crashes"));
  const table = new Table(crashes, (row, column) => choose(row, column), signal);
  const story = make("div", { class: "lk-cm-story", "aria-live": "polite" });
  const unsafe = crashes.points.flatMap((_, row) => crashes.variants.flatMap((_, column) =>
    (crashes.end(row, column).verdict === "safe" ? [] : [[row, column]])));
  const next = make("button", {}, `Next unsafe cell (${unsafe.length})`);
  next.hidden = !unsafe.length;
  const root = make("div", { class: "lk-view lk-crash-map" }, legend(),
    make("div", { class: "lk-cm-sides" }, make("div", {}, table.element, next), story));

  function draw(focus) {
    const [row, column] = model.get("chosen");
    table.light(row, column, focus);
    say(story, ...crashes.story(row, column));
  }

  function choose(row, column) {
    model.set("chosen", [row, column]);
    model.save_changes();
    draw(true);
  }

  next.addEventListener("click", () => {
    const [row, column] = model.get("chosen");
    const after = unsafe.find(([r, c]) => r > row || (r === row && c > column)) ?? unsafe[0];
    choose(...after);
    next.focus();
  }, { signal });

  keepKeys(root, signal, (event) => {
    if (!event.target.matches("button[data-verdict]")) return;
    const [row, column] = model.get("chosen");
    const last = crashes.points.length - 1, right = crashes.variants.length - 1;
    const to = { ArrowUp: [Math.max(0, row - 1), column], ArrowDown: [Math.min(last, row + 1), column],
      ArrowLeft: [row, Math.max(0, column - 1)], ArrowRight: [row, Math.min(right, column + 1)],
      Home: [0, column], End: [last, column] }[event.key];
    if (!to) return;
    event.preventDefault();
    choose(...to);
  });
  const redraw = () => draw(false);
  model.on("change:chosen", redraw);
  signal.addEventListener("abort", () => model.off("change:chosen", redraw));
  el.append(root);
  draw(false);
  // Where the chosen cell lies is known only once the page has laid the table out.
  const sized = new ResizeObserver(() => { table.show(table.element.querySelector("button[data-lit]")); });
  sized.observe(table.element);
  signal.addEventListener("abort", () => sized.disconnect());
}

export default { render };
