// The lineage of a message in the browser: rows of boxes from lineage_rows.py, one chosen in each,
// and under them the bytes of one copy.  lineage_svg.py draws the same look.

/** The part of the id that a byte's hue stands for; the order is that of HUES in lineage_rows.py. */
const PART_OF_HUE = ["ledger", "entry", "", "", "", "batch", "batch"];

/** A thing that can be pointed at: its element, the words for it, the part of the id it tells of. */
const item = (element, part, words) => ({ element, part, words });

/** A row: its label, its boxes, and the wedge from the chosen box down to all of the next row. */
class BoxRow {
  constructor(row, below) {
    this.items = row.boxes.map((box) => item(this.box(row, box), row.part, box.words));
    const role = row.part === "bookie" ? "radiogroup" : "group";
    const boxes = make("div", { class: "lk-li-boxes", role, "aria-label": row.label },
      ...this.items.map(({ element }) => element));
    if (row.after) boxes.append(make("small", {}, `+${row.after.toLocaleString("en")}`));
    this.element = make("div", { class: "lk-li-row", "data-part": row.part },
      make("b", { class: "lk-li-label" }, row.label, row.before ? " …" : ""), boxes,
      make("div", { class: "lk-li-note" }, row.note));
    this.element.style.setProperty("--count", row.boxes.length);
    const chosen = row.boxes.flatMap((box, i) => (box.is_chosen ? [i] : []));
    this.chosen = chosen[0] ?? 0;
    if (below && chosen.length) this.wedge(chosen[0], chosen.at(-1) + 1, below.boxes.length);
  }

  box(row, box) {
    const element = make("div", { class: "lk-li-box", role: "img", tabindex: -1,
      "aria-label": box.words }, make("span", {}, box.title));
    if (box.small) element.append(make("small", {}, box.small));
    element.toggleAttribute("data-chosen", box.is_chosen);
    element.toggleAttribute("data-dashed", box.is_dashed);
    if (box.copy >= 0) {
      element.dataset.copy = box.copy;
      element.setAttribute("role", "radio");
    }
    return element;
  }

  wedge(from, to, below) {
    const wedge = make("div", { class: "lk-li-wedge", "aria-hidden": "true" });
    wedge.style.setProperty("--from", from);
    wedge.style.setProperty("--to", to);
    wedge.style.setProperty("--below", below);
    this.element.append(wedge);
  }
}

/** The id's four numbers. */
function idRow(boxes) {
  const items = boxes.map(([part, number, name, origin]) => {
    const element = make("div", { class: "lk-li-number", role: "img", tabindex: -1, "data-part": part,
      "aria-label": `${name} ${number}: ${origin}` }, make("b", {}, number), make("span", {}, name),
    make("small", {}, origin));
    return item(element, part, `${name} ${number}: ${origin}`);
  });
  const element = make("div", { class: "lk-li-id", role: "group", "aria-label": "MessageID" },
    ...items.map((each) => each.element));
  return { items, element, chosen: 0 };
}

/** The bytes of a copy, as a row of its fields. */
function bytesRow({ piece }) {
  const box = new PieceBox(piece);
  const items = piece.spans.flatMap((span, place) => {
    const element = box.bytes[place][0];
    if (!element) return [];
    const words = `${span.name} ${span.value === span.name ? "" : span.value}: ${span.meaning}`;
    return [{ ...item(element, PART_OF_HUE[span.hue] ?? "", words), place, span }];
  });
  return { items, box, element: box.element, chosen: 0 };
}

function render({ model, el, signal }) {
  const rows = model.get("rows");
  const boxRows = rows.map((row, i) => new BoxRow(row, rows[i + 1]));
  const bytes = make("div", { class: "lk-xr-pieces" });
  const legend = make("div", { class: "lk-legend lk-li-legend" }, ...model.get("legend").map(([hue, words]) => {
    const sign = make("i", { "aria-hidden": "true" });
    if (hue >= 0) sign.style.setProperty("--hue", `var(--xr-${hue})`);
    return make("span", {}, sign, words);
  }));
  const where = make("div", { class: "lk-where", "aria-live": "polite" });
  const all = make("div", { class: "lk-li-all", tabindex: 0, role: "group",
    "aria-label": "Lineage of the message; up and down go from row to row, left and right within a row" });
  const root = make("div", { class: "lk-view lk-lineage lk-xray" }, all, where);
  let lines = [], pointed = null, at = null;

  const bookieBoxes = () => boxRows.at(-1).items.map(({ element }) => element);

  /** Say what is pointed at, and light the part of the id that it tells of. */
  function light() {
    const now = pointed ?? at;
    const shown = now && lines[now[0]]?.items[now[1]];
    lines.at(-1).box?.light(shown?.place, shown?.span);
    for (const element of root.querySelectorAll(".lk-li-number"))
      element.toggleAttribute("data-lit", Boolean(shown) && element.dataset.part === shown.part);
    const [name, ...rest] = (shown?.words ?? "").split(/(?=[:,])/);
    say(where, ...shown ? [make("b", {}, name), rest.join("")] : [make("span", { class: "lk-hint" },
      "Point at anything, or go there with Tab and the arrow keys. A bookie that is chosen shows its bytes.")]);
  }

  function draw() {
    const copies = model.get("copies");
    const shown = Math.max(0, copies.findIndex(({ bookie }) => bookie === model.get("bookie")));
    const line = bytesRow(copies[shown]);
    bytes.replaceChildren(line.element);
    for (const element of bookieBoxes()) {
      const isShown = element.dataset.copy === String(shown);
      if (element.dataset.copy !== undefined) element.setAttribute("aria-checked", isShown);
      element.toggleAttribute("data-shown", isShown);
    }
    lines = [idRowShown, ...boxRows, line];
    pointed = null;
    light();
  }

  function choose(element) {
    const copy = element.closest("[data-copy]")?.dataset.copy;
    if (copy === undefined) return false;
    model.set("bookie", model.get("copies")[copy].bookie);
    model.save_changes();
    return true;
  }

  function go(row, place) {
    const line = lines[row];
    if (!line?.items.length) return;
    at = [row, Math.max(0, Math.min(line.items.length - 1, place))];
    pointed = null;
    line.items[at[1]].element.focus();
    light();
  }

  function move(key) {
    const [row, place] = at ?? [0, -1];
    const along = { ArrowLeft: place - 1, ArrowRight: place + 1, Home: 0, End: Infinity }[key];
    if (along !== undefined) return go(row, along);
    const next = row + (key === "ArrowDown" ? 1 : -1);
    if (lines[next]) go(next, lines[next].chosen);
  }

  const placeOf = (target) => {
    const row = lines.findIndex(({ element }) => element.contains(target));
    if (row < 0) return null;
    const span = target.closest("[data-span]")?.dataset.span;
    const place = lines[row].items.findIndex((each) => (span === undefined
      ? each.element.contains(target) : String(each.place) === span));
    return place < 0 ? null : [row, place];
  };

  const idRowShown = idRow(model.get("id_boxes"));
  all.append(idRowShown.element, ...boxRows.map(({ element }) => element), legend, bytes);
  all.addEventListener("pointerover", (event) => { pointed = placeOf(event.target); light(); }, { signal });
  all.addEventListener("pointerleave", () => { pointed = null; light(); }, { signal });
  all.addEventListener("click", (event) => {
    const found = placeOf(event.target);
    if (found) go(...found);
    choose(event.target);
  }, { signal });
  all.addEventListener("focus", () => go(...at ?? [0, 0]), { signal });
  all.addEventListener("focusin", () => { all.tabIndex = -1; }, { signal });
  all.addEventListener("focusout", () => { all.tabIndex = 0; }, { signal });
  keepKeys(root, signal, (event) => {
    const { key, target } = event;
    if (/^(Arrow|Home|End)/.test(key)) move(key);
    else if (!/^( |Enter)$/.test(key) || !choose(target)) return;
    event.preventDefault();
  });
  model.on("change:bookie", draw);
  signal.addEventListener("abort", () => model.off("change:bookie", draw));
  el.append(root);
  draw();
}

export default { render };
