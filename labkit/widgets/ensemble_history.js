// The ensemble history in the browser: draws the moments that ensemble_moments.py finds, and tells
// the chosen one.  ensemble_svg.py draws the same look.

const GLYPHS = { created: "+", change: "●", deferred: "◌", closed: "■", down: "✕", back: "▲",
  recovery: "◆", lost: "✕", marked: "!", repaired: "✓" };
const BAD = ["down", "lost", "marked"];

const isAway = ({ state }) => state === "down" || state === "paused";
const entriesOf = ({ first, last }) =>
  (last < first ? `from ${first} on` : first === last ? `${first}` : `${first} to ${last}`);

function placeWords({ bookie, held, due, state }) {
  return `${bookie}: ${held} of ${due} copies${isAway({ state }) ? `, ${state}` : ""}`;
}

/** A place of an ensemble, filled as far as its copies are durable. */
function box(place, isDeferred) {
  const { bookie, held, due } = place, share = due ? held / due : 0;
  const element = make("span", { class: "lk-eh-box", "data-bookie": bookie, title: placeWords(place),
    style: `--share:${share * 100}%` }, make("b", {}, isAway(place) ? `${bookie} ✕` : bookie),
  make("i", {}, held === due ? "" : `${held}/${due}`));
  element.toggleAttribute("data-away", isAway(place));
  element.toggleAttribute("data-new", place.is_new);
  element.toggleAttribute("data-deferred", isDeferred);
  return element;
}

function legend(looks) {
  const samples = {
    full: {}, part: { held: 1 }, none: { held: 0 }, new: { is_new: true }, down: { state: "down" },
    deferred: { held: 0 },
  };
  return make("div", { class: "lk-legend" }, ...looks.map(([look, words]) => {
    const sample = box({ bookie: "", held: 2, due: 2, state: "up", is_new: false, ...samples[look] }, look === "deferred");
    sample.replaceChildren();
    sample.removeAttribute("title");
    sample.setAttribute("aria-hidden", "true");
    return make("span", {}, sample, words);
  }));
}

/** One moment: what happened, and the fragments in their columns. */
function line(moment, start, columns, index) {
  const firsts = columns.map(({ first }) => first);
  const stretches = moment.stretches.map((stretch) => {
    const begin = firsts.indexOf(stretch.first);
    const after = firsts.findIndex((first) => first > Math.max(stretch.last, stretch.first));
    return make("div", { class: "lk-eh-stretch", style:
      `grid-column: ${begin + 2} / ${(after < 0 ? firsts.length : after) + 2}` },
    ...stretch.places.map((place) => box(place, stretch.is_deferred)));
  });
  const ms = ((moment.time_us - start) / 1000).toLocaleString("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 });
  const told = make("button", { class: "lk-eh-told", tabindex: -1, "data-index": index },
    make("span", { class: "lk-eh-glyph", "aria-hidden": "true" }, GLYPHS[moment.kind]),
    make("small", {}, `${ms} ms`), make("span", {}, moment.words));
  const element = make("div", { class: "lk-eh-line" }, told, ...stretches);
  element.toggleAttribute("data-bad", BAD.includes(moment.kind));
  return element;
}

/** The chosen moment in words. */
function wordsOf(moment) {
  const lac = moment.last_add_confirmed;
  const state = moment.is_closed ? `closed, last entry ${lac}` : `open, LastAddConfirmed ${lac < 0 ? "none" : lac}`;
  return [make("b", {}, moment.words), make("span", { class: "lk-hint" }, ` · ${state}`),
    make("ul", {}, ...moment.stretches.map((stretch) => make("li", {},
      make("b", {}, `entries ${entriesOf(stretch)} `),
      stretch.places.map(placeWords).join(" · "), stretch.is_deferred ? " (not in the metadata yet)" : "")))];
}

function render({ model, el, signal }) {
  const { ledger, columns, moments, legend: looks } = model.get("history");
  const weights = columns.map(({ first, last }) => `minmax(62px, ${Math.max(last - first + 1, 1) + 3}fr)`);
  const heads = columns.map(({ words }) => make("span", {}, `entries ${words}`));
  const lines = moments.map((moment, index) => line(moment, moments[0].time_us, columns, index));
  const list = make("div", { class: "lk-eh-lines", role: "group", style: `--columns: ${weights.join(" ")}`,
    "aria-label": "Moments; the up and down arrow keys move among them" },
  make("div", { class: "lk-eh-line lk-eh-heads" }, make("span"), ...heads), ...lines);
  const where = make("div", { class: "lk-where", "aria-live": "polite" });
  const root = make("div", { class: "lk-view lk-history" },
    make("div", { class: "lk-title" }, make("b", {}, `Ledger ${ledger}: where it is stored`)),
    legend(looks), list, where);

  function draw(focus) {
    const chosen = model.get("chosen");
    for (const [index, each] of lines.entries()) {
      const told = each.querySelector("button");
      each.toggleAttribute("data-lit", index === chosen);
      told.setAttribute("tabindex", index === chosen ? 0 : -1);
      told.setAttribute("aria-pressed", String(index === chosen));
    }
    say(where, ...wordsOf(moments[chosen]));
    if (!focus) return;
    lines[chosen].querySelector("button").focus({ preventScroll: true });
    lines[chosen].scrollIntoView({ block: "nearest" });
  }

  function choose(index) {
    model.set("chosen", Math.max(0, Math.min(moments.length - 1, index)));
    model.save_changes();
    draw(true);
  }

  /** Show a bookie everywhere; nobody for "". */
  function follow(bookie) {
    for (const each of list.querySelectorAll(".lk-eh-box"))
      each.toggleAttribute("data-followed", bookie !== "" && each.dataset.bookie === bookie);
  }

  list.addEventListener("click", (event) => {
    const at = lines.indexOf(event.target.closest(".lk-eh-line"));
    if (at >= 0) choose(at);
  }, { signal });
  list.addEventListener("mouseover", (event) =>
    follow(event.target.closest(".lk-eh-box")?.dataset.bookie ?? ""), { signal });
  list.addEventListener("mouseleave", () => follow(""), { signal });
  keepKeys(root, signal, (event) => {
    const chosen = model.get("chosen");
    const to = { ArrowUp: chosen - 1, ArrowDown: chosen + 1, Home: 0, End: moments.length - 1 }[event.key];
    if (to === undefined || !event.target.matches(".lk-eh-told")) return;
    event.preventDefault();
    choose(to);
  });
  const redraw = () => draw(false);
  model.on("change:chosen", redraw);
  signal.addEventListener("abort", () => model.off("change:chosen", redraw));
  el.append(root);
  draw(false);
}

export default { render };
