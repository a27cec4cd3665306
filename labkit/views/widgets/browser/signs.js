// The signs above the slider: important moments of the run, and skipped quiet periods.

import { arrange, make } from "./page.js";

const SIGN_PX = 24;
/** The minimum distance between signs; at the ends of the bar, a sign is shifted by up to 4 px. */
const APART_PX = 28;
const SKIP_PX = 8;

/** @type {Record<string, (at: number, last: number) => number>} the sign that a key moves to */
const KEYS = {
  ArrowLeft: (at) => at - 1,
  ArrowUp: (at) => at - 1,
  ArrowRight: (at) => at + 1,
  ArrowDown: (at) => at + 1,
  Home: () => 0,
  End: (_, last) => last,
};

/** @typedef {[number, string, string, string]} Sign position, glyph, words, colour */

export class Signs {
  /** @type {Map<number, HTMLButtonElement>} by the position of the first sign in each group */
  buttons = new Map();
  /** @type {Sign[][]} the signs that share a button */
  groups = [];
  isHeld = false; // while the pointer is down, the signs do not move

  /**
   * @param {(position: number) => void} go
   * @param {() => number | null} here returns the current position
   */
  constructor(go, here) {
    this.go = go;
    this.here = here;
    this.quiet = make("span");
    this.bar = make("div", {
      ...{ role: "toolbar", "aria-label": "Important moments" },
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.key(event),
      onfocusin: (/** @type {any} */ event) => this.stopAt(event.target),
      onpointerdown: () => this.hold(),
    });
    this.element = make("div", { class: "lk-signs" }, this.bar, this.quiet);
  }

  /**
   * @param {Sign[]} signs
   * @param {[number, number, string][]} skips
   * @param {number} end the end of the run
   */
  draw(signs, skips, end) {
    const width = this.element.clientWidth;
    this.again = () => this.draw(signs, skips, end);
    if (!width || this.isHeld) return;
    const place = (/** @type {number} */ at) => at / end * (width - 16) + 8;
    this.groups = together(signs, place);
    this.bar.hidden = signs.length === 0;
    this.buttons = new Map(
      this.groups.map(([[at]]) => [at, this.buttons.get(at) ?? this.button(at)]),
    );
    const buttons = [...this.buttons.values()];
    this.groups.forEach((group, i) => dress(buttons[i], group, place(group[0][0]), width));
    arrange(this.bar, buttons);
    this.stopAt(buttons.find((each) => each.tabIndex === 0) ?? buttons[0]);
    this.quiet.replaceChildren(
      ...apart(skips, place).map(([start, , words]) =>
        make("i", { title: `${words} without an event`, style: `left:${place(start)}px` })
      ),
    );
  }

  /** Keep the signs in place while the pointer is down, so that a click does not miss its sign. */
  hold() {
    this.isHeld = true;
    const release = () => {
      this.isHeld = false;
      this.again?.();
    };
    const up = new AbortController();
    for (const name of ["pointerup", "pointercancel"]) {
      addEventListener(name, () => {
        up.abort();
        setTimeout(release);
      }, { signal: up.signal });
    }
  }

  /** @param {number} at */
  button(at) {
    return make("button", { tabindex: -1, onclick: () => this.press(at) });
  }

  /**
   * Go to the first moment of a sign; if it is already shown, go to the next one of the group.
   * @param {number} first
   */
  press(first) {
    const moments = this.groups.find(([[at]]) => at === first)?.map(([at]) => at) ?? [first];
    const shown = moments.indexOf(this.here() ?? NaN);
    this.go(moments.slice(shown + 1).find((at) => at > moments[shown]) ?? first);
  }

  /** Make this sign the Tab stop; arrow keys reach the others.  @param {HTMLElement} [stop] */
  stopAt(stop) {
    for (const each of this.buttons.values()) each.tabIndex = each === stop ? 0 : -1;
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const buttons = [...this.buttons.values()];
    const at = buttons.findIndex((each) => each === event.target);
    const to = KEYS[event.key]?.(at, buttons.length - 1);
    if (to === undefined) return;
    event.preventDefault();
    buttons[Math.min(Math.max(to, 0), buttons.length - 1)].focus();
  }
}

/**
 * Group signs that would overlap.
 * @param {Sign[]} signs
 * @param {(at: number) => number} place
 */
function together(signs, place) {
  /** @type {Sign[][]} */
  const groups = [];
  for (const sign of signs) {
    const group = groups.at(-1);
    if (group && place(sign[0]) - place(group[0][0]) < APART_PX) group.push(sign);
    else groups.push([sign]);
  }
  return groups;
}

/**
 * Give a button the look of its sign, or of the worst sign in its group.
 * @param {HTMLButtonElement} button
 * @param {Sign[]} group
 * @param {number} x
 * @param {number} width
 */
function dress(button, group, x, width) {
  const [, glyph, , colour] = group.find((each) => each[3] === "lost") ?? group[0];
  const words = [...new Set(group.map((each) => each[2]))].join("; ");
  if (button.title !== words) {
    button.title = words;
    button.setAttribute("aria-label", `Go to: ${words}`);
  }
  if (button.textContent !== glyph) button.textContent = glyph;
  button.className = `lk-${colour}`;
  button.style.left = `${Math.min(Math.max(x - SIGN_PX / 2, 0), width - SIGN_PX)}px`;
}

/**
 * Drop quiet periods whose signs would overlap the previous one.
 * @param {[number, number, string][]} skips
 * @param {(at: number) => number} place
 */
function apart(skips, place) {
  let last = -Infinity;
  return skips.filter(([start]) => {
    const isFree = place(start) - last >= SKIP_PX;
    if (isFree) last = place(start);
    return isFree;
  });
}
