// The bar under a picture: play, step, scrub, speed, and signs for what matters in the run.

import { inMs, make } from "./page.js";

const SIGN_PX = 24;
const SKIP_PX = 8;

/** @type {Record<string, number>} */
const STEPS = {
  ArrowLeft: -1,
  ArrowDown: -1,
  ArrowRight: 1,
  ArrowUp: 1,
  PageDown: 20,
  PageUp: -20,
};

/** @typedef {[number, string, string, string]} Sign position, glyph, words, colour */
/**
 * @typedef {{ knots: [number, number][], signs: Sign[], skips: [number, number, string][],
 *   live: boolean, slider: string }} Run what Python says of the run, for its bar
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
    this.signs = make("div", { class: "lk-signs" });
    this.time = make("output", { class: "lk-time" });
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
      make("div", { class: "lk-track" }, this.signs, this.range),
      this.time,
      this.speed,
      this.live,
    );
    new ResizeObserver(() => this.drawSigns()).observe(this.signs);
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
    const { data, end } = this, width = this.signs.clientWidth;
    if (!data || !width) return;
    const room = Math.floor(width / SIGN_PX), shown = data.signs.slice(-room);
    let free = 0; // signs that would cover each other stand side by side
    const places = shown.map(([at]) => {
      const x = Math.max(free, at / end * (width - 16) + 8 - SIGN_PX / 2);
      free = x + SIGN_PX;
      return x;
    });
    for (let i = places.length - 1, most = width - SIGN_PX; i >= 0; i--, most -= SIGN_PX) {
      places[i] = Math.min(places[i], most);
    }
    this.signs.replaceChildren(
      ...shown.map(([at, glyph, words, colour], i) =>
        make("button", {
          title: words,
          "aria-label": `Go to: ${words}`,
          class: `lk-${colour}`,
          style: `left:${places[i]}px`,
          tabindex: -1,
          onclick: () => this.go(at),
        }, glyph)
      ),
      ...apart(data.skips, end, width).map(([start, , words]) =>
        make("i", {
          title: `${words} without an event`,
          style: `left:${start / end * (width - 16) + 8}px`,
        })
      ),
    );
  }
}

/**
 * Quiet times whose signs would lie on each other have one, that of the first.
 * @param {Run["skips"]} skips
 * @param {number} end
 * @param {number} width
 */
function apart(skips, end, width) {
  let last = -Infinity;
  return skips.filter(([start]) => {
    const x = start / end * width, isFree = x - last >= SKIP_PX;
    if (isFree) last = x;
    return isFree;
  });
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
