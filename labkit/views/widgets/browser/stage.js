// Draws any scene, whatever it shows: compares the tree of row numbers on the page with the one to
// draw, and updates the differences.  Subtrees with the same row number are skipped.

const SVG = "http://www.w3.org/2000/svg";
const SMOOTH_MS = 200;
/** A mark that moves farther than this, in pixels, takes FAR_MS, so that the eye can follow it. */
const FAR = 80, FAR_MS = 600;
const SLIDING = ["x", "y", "width", "height", "cx", "cy", "r"];

/** @typedef {import("./film.js").Film} Film */
/** @typedef {{ attributes: Record<string, string>, text: string, move?: number[] }} Own */
/**
 * @typedef {{ element: SVGElement, film: Film | null, row: number, narrows: boolean, head: Own,
 *   children: Map<string, Drawn> }} Drawn a mark on the page, and the row it was drawn from
 */

export class Stage {
  /** @type {Film} the film that is drawn now */
  film;
  /** @type {Drawn | undefined} */
  root;
  smooth = false;
  /** Whether the page is narrow; `narrowed` in scene.py moves marks on narrow pages. */
  onNarrowPage = false;
  narrows = false; // whether the current scene has attributes for narrow pages, and they apply
  /** @type {Set<Drawn>} */
  moving = new Set();

  /** The picture.  Throws if nothing has been drawn yet. */
  get element() {
    if (!this.root) throw new Error("nothing has been drawn yet");
    return this.root.element;
  }

  /**
   * Show a scene of the film at a position of the clock.  smooth: animate marks that have moved.
   * @param {Film} film
   * @param {number} row
   * @param {number} position
   */
  draw(film, row, position, smooth = false) {
    const narrows = this.onNarrowPage && "data-narrow" in film.head(row).attributes;
    Object.assign(this, { film, smooth, narrows });
    this.root ??= this.made(row);
    this.update(this.root, row);
    for (const node of this.moving) {
      if (node.head.move && this.element.contains(node.element)) {
        node.element.setAttribute("transform", moved(node.head.move, position));
      } else this.moving.delete(node);
    }
  }

  /** @param {number} row @returns {Drawn} */
  made(row) {
    const element = /** @type {SVGElement} */ (
      document.createElementNS(SVG, this.film.head(row).tag)
    );
    return {
      element,
      film: null,
      row: -1,
      narrows: false,
      head: { attributes: {}, text: "" },
      children: new Map(),
    };
  }

  /** @param {Drawn} node @param {number} row */
  update(node, row) {
    const { film, narrows } = this;
    if (node.row === row && node.film === film && node.narrows === narrows) return;
    this.dress(node, this.head(row));
    this.arrange(node, film.rows[row].children);
    Object.assign(node, { row, film, narrows });
  }

  /** @param {number} row @returns {Own} */
  head(row) {
    const head = this.film.head(row), narrow = head.attributes["data-narrow"];
    if (!narrow || !this.narrows) return head;
    return { ...head, attributes: { ...head.attributes, ...JSON.parse(narrow) } };
  }

  /** @param {Drawn} node @param {Own} head */
  dress(node, head) {
    const { element, head: old } = node;
    if (old === head) return;
    for (const name in old.attributes) {
      if (!(name in head.attributes)) element.removeAttribute(name);
    }
    for (const [name, value] of Object.entries(head.attributes)) {
      const before = old.attributes[name];
      if (before === value) continue;
      write(element, name, value);
      if (this.smooth && before !== undefined) slide(element, name, before, value);
    }
    if (old.move && !head.move && !("transform" in head.attributes)) {
      element.removeAttribute("transform");
    }
    if (old.text !== head.text) element.textContent = head.text;
    node.head = head;
    if (head.move) this.moving.add(node);
  }

  /** @param {Drawn} node @param {number[]} rows */
  arrange(node, rows) {
    const before = node.children, { element } = node;
    node.children = new Map(rows.map((row) => {
      const key = this.film.key(row), known = before.get(key), child = known ?? this.made(row);
      this.update(child, row);
      if (!known && this.smooth && before.size && !child.head.move) {
        if (element.isConnected) appear(child.element);
      }
      return [key, child];
    }));
    for (const [key, child] of before) if (node.children.get(key) !== child) child.element.remove();
    let next = element.firstChild;
    for (const child of node.children.values()) {
      if (child.element === next) next = next.nextSibling;
      else element.insertBefore(child.element, next);
    }
  }
}

/** @param {Element} element @param {string} name @param {string} value */
function write(element, name, value) {
  if (name === "xmlns") element.setAttributeNS("http://www.w3.org/2000/xmlns/", name, value);
  else element.setAttribute(name, value);
}

/**
 * Fade in a new mark, and slide it into place if it has a starting offset.
 * @param {SVGElement} element
 */
function appear(element) {
  element.animate({ opacity: [0, 1] }, SMOOTH_MS);
  const { came } = element.dataset;
  if (!came) return;
  const [dx, dy] = came.split(" ").map(Number);
  const duration = Math.hypot(dx, dy) > FAR ? FAR_MS : SMOOTH_MS;
  element.animate({ translate: [`${dx}px ${dy}px`, "0px 0px"] }, { duration, easing: "ease-out" });
}

/**
 * Animate the change of an attribute that already has its new value.
 * @param {Element} element
 * @param {string} name
 * @param {string} before
 * @param {string} value
 */
function slide(element, name, before, value) {
  const timing = { duration: SMOOTH_MS, easing: "ease-out" };
  const px = (/** @type {string} */ text) =>
    text.replace(/translate\((\S+) (\S+)\)/, "translate($1px, $2px)");
  if (name === "transform") element.animate({ transform: [px(before), px(value)] }, timing);
  else if (SLIDING.includes(name) && element.tagName !== "text") {
    element.animate({ [name]: [`${before}px`, `${value}px`] }, timing);
  }
}

const tenth = (/** @type {number} */ value) =>
  Math.sign(value) * Math.floor(Math.abs(value) * 10 + 0.5) / 10 || 0;

/**
 * Return the transform of a moving mark, by the same formula as `Move.at` in scene.py.
 * @param {number[]} move
 * @param {number} position
 */
function moved([start, end, dx, dy], position) {
  const part = (position - start) / Math.max(end - start, 1);
  const left = 1 - Math.min(Math.max(part, 0), 1);
  return `translate(${tenth(dx * left)} ${tenth(dy * left)})`;
}
