// Pointer and keys on a picture: what is pointed at lights up as kin in every view of the run, a
// mark with an act is a button, arrow keys go from mark to mark.

import { make } from "./page.js";

/** @type {Record<string, [number, number]>} */
const ARROWS = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };

/** @param {any} target of an event, which need not be an element */
const kinOf = (target) => target.closest?.("[data-kin]")?.dataset.kin.split(" ")[0] ?? "";

/**
 * `act(mark)`: a button of the picture was pressed.
 * @param {HTMLElement} picture
 * @param {() => import("./view.js").Clock} clock
 * @param {(mark: HTMLElement) => void} act
 */
export function listen(picture, clock, act) {
  const press = (/** @type {any} */ event) => {
    const button = event.target.closest("[data-act]");
    if (button) act(button);
    else if (kinOf(event.target)) clock().pin(kinOf(event.target));
  };
  picture.addEventListener("pointerover", (event) => clock().choose(kinOf(event.target)));
  picture.addEventListener("pointerleave", () => clock().choose(""));
  picture.addEventListener("focusin", (event) => clock().choose(kinOf(event.target)));
  picture.addEventListener("focusout", () => clock().choose(""));
  picture.addEventListener("click", press);
  picture.addEventListener("keydown", (/** @type {any} */ event) => {
    if (event.key in ARROWS) {
      const mark = go(picture, event.target, ...ARROWS[event.key]);
      if (mark?.dataset.act === "show") act(mark); // an arrow key chooses
    } else if (event.key === "Enter" || (event.key === " " && event.target.closest("[data-act]"))) {
      press(event);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  });
}

/**
 * Focus the nearest mark in that direction, and give it; from the picture itself, its first.
 * @param {HTMLElement} picture
 * @param {HTMLElement} from
 * @param {number} across
 * @param {number} down
 * @returns {HTMLElement | null}
 */
function go(picture, from, across, down) {
  /** @type {NodeListOf<HTMLElement>} */
  const focusable = picture.querySelectorAll("[tabindex]");
  const marks = [...focusable].filter((each) => each.tagName !== "svg");
  const centre = (/** @type {Element} */ mark) => {
    const { left, right, top, bottom } = mark.getBoundingClientRect();
    return [(left + right) / 2, (top + bottom) / 2];
  };
  if (!marks.includes(from)) {
    marks[0]?.focus({ preventScroll: true });
    return null;
  }
  const [x, y] = centre(from);
  /** @type {HTMLElement | null} */
  let best = null;
  let least = Infinity;
  for (const mark of marks) {
    if (mark === from) continue;
    const [u, v] = centre(mark), along = (u - x) * across + (v - y) * down;
    const aside = Math.abs((u - x) * down) + Math.abs((v - y) * across);
    if (along > 1 && along + 3 * aside < least) [best, least] = [mark, along + 3 * aside];
  }
  best?.focus({ preventScroll: true });
  return best;
}

/**
 * What all marks of the chosen kin say, in words: the titles that the picture has.
 * @param {HTMLElement} picture
 * @param {string} kin
 */
export function wordsOf(picture, kin) {
  if (!kin) return [];
  const titles = [...picture.querySelectorAll(`[data-kin~="${CSS.escape(kin)}"] > title`)];
  return [...new Set(titles.map((title) => title.textContent ?? ""))].map((words) =>
    make("li", {}, words)
  );
}
