// The bar below a picture: play, step, scrub, speed, and signs at the important moments of the run.

import { CopyButton, linkAt } from "./link.js";
import { clockTime, make } from "./page.js";
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

const CHECK = "Check: cut the power everywhere, read everything back. ";
const LINK = "Copy a link that opens what you see now, here or with `labkit open LINK`";
const CODE = "Copy this play as Python: a scenario that runs to the same digest";

/**
 * @typedef {{ knots: [number, number][], signs: import("./signs.js").Sign[],
 *   skips: [number, number, string][], live: boolean, slider: string, check?: number | null,
 *   verdict?: string, curve?: Curve, link?: string, code?: string,
 *   old?: OldFuture | null }} Run what the bar needs to know about the run, from Python
 */
/**
 * @typedef {{ points: [number, number][], searches: boolean, remaining: number }} Curve the share of
 *   futures that break a promise at some positions, and whether (and how many) more are being tried
 */
/**
 * @typedef {{ start: number, at: number, end: number, signs: import("./signs.js").Sign[] }} OldFuture
 *   what would have happened without the fault that made this fork: the fault's position in this
 *   run (`start`) and in the old one (`at`), and the rest of the old run
 */

export class Bar {
  /** @type {Run | null} data and `end` for which the signs were last drawn */
  data = null;
  end = 0;
  shown = 0;

  /**
   * `film()` and `clock()` return the current ones.
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
    this.meanings = make("ul", { class: "lk-meanings", "aria-label": "Signs above the slider" });
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
    this.check = make("button", { class: "lk-check", onclick: () => this.toggleCheck() });
    this.band = make("div", { class: "lk-band" });
    this.curve = make("div", { class: "lk-curve" });
    this.ghost = make("div", { class: "lk-ghost" });
    this.live = make("button", { class: "lk-live", onclick: () => this.follow() }, "Live");
    this.link = new CopyButton("Copy link", LINK);
    this.code = new CopyButton("Record this", CODE);
    this.element = make(
      "div",
      { class: "lk-bar" },
      this.play,
      button("Previous event", "◀|", () => this.step(-1)),
      button("Next event", "|▶", () => this.step(1)),
      make(
        "div",
        { class: "lk-track" },
        this.signs.element,
        this.band,
        this.range,
        this.ghost,
        this.curve,
      ),
      this.check,
      this.time,
      this.speed,
      this.live,
      this.link.element,
      this.code.element,
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
    this.go(film.beat(Math.max(0, Math.min(this.last, number))).at);
  }

  /** The last event that the slider reaches. */
  get last() {
    return this.film().at(this.clock().end);
  }

  /** Show or hide the final check, in which the power is cut and everything is read back. */
  toggleCheck() {
    const clock = this.clock();
    const shows = !clock.checks;
    Object.assign(clock, { touched: true, follows: false, playing: false, checks: shows });
    clock.seek(clock.check);
    if (!shows) return;
    if (this.calm.matches) clock.seek(clock.full);
    else clock.play();
  }

  calm = matchMedia("(prefers-reduced-motion: reduce)");

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
   * Update the bar to the event with this number, which is at this position.
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
    const behind = Math.round((timeAt(data.knots, clock.end) - timeAt(data.knots, position)) / 1e6);
    const live = clock.follows ? "● Live" : behind > 0 ? `Go live · ${behind} s behind` : "Go live";
    if (this.live.textContent !== live) this.live.textContent = live;
    const skip = clock.playing &&
      data.skips.find(([start, end]) => start < position && position < end);
    this.drawCheck(data);
    const { link, code } = data;
    this.link.draw(() => link ? linkAt(link, this.film().beat(this.shown).seq) : "");
    this.code.draw(() => code ?? "");
    const last = this.last, isRun = data.knots.length > 0;
    const time = isRun ? clockTime(timeAt(data.knots, position)) : `${number + 1} of ${last + 1}`;
    this.time.textContent = skip ? `» ${skip[2]}` : time;
    this.range.setAttribute(
      "aria-valuetext",
      this.time.textContent + (isRun ? `, event ${number} of ${last}` : ""),
    );
    if (this.data !== data || this.end !== clock.end) {
      Object.assign(this, { data, end: clock.end });
      this.drawSigns();
      this.drawCurve(data.curve);
    }
  }

  /**
   * Draw the share of futures that break the promise, as steps below the slider.
   * @param {Curve | undefined} curve
   */
  drawCurve(curve) {
    this.curve.hidden = !curve;
    if (!curve) return;
    const { points, searches, remaining } = curve, tried = points.length;
    const at = (/** @type {number} */ x) => (100 * Math.min(x / this.end, 1)).toFixed(2);
    const level = (/** @type {number} */ share) => (22 - 20 * share).toFixed(1);
    const steps = points.map(([x, share]) => `H${at(x)}V${level(share)}`).join("");
    this.curve.innerHTML = '<svg viewBox="0 0 100 24" preserveAspectRatio="none" role="img"' +
      ' aria-label="The share of other futures in which the promise breaks, from none (below) to' +
      ` all (above)"><path d="M0 22${steps}H100V22H0Z"/></svg>` +
      "<span>futures that break the promise</span>";
    if (!searches) return;
    const words = `${tried} of about ${tried + remaining} moments tried`;
    const label = { "aria-label": "Trying other futures of this run", title: words };
    this.curve.append(make("progress", { value: tried, max: tried + remaining, ...label }));
  }

  /** @param {Run} data */
  drawCheck(data) {
    const { check, checks, full } = this.clock(), words = data.verdict ?? "";
    this.check.hidden = !words;
    this.band.hidden = !words || !checks;
    if (!words) return;
    const text = checks ? "Hide the check" : `Check ${words[0]}`;
    if (this.check.textContent !== text) this.check.textContent = text;
    this.check.title = CHECK + words;
    this.check.setAttribute("aria-label", `${text}. ${CHECK}${words}`);
    this.check.setAttribute("aria-pressed", String(checks));
    this.band.style.left = `calc(8px + ${check / full} * (100% - 16px))`;
  }

  drawSigns() {
    if (!this.data) return;
    const { skips } = this.data;
    const signs = this.data.signs.filter(([at]) => at <= this.end);
    this.signs.draw(signs, skips.filter(([start]) => start < this.end), this.end);
    const glyphs = [...new Set(signs.map(([, glyph]) => glyph))];
    this.meanings.replaceChildren(...glyphs.map((glyph) => meaning(glyph, signs)));
    this.drawGhost(this.data.old ?? null);
  }

  /** Draw the old future below the slider, from the fault on.  @param {OldFuture | null} old */
  drawGhost(old) {
    this.ghost.hidden = !old;
    if (!old) return;
    const share = Math.min(1, (this.end - old.start) / (old.end - old.at || 1));
    const place = (/** @type {number} */ at) => {
      const part = (old.start + (at - old.at) * share) / this.end;
      return `calc(8px + ${part} * (100% - 16px))`;
    };
    this.ghost.title = "Without the fault, this would have happened.";
    this.ghost.replaceChildren(
      make("b", { style: `left:${place(old.at)};right:calc(100% - ${place(old.end)})` }),
      ...old.signs.filter(([at]) => at > old.at && at <= old.end).map(([at, glyph, words]) =>
        make("i", { title: `Without the fault: ${words}`, style: `left:${place(at)}` }, glyph)
      ),
    );
  }
}

/**
 * Return the legend's explanation of a glyph, which describes its first sign.
 * @param {string} glyph
 * @param {import("./signs.js").Sign[]} signs
 */
function meaning(glyph, signs) {
  const [[, , words, colour], ...others] = signs.filter((each) => each[1] === glyph);
  const more = others.length ? ` (and ${others.length} more)` : "";
  return make("li", {}, make("b", { class: `lk-${colour}` }, glyph), ` ${words}${more}`);
}

/**
 * Return the run's time at a position, by linear interpolation between knots.
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
