// Pointer and keyboard in a picture: the mark under the pointer and its kin are highlighted in every
// view of the run, a mark with an act is a button, and arrow keys move from mark to mark.

import { make } from "./page.js";

/** @type {Record<string, [number, number]>} */
const ARROWS = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };

/** @param {any} target of an event, not necessarily an element */
const kinOf = (target) => target.closest?.("[data-kin]")?.dataset.kin.split(" ")[0] ?? "";

/**
 * `act(mark)`: a button of the picture was pressed.
 * @param {HTMLElement} picture
 * @param {() => import("./view.js").Clock} clock
 * @param {(mark: HTMLElement) => void} act
 */
export function listen(picture, clock, act) {
  const press = (/** @type {any} */ event) => {
    const button = event.target.closest("[data-act]"), kin = kinOf(event.target);
    const pin = button
      ? button.dataset.pin
      : event.target.closest("[data-pin]")?.dataset.pin ?? kin;
    if (button) act(button);
    if (pin) clock().pin(pin);
  };
  picture.addEventListener("pointerover", (event) => clock().choose(kinOf(event.target)));
  picture.addEventListener("pointerleave", () => clock().choose(""));
  picture.addEventListener("focusin", (event) => clock().choose(kinOf(event.target)));
  picture.addEventListener("focusout", () => clock().choose(""));
  picture.addEventListener("click", press);
  picture.addEventListener("keydown", (/** @type {any} */ event) => {
    if (event.key in ARROWS || inBlock(event)) {
      const mark = goInBlock(picture, event.target, event.key) ??
        go(picture, event.target, ...ARROWS[event.key]);
      if (mark?.dataset.act === "show") act(mark); // here, arrow keys select
    } else if (event.key === "Enter" || (event.key === " " && event.target.closest("[data-act]"))) {
      press(event);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  });
}

/** @param {KeyboardEvent} event */
const inBlock = ({ key, target }) =>
  (key === "Home" || key === "End") &&
  Boolean(/** @type {Element} */ (target).closest("[data-block]"));

/**
 * Return the mark that a key moves to from a mark in a block, or null if it leaves all blocks.
 * @param {HTMLElement} picture
 * @param {HTMLElement} from
 * @param {string} key
 */
function goInBlock(picture, from, key) {
  const block = from.closest("[data-block]");
  if (!block || block === from) return null;
  const down = ARROWS[key]?.[1];
  if (down) {
    const blocks = [...picture.querySelectorAll("[data-block]")];
    const next = blocks[blocks.indexOf(block) + down];
    if (!next) return null;
    const marks = marksOf(next), kin = kinOf(from);
    const same = marks.find((mark) => kinOf(mark) === kin);
    return focus(same ?? nearest(marks, from, ([x, y]) => Math.hypot(x, y)));
  }
  const marks = marksOf(block), at = marks.indexOf(from), last = marks.length - 1;
  const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: last }[key] ?? at;
  return focus(marks[Math.min(Math.max(to, 0), last)]);
}

/**
 * Focus and return the nearest mark in a direction; from the picture itself, focus its first mark.
 * @param {HTMLElement} picture
 * @param {HTMLElement} from
 * @param {number} across
 * @param {number} down
 */
function go(picture, from, across, down) {
  const marks = marksOf(picture);
  if (!marks.includes(from)) {
    focus(marks[0]);
    return null;
  }
  return focus(nearest(marks, from, ([x, y]) => {
    const along = x * across + y * down;
    return along > 1 ? along + 3 * (Math.abs(x * down) + Math.abs(y * across)) : Infinity;
  }));
}

/** @param {Element} whole @returns {HTMLElement[]} the focusable marks in it */
const marksOf = (whole) => {
  /** @type {NodeListOf<HTMLElement>} */
  const marks = whole.querySelectorAll("g[tabindex]");
  return [...marks];
};

/**
 * Focus a mark and scroll as little as possible; by default, a browser may centre the mark in the
 * window.
 * @param {HTMLElement | undefined} mark
 */
function focus(mark) {
  mark?.focus({ preventScroll: true });
  mark?.scrollIntoView({ block: "nearest", inline: "nearest" });
  return mark ?? null;
}

/**
 * Return the nearest mark; `far` maps the offset to a mark to its distance, Infinity to exclude it.
 * @param {HTMLElement[]} marks
 * @param {HTMLElement} from
 * @param {(way: [number, number]) => number} far
 */
function nearest(marks, from, far) {
  const centre = (/** @type {Element} */ mark) => {
    const { left, right, top, bottom } = mark.getBoundingClientRect();
    return [(left + right) / 2, (top + bottom) / 2];
  };
  const [x, y] = centre(from);
  /** @type {HTMLElement | undefined} */
  let best;
  let least = Infinity;
  for (const mark of marks) {
    if (mark === from) continue;
    const [u, v] = centre(mark), distance = far([u - x, v - y]);
    if (distance < least) [best, least] = [mark, distance];
  }
  return best;
}

/**
 * Return the titles of all marks of the highlighted kin, starting with the mark under the pointer.
 * Titles of marks that lead to another moment are buttons.
 * @param {HTMLElement} picture
 * @param {string} kin
 */
export function wordsOf(picture, kin) {
  if (!kin) return [];
  const marks = [...picture.querySelectorAll(`[data-kin~="${CSS.escape(kin)}"]:has(> title)`)];
  const here = marks.findLast((mark) => mark.matches(":hover, :focus"));
  /** @type {Map<string, Element>} */
  const said = new Map();
  for (const mark of [...(here ? [here] : []), ...marks]) {
    const words = mark.querySelector("title")?.textContent ?? "";
    if (!said.has(words)) said.set(words, mark);
  }
  return [...said].map(([words, mark]) => {
    const { act, on } = /** @type {HTMLElement} */ (mark).dataset;
    if (act !== "seek") return make("li", {}, words);
    return make("li", {}, make("button", { "data-act": act, "data-on": on }, words));
  });
}
