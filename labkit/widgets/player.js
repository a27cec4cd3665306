// What every view of a run shares: the journal of events that the front end has, and the bar that
// plays, steps and scrubs.  One ES module with the view that uses it.

const CLUSTER_MARKS = { "node.killed": "◆", "node.paused": "‖", "node.started": "▲", "node.resumed": "▲",
  "ensemble.set": "●", "ledger.closed": "■" };
const MOST_MARKS = 60;
const MARK_WIDTH = 0.018; // of the scrubber
const REPLAY_S = 40; // how long a replay of a long log takes at normal speed
const SLOWEST_PER_S = 6;

/** The events that the front end has, and whether it missed a message. */
class Journal {
  constructor(whole) { this.take(whole); }

  get count() { return this.columns.seq?.length ?? 0; }

  /** Take a message; false when an earlier one is missing. */
  take(message) {
    if (message.kind === "whole") {
      this.columns = structuredClone(message.columns);
      this.leftOut = message.left_out;
    } else if (message.number === this.number + 1) {
      for (const name in message.columns)
        for (const value of message.columns[name]) this.columns[name].push(value);
    } else return message.number <= this.number;
    this.number = message.number;
    return true;
  }
}

/** Play, step, scrub: owns which moment is shown.  `change(steps)` is called after each move. */
class Player {
  constructor(journal, change, signal) {
    Object.assign(this, { journal, change, signal });
    this.index = journal.count;
    this.playing = false;
    this.speed = 1;
  }

  get atEnd() { return this.index >= this.journal.count; }

  seek(index) {
    const before = this.index;
    this.index = Math.max(0, Math.min(this.journal.count, Math.round(index)));
    this.change(this.index - before);
  }

  step(count) { this.playing = false; this.seek(this.index + count); }

  toggle() {
    this.playing = !this.playing;
    if (this.playing && this.atEnd) this.seek(0);
    this.change(0);
    let last = performance.now(), due = 0;
    const frame = (now) => {
      if (!this.playing || this.signal.aborted) return;
      due += (now - last) / 1000 * this.speed
        * Math.max(SLOWEST_PER_S, this.journal.count / REPLAY_S);
      last = now;
      const whole = Math.floor(due);
      due -= whole;
      if (whole) this.seek(this.index + whole);
      if (this.atEnd) { this.playing = false; this.change(0); }
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }
}

/** The bar with the buttons, the scrubber and its event marks. */
class Bar {
  /** `glyphs`: the kinds of events that are marked on the scrubber, and how. */
  constructor(player, words, live, signal, glyphs = CLUSTER_MARKS) {
    Object.assign(this, { player, words, live, glyphs });
    const on = { signal };
    this.play = make("button", { class: "lk-play" });
    const back = make("button", { tabindex: -1, "aria-label": "One event back" }, "◀|");
    const next = make("button", { tabindex: -1, "aria-label": "One event on" }, "|▶");
    this.range = make("input", { type: "range", min: 0, "aria-label": "Moment of the run" });
    this.marks = make("div", { class: "lk-marks" });
    this.clock = make("span", { class: "lk-clock" });
    this.speed = make("select", { "aria-label": "Speed of the replay" },
      ...[["0.25", "¼×"], ["1", "1×"], ["4", "4×"], ["16", "16×"]].map(
        ([value, text]) => make("option", { value }, text)));
    this.speed.value = "1";
    this.end = make("button", { class: "lk-live", "aria-pressed": "true" }, "Live");
    this.play.addEventListener("click", () => player.toggle(), on);
    back.addEventListener("click", () => player.step(-1), on);
    next.addEventListener("click", () => player.step(1), on);
    this.range.addEventListener("input", () => {
      player.playing = false;
      player.seek(Number(this.range.value));
    }, on);
    this.speed.addEventListener("change", () => { player.speed = Number(this.speed.value); }, on);
    this.end.addEventListener("click", () => {
      player.playing = false;
      player.seek(player.journal.count);
    }, on);
    this.element = make("div", { class: "lk-player" }, this.play, back, next,
      make("div", { class: "lk-track" }, this.marks, this.range), this.clock, this.speed);
    if (live) this.element.append(this.end);
  }

  draw() {
    const { player, range } = this;
    const { columns, count } = player.journal;
    range.max = count;
    range.value = player.index;
    this.play.textContent = player.playing ? "❚❚" : "▶";
    this.play.setAttribute("aria-label", player.playing ? "Pause the replay" : "Play");
    this.end.setAttribute("aria-pressed", String(player.atEnd));
    const at = player.index ? columns.time_us[player.index - 1] - columns.time_us[0] : 0;
    this.clock.textContent = `${(at / 1e6).toFixed(3)} s`;
    range.setAttribute("aria-valuetext", `event ${player.index} of ${count}, ${this.clock.textContent}`);
    if (this.marked !== columns || this.markedCount !== count) this.drawMarks();
  }

  drawMarks() {
    const { player } = this, { columns, count } = player.journal;
    this.marked = columns;
    this.markedCount = count;
    const marked = [], stopped = new Set();
    for (let row = 0; row < count; row++) {
      const kind = columns.kind[row], node = columns.node[row];
      if (!(kind in this.glyphs)) continue;
      if (kind === "node.started" && !stopped.delete(node)) continue;
      if (kind === "ensemble.set" && columns.entry[row] <= 0) continue;
      if (kind === "node.killed") stopped.add(node);
      marked.push(row);
    }
    let free = 0; // marks that would cover each other stand side by side
    this.marks.replaceChildren(...marked.slice(-MOST_MARKS).map((row) => {
      const at = Math.min(1, Math.max((row + 1) / count, free));
      free = at + MARK_WIDTH;
      const event = eventAt(columns, row);
      const words = fill(this.words.sentences[event.kind], event);
      const mark = make("button", { tabindex: -1, title: words, "aria-label": `Go to: ${words}`,
        "data-kind": event.kind, style: `--at:${at}` }, this.glyphs[event.kind]);
      mark.addEventListener("click", () => { player.playing = false; player.seek(row + 1); });
      return mark;
    }));
  }
}
