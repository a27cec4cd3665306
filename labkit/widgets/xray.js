// The byte X-ray in the browser: the pieces of xray_piece.js, one moment at a time.

/** The chosen span in words: what it is, and where the same thing lies. */
function wordsOf(boxes, box, place) {
  if (!box) return [make("span", { class: "lk-hint" },
    "Point at a byte, or go there with Tab and the arrow keys, to see what it means.")];
  const span = box.piece.spans[place];
  const bytes = (n) => `${n.toLocaleString("en")} byte${n === 1 ? "" : "s"}`;
  const places = boxes.flatMap((each) => each.piece.spans
    .filter((other) => (each === box ? other === span : isTwin(other, span)))
    .map((other) => make("li", {}, make("b", {}, each.piece.title),
      ` ${each.piece.file.replace(/^current\//, "")} offset ${other.offset.toLocaleString("en")}, ${bytes(other.size)}`)));
  return [make("b", {}, span.name), ` ${span.value}: ${span.meaning}`, make("ul", {}, ...places)];
}

function render({ model, el, signal }) {
  const pieces = make("div", { class: "lk-xr-pieces", tabindex: 0, role: "group",
    "aria-label": "Bytes by field; left and right go to the next field, up and down to the next piece" });
  const steps = make("div", { class: "lk-xr-steps", role: "radiogroup", "aria-label": "Moment" });
  const where = make("div", { class: "lk-where", "aria-live": "polite" });
  const key = make("span", { class: "lk-xr-key" }, make("i"), "not synced: a power cut may take it");
  const root = make("div", { class: "lk-view lk-xray" }, steps, pieces, where);
  let boxes = [], pointed = null, chosen = null;

  function light() {
    const [box, place] = pointed ?? chosen ?? [];
    for (const each of boxes)
      each.light(each === box ? place : undefined, box?.piece.spans[place]);
    say(where, ...wordsOf(boxes, box, place));
  }

  function draw() {
    const moments = model.get("moments"), shown = model.get("shown");
    const hadFocus = pieces.contains(document.activeElement) && chosen;
    const before = chosen && [boxes.indexOf(chosen[0]), chosen[0].piece.spans[chosen[1]]];
    steps.replaceChildren(...moments.length < 2 ? [] : moments.map(({ label }, i) => {
      const button = make("button", { role: "radio", "aria-checked": String(i === shown),
        tabindex: i === shown ? 0 : -1 }, label);
      button.addEventListener("click", () => show(i), { signal });
      return button;
    }), key);
    key.hidden = !moments.some((m) => m.pieces.some((p) => /not|partly/.test(p.state)));
    boxes = moments[shown].pieces.map((piece) => new PieceBox(piece));
    pieces.replaceChildren(...boxes.map((box) => box.element));
    pointed = chosen = null;
    if (before) choose(before[0], before[1], hadFocus);
    light();
  }

  function show(index) {
    model.set("shown", Math.max(0, Math.min(model.get("moments").length - 1, index)));
    model.save_changes();
    steps.querySelector("[aria-checked=true]").focus();
  }

  /** Choose the span of that box that is the same thing, else its first. */
  function choose(boxIndex, span, focus) {
    const box = boxes[boxIndex];
    if (!box?.piece.spans.length) return false;
    const same = box.piece.spans.findIndex((other) => isTwin(other, span));
    chosen = [box, Math.max(0, same)];
    if (focus) focusChosen();
    return true;
  }

  function focusChosen() {
    const [box, place] = chosen;
    box.bytes[place][0]?.focus();
    light();
  }

  function move(key) {
    if (!chosen) {
      if (choose(boxes.findIndex((box) => box.piece.spans.length), {}, true)) focusChosen();
      return;
    }
    const [box, place] = chosen, index = boxes.indexOf(box);
    const drawn = box.bytes.flatMap((bytes, i) => (bytes.length ? [i] : []));
    const at = drawn.indexOf(place);
    const along = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: drawn.length - 1 }[key];
    if (along !== undefined) {
      chosen = [box, drawn[Math.max(0, Math.min(drawn.length - 1, along))]];
      return focusChosen();
    }
    const step = key === "ArrowDown" ? 1 : -1;
    for (let to = index + step; to >= 0 && to < boxes.length; to += step)
      if (choose(to, box.piece.spans[place], true)) return;
  }

  const spanAt = (target) => {
    const byte = target.closest?.("[data-span]");
    const box = byte && boxes.find((each) => each.element.contains(byte));
    return box ? [box, Number(byte.dataset.span)] : null;
  };
  pieces.addEventListener("pointerover", (event) => { pointed = spanAt(event.target); light(); }, { signal });
  pieces.addEventListener("pointerleave", () => { pointed = null; light(); }, { signal });
  pieces.addEventListener("click", (event) => {
    chosen = spanAt(event.target) ?? chosen;
    if (chosen) focusChosen();
  }, { signal });
  pieces.addEventListener("focus", () => (chosen ? focusChosen() : move("ArrowRight")), { signal });
  pieces.addEventListener("focusin", () => { pieces.tabIndex = -1; }, { signal });
  pieces.addEventListener("focusout", () => { pieces.tabIndex = 0; }, { signal });
  keepKeys(root, signal, (event) => {
    const { key, target } = event, step = { ArrowLeft: -1, ArrowRight: 1 }[key];
    if (target.matches("[role=radio]") && step) {
      show(model.get("shown") + step);
    } else if (pieces.contains(target) && /^(Arrow|Home|End)/.test(key)) move(key);
    else return;
    event.preventDefault();
  });
  model.on("change:shown", draw);
  signal.addEventListener("abort", () => model.off("change:shown", draw));
  el.append(root);
  draw();
}

export default { render };
