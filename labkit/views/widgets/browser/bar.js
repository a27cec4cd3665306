// The bar under a picture: play, step, scrub, speed, and signs for what matters in the run.

import { inMs, make } from "./page.js";
import { Signs } from "./signs.js";

/** @type {Record<string, number>} */
const STEPS = {
  ArrowLeft: -1,
  ArrowDown: -1,
  ArrowRight: 1,
  ArrowUp: 1,
  PageDown: 20,
  PageUp: -20,
};

/**
 * @typedef {{ knots: [number, number][], signs: import("./signs.js").Sign[],
 *   skips: [number, number, string][], live: boolean, slider: string }} Run
 *   what Python says of the run, for its bar
 */

export class Bar {
  /** @type {Run | null} with `end`, as the signs were drawn last */
  data = null;
  end = 0;
  shown = 0;

  /**
   * `film()` and `clock()`: those that are shown now.
   * @param {() => import("./film.js").Film} film
   * @param {() => import("./view.js").Clock} clock
   */
  constructor(film, clock) {
    this.film = film;
    this.clock = clock;
    /** @type {(label: string, glyph: string, onclick: () => void) => HTMLButtonElement} */
    const button = (label, glyph, onclick) =>
      make("button", { "aria-label": label, title: label, onclick }, glyph);
    this.play = button("Play", "▶", () => this.toggle());
    this.range = make("input", {
      type: "range",
      min: 0,
      step: "any",
      oninput: () => this.go(Number(this.range.value)),
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.key(event),
    });
    this.signs = new Signs((position) => this.go(position), () => clock().position);
    this.time = make("span", { class: "lk-time" });
    this.speed = make(
      "select",
      {
        "aria-label": "Speed",
        onchange: () => {
          clock().speed = Number(this.speed.value);
        },
      },
      ...[["0.25", "¼×"], ["1", "1×"], ["4", "4×"], ["16", "16×"]].map(([value, text]) =>
        make("option", { value }, text)
      ),
    );
    this.live = make("button", { class: "lk-live", onclick: () => this.follow() }, "Live");
    this.element = make(
      "div",
      { class: "lk-bar" },
      this.play,
      button("One event back", "◀|", () => this.step(-1)),
      button("One event on", "|▶", () => this.step(1)),
      make("div", { class: "lk-track" }, this.signs.element, this.range),
      this.time,
      this.speed,
      this.live,
    );
    new ResizeObserver(() => this.drawSigns()).observe(this.signs.element);
  }

  toggle() {
    const clock = this.clock();
    clock.touched = true;
    clock.follows = false;
    if (clock.playing) return clock.pause();
    if (clock.position === null || clock.position >= clock.end) clock.seek(0);
    clock.play();
  }

  /** @param {number} position */
  go(position) {
    const clock = this.clock();
    Object.assign(clock, { touched: true, follows: false, playing: false });
    clock.seek(position);
  }

  /** @param {number} count */
  step(count) {
    const film = this.film(), number = this.shown + count;
    this.go(film.beat(Math.max(0, Math.min(film.last, number))).at);
  }

  follow() {
    const clock = this.clock();
    clock.follows = true;
    clock.position ??= 0;
    clock.play();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const count = STEPS[event.key];
    if (count === undefined) return;
    event.preventDefault();
    this.step(count);
  }

  /**
   * Show the run's data at a position, which is that of the event with this number.
   * @param {Run} data
   * @param {number} position
   * @param {number} number
   */
  draw(data, position, number) {
    const clock = this.clock();
    this.shown = number;
    this.element.hidden = this.film().last === 0 || !data.slider;
    this.range.setAttribute("aria-label", data.slider);
    this.range.max = String(clock.end);
    this.range.value = String(position);
    this.speed.value = String(clock.speed);
    const label = clock.playing ? "Pause" : "Play";
    if (this.play.getAttribute("aria-label") !== label) {
      this.play.setAttribute("aria-label", label);
      this.play.title = label;
      this.play.textContent = clock.playing ? "❚❚" : "▶";
    }
    this.live.hidden = !data.live;
    this.live.setAttribute("aria-pressed", String(clock.follows));
    const skip = clock.playing &&
      data.skips.find(([start, end]) => start < position && position < end);
    const last = this.film().last, isRun = data.knots.length > 0;
    const time = isRun ? inMs(timeAt(data.knots, position)) : `${number + 1} of ${last + 1}`;
    this.time.textContent = skip ? `» ${skip[2]}` : time;
    this.range.setAttribute(
      "aria-valuetext",
      this.time.textContent + (isRun ? `, event ${number} of ${last}` : ""),
    );
    if (this.data !== data || this.end !== clock.end) {
      Object.assign(this, { data, end: clock.end });
      this.drawSigns();
    }
  }

  drawSigns() {
    if (this.data) this.signs.draw(this.data.signs, this.data.skips, this.end);
  }
}

/**
 * The run's time at a position: the knots are joined by straight lines.
 * @param {[number, number][]} knots
 * @param {number} position
 */
function timeAt(knots, position) {
  let low = 0, high = knots.length - 1;
  if (high < 0) return 0;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (knots[middle][0] <= position) low = middle;
    else high = middle;
  }
  const [p, t] = knots[low], [q, u] = knots[high];
  return q > p ? t + (u - t) * Math.min(Math.max((position - p) / (q - p), 0), 1) : t;
}
