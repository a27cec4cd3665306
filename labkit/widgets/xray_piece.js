// A piece of bytes in the browser, each byte under its field; xray.py and lineage.py send pieces.

/** Two spans are the same thing in two places. */
const isTwin = (a, b) => a.hue >= 0 && a.hue === b.hue && a.value === b.value;

/** One piece: its rows of bytes, each byte under its span. */
class PieceBox {
  constructor(piece) {
    this.piece = piece;
    this.bytes = piece.spans.map(() => []);
    const name = piece.file.replace(/^current\//, "");
    const head = make("div", { class: "lk-xr-head" }, make("b", {}, piece.title),
      make("span", {}, name), make("span", { class: "lk-xr-state" }, piece.words));
    this.element = make("div", { class: "lk-xr-piece", role: "group", "data-state": piece.state,
      "aria-label": `${piece.title} ${name}, ${piece.words}` }, head,
      ...piece.rows.map((row) => this.row(...row)));
    if (piece.width > 8) this.element.toggleAttribute("data-wide", true);
  }

  row(offset, lead, leftOut, data, notes) {
    if (leftOut) return make("div", { class: "lk-xr-row" },
      make("span", { class: "lk-xr-gap" }, `⋮ ${leftOut.toLocaleString("en")} bytes`));
    const { piece } = this;
    const empty = (places) => Array.from({ length: places },
      () => make("span", { class: "lk-xr-byte", "data-lead": "" }));
    const text = data.map((b) => (b >= 32 && b < 127 ? String.fromCharCode(b) : "·")).join("");
    const note = make("span", { class: "lk-xr-note" }, ...notes.flatMap(([name, value], i) =>
      [make("b", {}, `${i ? " · " : ""}${name}${value && " "}`), value]));
    note.title = note.textContent;
    return make("div", { class: "lk-xr-row" }, make("span", { class: "lk-xr-at" }, offset),
      ...empty(lead), ...data.map((byte, i) => this.byte(byte, offset + i)),
      ...empty(piece.width - lead - data.length),
      make("span", { class: "lk-xr-text" }, `${" ".repeat(lead)}${text}`.padEnd(piece.width)), note);
  }

  byte(byte, at) {
    const { piece } = this;
    const element = make("span", { class: "lk-xr-byte", "aria-hidden": "true" },
      byte.toString(16).padStart(2, "0"));
    const place = piece.spans.findIndex((s) => s.offset <= at && at < s.offset + s.size);
    const span = piece.spans[place];
    element.toggleAttribute("data-unsafe", at - piece.offset >= piece.safe_size);
    if (!span) return element;
    if (!this.bytes[place].length) {
      element.setAttribute("tabindex", -1);
      element.setAttribute("role", "img");
      element.removeAttribute("aria-hidden");
      element.setAttribute("aria-label", `${span.name}: ${span.value}`);
    }
    element.toggleAttribute("data-first", span.offset === at);
    element.toggleAttribute("data-zeros", span.hue < 0);
    if (span.hue >= 0) element.style.setProperty("--hue", `var(--xr-${span.hue % 10})`);
    element.dataset.span = place;
    this.bytes[place].push(element);
    return element;
  }

  /** Light a span as the chosen one, and those that are the same thing. */
  light(chosen, span) {
    this.bytes.forEach((bytes, place) => {
      const lit = place === chosen, twin = chosen === undefined && span
        && isTwin(this.piece.spans[place], span);
      for (const byte of bytes) {
        byte.toggleAttribute("data-lit", lit);
        byte.toggleAttribute("data-twin", Boolean(twin));
      }
    });
  }
}
