// A view in the browser: a film, its clock, its controls.  Python decides what is drawn.

import { Bar } from "./bar.js";
import { join } from "./clock.js";
import { Controls } from "./controls.js";
import { Film } from "./film.js";
import { make, say } from "./page.js";
import { listen, wordsOf } from "./pointer.js";
import { Stage } from "./stage.js";

const HINT =
  "Point at something, or move to it with Tab and the arrow keys, to read about it here.";
const PLAYS = " Press Space to play or pause.";
/** Traits whose changes redraw the view. */
const REDRAWN = ["change:controls", "change:notice", "change:ended"];
const ENDED = "The kernel of this view is no longer running; run the cell again.";

/** A picture with fewer pixels uses the layout for narrow pages if it has one, as in view.css. */
const WIDE = 720;

/** The details of a view with at least this width, including its padding, are beside the picture, as
 * in view.css. */
const WITH_SIDE = 1200;

/** The minimum interval between two reports to Python. */
const REPORT_MS = 100;

/** @typedef {ReturnType<typeof join>} Clock */
/**
 * @typedef {import("./film.js").Tables & import("./bar.js").Run & { kind?: string, run: string,
 *   number: number, end: number, opening: number, moment: number, legend: number, checkLegend?: number,
 *   title: string,
 *   texts: [string, string][], remarks?: [string, string][], outcome?: [string, string][],
 *   latest?: number, broke?: number, reports?: boolean, stays?: boolean }} Data
 */
/**
 * @typedef {{ get: (name: string) => any, send: (message: object) => void,
 *   on: (name: string, handle: (message: any) => void) => void,
 *   off: (name: string, handle: (message: any) => void) => void }} Model the widget in Python
 */

class View {
  stage = new Stage();
  legend = new Stage();
  /** @type {Clock} of the current run, shared by its views */
  clock;
  /** @type {Film} */
  film;
  /** @type {AbortController | undefined} releases everything that belongs to the current run */
  leave;
  /** @type {Data} */
  data;
  /** @type {string | undefined} of the run; undefined before the first film */
  name;
  shown = 0;
  hasSide = false; // whether the details are beside the picture
  /** @type {number | undefined} the timer for the next report */
  reporting;
  /** @type {number | undefined} the last event reported to Python */
  reported;
  reportedAt = 0;
  isDrawing = false;
  isWaiting = false; // waiting for the whole film, after a message was missed
  dead = ""; // why the view no longer has a kernel
  refused = ""; // why a message or a value was not sent to Python

  /** @param {Model} model @param {AbortSignal} signal */
  constructor(model, signal) {
    this.model = model;
    this.signal = signal;
    this.bar = new Bar(() => this.film, () => this.clock);
    this.controls = new Controls(
      (message) => this.send({ ...message, seq: this.seq }),
      (words) => this.refuse(words),
    );
    this.title = make("p", { class: "lk-title" });
    this.sentence = make("p", { class: "lk-sentence", "aria-live": "polite" });
    this.notice = make("p", { class: "lk-notice", role: "alert" });
    this.details = make("ul", {
      class: "lk-details",
      onclick: (/** @type {any} */ { target }) => target.dataset.act && this.act(target),
    });
    this.lit = make("style");
    this.remarks = make("div", { class: "lk-remarks" });
    this.picture = make("div", { class: "lk-picture" });
    this.past = make(
      "p",
      { class: "lk-past-note" },
      "You are looking at the past. ",
      make("button", { onclick: () => this.bar.go(this.clock.end) }, "Go to now"),
    );
    this.outcome = make("div", { class: "lk-outcome" });
    this.signs = make(
      "details",
      { class: "lk-legend" },
      make("summary", {}, "What the symbols mean"),
      this.bar.meanings,
    );
    this.texts = make("div", { class: "lk-texts" });
    this.below = make("div", { class: "lk-below" }, this.outcome, this.signs, this.texts);
    this.main = make(
      "div",
      { class: "lk-main" },
      this.title,
      this.controls.element,
      this.remarks,
      this.picture,
      this.past,
      this.bar.element,
    );
    this.side = make(
      "div",
      { class: "lk-side", tabindex: 0, role: "group", "aria-label": "Details" },
      this.sentence,
      this.notice,
      this.details,
    );
    signal.addEventListener("abort", () => clearTimeout(this.reporting));
    this.keepHeight();
    this.root = make(
      "div",
      { class: "lk-view lk-scene" },
      this.lit,
      make(
        "div",
        { class: "lk-split" },
        this.main,
        this.side,
        this.below,
      ),
    );
    this.open(model.get("film"));
    this.picture.append(this.stage.element);
    this.followWidth();
    listen(this.picture, () => this.clock, (mark) => this.act(mark));
  }

  /**
   * Let the details grow with their text but not shrink again, because a click would miss if
   * whatever is below moved away from the pointer.
   */
  keepHeight() {
    const { side } = this;
    let width = 0;
    const observer = new ResizeObserver(() => {
      if (side.offsetWidth !== width) side.style.minHeight = "";
      width = side.offsetWidth;
      side.style.minHeight = `${side.offsetHeight}px`;
    });
    observer.observe(side);
    this.signal.addEventListener("abort", () => observer.disconnect());
  }

  /** Rearrange the picture when the page becomes narrow or wide. */
  followWidth() {
    const { picture, root, stage } = this;
    const observer = new ResizeObserver(() => {
      const isNarrow = picture.clientWidth < WIDE, hasSide = root.clientWidth >= WITH_SIDE;
      if (isNarrow === stage.onNarrowPage && hasSide === this.hasSide) return;
      stage.onNarrowPage = isNarrow;
      this.hasSide = hasSide;
      this.draw(false);
    });
    observer.observe(picture);
    observer.observe(root);
    this.signal.addEventListener("abort", () => observer.disconnect());
  }

  /** Show a film and the data about its run, as sent by Python.  @param {Data} data */
  open(data) {
    this.data = { ...data, knots: [...data.knots], signs: data.signs, skips: data.skips };
    this.film = new Film(data);
    const { clock: before } = this;
    if (this.name !== data.run) this.enter(data.run, before);
    if (data.reports && before) this.clock.position = null; // Python decides what is shown
    this.reported = undefined;
    this.isWaiting = false;
    this.clock.reach(data.end, data.check);
    if (data.check != null && this.position > data.check) this.clock.checks = true;
    this.title.textContent = data.title;
    this.title.hidden = !data.title;
    write(this.remarks, data.remarks ?? []);
    write(this.outcome, data.outcome ?? []);
    this.past.hidden = data.latest === undefined;
    this.texts.replaceChildren(
      ...data.texts.map(([words, lines]) =>
        make(
          "details",
          { class: "lk-legend" },
          make("summary", {}, words),
          make("pre", { tabindex: 0, role: "group", "aria-label": words }, lines),
        )
      ),
    );
    this.draw(true);
    // Python tries one moment each time, so that it can handle clicks in between.
    if (data.curve?.searches) this.send({ do: "try", on: String(data.curve.points.length) });
  }

  /**
   * Attach the view to a run.  A fork continues from its fault.  A play, whose moves can be made only
   * at its latest moment, goes there at once if the user prefers reduced motion.
   * @param {string} name
   * @param {Clock | undefined} before
   */
  enter(name, before) {
    this.leave?.abort();
    const leave = this.leave = new AbortController();
    this.signal.addEventListener("abort", () => leave.abort());
    this.name = this.root.dataset.run = name;
    this.clock = join(name, (smooth) => this.draw(smooth), leave.signal);
    this.clock.reach(this.data.end, this.data.check);
    if (!before) {
      if (this.data.live && this.clock.position === null) {
        Object.assign(this.clock, { follows: true, position: this.data.opening });
      }
    } else if (this.clock.position === null) {
      Object.assign(this.clock, { speed: before.speed, touched: true });
      const { moment, latest, opening } = this.data, isCalm = this.calm.matches;
      this.clock.seek(isCalm && latest !== undefined ? opening : moment);
      if (!isCalm) this.clock.play();
    }
  }

  /**
   * Show a changed film.  A running cluster saves its film for views that open later; this view has
   * already received it.
   * @param {Data} data
   */
  reopen(data) {
    if (data.run !== this.name || data.number > this.data.number || !data.live) this.open(data);
  }

  /** @param {Data} message */
  receive(message) {
    if (message.kind === "whole") return this.open(message);
    if (message.number !== this.data.number + 1) {
      if (message.number < this.data.number || this.isWaiting) return;
      this.isWaiting = message.number > this.data.number;
      return this.isWaiting && this.send({ do: "resync" });
    }
    this.film.grow(message);
    this.data = {
      ...this.data,
      number: message.number,
      legend: message.legend,
      end: message.end,
      knots: [...this.data.knots, ...message.knots],
      signs: message.signs,
      skips: message.skips,
    };
    this.clock.reach(message.end);
    this.draw(true);
  }

  /** @param {object} message */
  send(message) {
    this.refused = "";
    try {
      this.model.send(message);
    } catch (error) {
      console.warn("labkit: not sent", message, error);
      this.outlive();
    }
  }

  /** The kernel has ended, so the buttons of the view no longer work. */
  outlive() {
    this.dead = ENDED;
    this.draw(false);
  }

  /** Show why something was not sent to Python.  @param {string} words */
  refuse(words) {
    this.refused = words;
    this.draw(false);
  }

  /** The last event on display. */
  get seq() {
    return this.film.beat(this.shown).seq;
  }

  get position() {
    return this.clock.position ?? this.data.opening;
  }

  /**
   * Draw the current moment.  If the focused button disappears, the picture gets the focus, so that
   * the next key press goes to the view and not to JupyterLab.
   * @param {boolean} smooth
   */
  draw(smooth) {
    // When the focused button is removed from the picture, the browser reports that it has lost the
    // focus before the picture is complete.
    if (!this.film || this.isDrawing) return;
    const hadFocus = this.root.matches(":focus-within");
    this.isDrawing = true;
    try {
      this.drawAll(smooth);
    } finally {
      this.isDrawing = false;
    }
    if (hadFocus && !this.root.matches(":focus-within")) {
      this.stage.element.focus({ preventScroll: true });
    }
  }

  /** @param {boolean} smooth */
  drawAll(smooth) {
    const { clock, film, position } = this, number = film.at(position);
    const { row, words } = film.beat(number);
    this.shown = number;
    this.stage.draw(film, row, position, smooth && !this.calm.matches);
    this.bar.draw(this.data, position, number);
    const { legend, checkLegend = legend } = this.data;
    this.drawLegend(clock.checks ? checkLegend : legend);
    this.controls.draw(this.dead ? [] : this.model.get("controls"));
    this.sentence.setAttribute("aria-live", clock.playing ? "off" : "polite");
    const isChecked = clock.checks && position >= clock.full;
    say(this.sentence, isChecked && this.data.verdict || words);
    const ended = this.dead || this.model.get("ended");
    this.root.classList.toggle("lk-ended", Boolean(ended));
    const { latest = 0, broke = 0 } = this.data, isBroken = position >= broke;
    this.root.classList.toggle("lk-past", !clock.playing && position < latest);
    this.outcome.classList.toggle("lk-future", !isBroken);
    say(this.notice, ended || this.refused || (isBroken ? this.model.get("notice") : ""));
    this.light(clock.kin);
    if (this.data.reports) this.report();
  }

  /** Report what is shown to Python: immediately, for the next cell to use, then at intervals. */
  report() {
    clearTimeout(this.reporting);
    if (this.clock.playing || this.clock.position === null || this.seq === this.reported) return;
    const wait = this.reportedAt + REPORT_MS - performance.now();
    this.reporting = setTimeout(() => {
      this.reported = this.seq;
      this.reportedAt = performance.now();
      this.model.get("film").opening = this.position; // as Python does, for views that open later
      this.send({ do: "shown", seq: this.seq });
    }, wait);
  }

  /** @param {string} kin */
  light(kin) {
    const run = `.lk-scene[data-run="${this.name}"]`, marks = `[data-kin~=${JSON.stringify(kin)}]`;
    const frame = "outline:1px solid var(--lk-ink);outline-offset:1px";
    const rule = kin
      ? `${run} :not(path)${marks}{${frame}}${run} path${marks}{stroke-width:3px}`
      : "";
    if (this.lit.textContent !== rule) this.lit.textContent = rule;
    const words = wordsOf(this.picture, kin);
    const hint = this.bar.element.hidden ? HINT : HINT + PLAYS;
    say(this.details, ...(words.length ? words : [make("li", { class: "lk-hint" }, hint)]));
  }

  calm = matchMedia("(prefers-reduced-motion: reduce)");

  /**
   * Draw the legend, followed by the meanings of the bar's signs. It is below the picture or, if
   * there is room, open beside it.
   * @param {number} row -1 without a legend
   */
  drawLegend(row) {
    const { legend, signs } = this;
    signs.hidden = row < 0 && !this.bar.meanings.childElementCount;
    if (row < 0) return;
    const isBeside = signs.parentElement === this.side;
    if (isBeside !== this.hasSide) {
      signs.open = this.hasSide;
      this.side.style.minHeight = "";
      if (this.hasSide) this.side.append(signs);
      else this.outcome.after(signs);
    }
    legend.onNarrowPage = this.hasSide || this.stage.onNarrowPage;
    legend.draw(this.film, row, 0);
    if (!legend.element.isConnected) this.bar.meanings.before(legend.element);
  }

  /** @param {HTMLElement} mark */
  act(mark) {
    const { act, on } = mark.dataset;
    if (mark.closest(".lk-past [data-latest]")) return;
    if (act === "seek" || act === "show") this.bar.go(Number(on));
    else this.send({ do: act, on, seq: this.seq });
  }

  /**
   * Start playing, unless the user or another view already has, or prefers reduced motion.  A film
   * of choices opens at the item that Python has chosen.
   */
  seen() {
    const { clock } = this;
    if (
      this.data.reports || this.data.stays || clock.touched || clock.playing || clock.follows ||
      this.calm.matches ||
      this.film.last === 0
    ) return;
    clock.position = 0;
    clock.play(this.data.opening);
  }

  /** Tell Python that the page displays the view, because Python follows a cluster only while a
   * page displays it. */
  attend() {
    if (!this.data.live) return;
    const { signal } = this, on = Math.random().toString(36);
    /** @param {string} what */
    const say = (what) => this.send({ do: what, on });
    say("display");
    signal.addEventListener("abort", () => say("end"));
    // Views are not told when their tab is closed or navigates to another page.
    globalThis.addEventListener("pagehide", () => say("end"), { signal });
    globalThis.addEventListener("pageshow", (event) => event.persisted && say("display"), {
      signal,
    });
  }

  /** @param {any} event */
  key(event) {
    if (event.target.closest("select, input, button, summary")) return;
    if (event.key === " ") this.bar.toggle();
    else if (event.key === "," || event.key === ".") this.bar.step(event.key === "." ? 1 : -1);
    else if (event.key === "Home" || event.key === "End") {
      this.bar.go(event.key === "Home" ? 0 : this.clock.end);
    } else return;
    event.preventDefault();
  }
}

/** @param {HTMLElement} place @param {[string, string][]} lines text and colours */
function write(place, lines) {
  place.hidden = !lines.length;
  place.replaceChildren(
    ...lines.map(([words, colour]) => make("p", { style: `color:var(--lk-${colour})` }, words)),
  );
}

/** @param {{ model: Model, el: HTMLElement, signal: AbortSignal }} given */
function render({ model, el, signal }) {
  const view = new View(model, signal);
  /** @type {(name: string, handle: (message: any) => void) => void} */
  const on = (name, handle) => {
    model.on(name, handle);
    signal.addEventListener("abort", () => model.off(name, handle));
  };
  on("msg:custom", (message) => view.receive(message));
  on("comm_live_update", () => view.outlive());
  on("change:film", () => view.reopen(model.get("film")));
  for (const name of REDRAWN) on(name, () => view.draw(true));
  // Keys for the view must not reach JupyterLab, where `b` inserts a cell, but Ctrl+S must.
  view.root.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    event.stopPropagation();
    view.key(event);
  });
  el.append(view.root);
  view.attend();
  const seen = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    seen.disconnect();
    view.seen();
  }, { threshold: 0.6 });
  seen.observe(view.picture);
  signal.addEventListener("abort", () => seen.disconnect());
}

export default { render };
