// The timeline in the browser: two folds make the picture of a moment, and it keeps no other model.
// timeline.py joins this file with those that it needs to one ES module.

const TIMELINE_MARKS = { ...FAULT_GLYPHS, "node.started": "▲", "ensemble.set": "●", "ledger.closed": "■",
  "recovery.started": "⊘", "epilogue.started": "⚑" };

const TIMELINE_SIGNS = [["LAP", "last entry that was pushed"], ["LAC", "last entry that is confirmed"],
  ["◆", "killed"], ["‖", "paused"], ["▲", "up again"], ["●", "ensemble changed"], ["⊘", "recovery began"],
  ["■", "ledger closed"], ["✂", "link cut"], ["✕", "message lost"],
  ["!", "trouble with a disk, clock or session"], ["⚑", "epilogue: all is mended and looked up"], ["≠", "the runs part"],
  ["✘", "a promise broke"]];

/** The bar of the cluster view, and on it where the runs part and where a promise broke. */
class TimelineBar extends Bar {
  constructor(player, words, events, signal) {
    super(player, words, false, signal, TIMELINE_MARKS);
    this.events = events;
    const rewind = make("button", { tabindex: -1, "aria-label": "Back to the first event" }, "|◀◀");
    rewind.addEventListener("click", () => player.step(-player.index), { signal });
    this.element.prepend(rewind);
  }

  drawMarks() {
    super.drawMarks();
    if (!this.events) return;
    const { events, player } = this;
    const add = (n, glyph, name, words) => {
      const mark = make("button", { tabindex: -1, title: words, "aria-label": `Go to: ${words}`, "data-own": name,
        style: `--at:${(n + 1) / events.count}` }, glyph);
      mark.addEventListener("click", () => { player.playing = false; player.seek(n + 1); });
      this.marks.append(mark);
    };
    if (events.parting >= 0) add(events.parting, "≠", "parting", "the first difference of the two runs");
    events.runs.forEach((run, which) => run.broken.slice(0, 1).forEach(([name, , , seq]) => {
      const n = events.stepOf(which, seq);
      if (n >= 0) add(n, "✘", "broken", `${name} broke`);
    }));
  }
}

/** Everything that shows these runs; made anew when a fork brings another. */
class Timeline {
  constructor(runs, at, words, palette, ask, signal) {
    this.words = words;
    this.calm = matchMedia("(prefers-reduced-motion: reduce)");
    this.events = new Events(runs);
    const sentence = (event) => fill(words.sentences[event.kind], event);
    const journal = { columns: this.events.asColumns(), count: this.events.count };
    this.player = new Player(journal, (steps) => this.draw(steps), signal);
    this.player.index = at;
    this.bar = new TimelineBar(this.player, words, this.events, signal);
    const go = (index) => { this.player.playing = false; this.player.seek(index); };
    this.scenes = runs.map((run, which) =>
      new Scene(run, words, (seq) => go(this.events.stepOf(which, seq) + 1), signal));
    this.list = new EventList(this.events, sentence, go, signal);
    this.ledger = make("select", { "aria-label": "Ledger" });
    this.ledger.addEventListener("change", () => this.draw(0), { signal });
    this.sentence = make("p", { class: "lk-sentence", "aria-live": "polite" });
    this.broke = make("p", { class: "lk-tl-broke", "aria-live": "polite" });
    this.lineage = make("ol", { class: "lk-tl-lineage" });
    this.lineage.addEventListener("click", (event) => {
      const step = event.target.closest("[data-step]");
      if (step) go(Number(step.dataset.step) + 1);
    }, { signal });
    this.say = sentence;
    const side = make("div", { class: "lk-tl-side" }, make("h4", {}, "How it came to this event"), this.lineage);
    if (palette.faults) {
      const fork = (fault) => ask({ do: "fork", ...this.chosen(), fault });
      this.palette = new FaultPalette(palette, fork, () => ask({ do: "keep" }), signal);
      side.append(this.palette.element);
    }
    this.element = make("div", {}, make("div", { class: "lk-title" }, make("b", {}, "Timeline"), this.ledger, legend(words)),
      make("div", { class: "lk-tl-runs", "data-count": runs.length }, ...this.scenes.map(({ element }) => element)),
      this.bar.element, this.sentence, this.broke, make("div", { class: "lk-tl-below", "data-count": runs.length }, this.list.element, side), this.code(runs));
  }

  /** The event at the moment, as Python names it: the run, and its seq there. */
  chosen() {
    const [run, row] = this.events.placeOf(this.player.index - 1);
    return { run, seq: this.events.columns[run].seq[row] };
  }

  code(runs) {
    const told = runs.filter(({ code }) => code);
    const details = make("details", { class: "lk-tl-code" }, make("summary", {}, "What makes it happen again"),
      ...told.map(({ title, code }) => make("div", {}, make("b", {}, title), make("pre", {}, code))));
    details.hidden = !told.length;
    return details;
  }

  draw(steps) {
    const { player, events, scenes } = this, n = player.index - 1;
    const { ofFirst, ofOther } = events.steps;
    scenes.forEach((scene, which) => scene.advanceTo(n < 0 ? 0 : (which ? ofOther : ofFirst)[n]));
    const event = n < 0 ? null : events.at(n);
    const ledgerId = this.shownLedger();
    const motion = { fly: steps > 0 && steps < 100 && !this.calm.matches,
      row: event?.ledger === ledgerId ? event.entry : -1 };
    for (const scene of scenes) {
      scene.grid.sticky = true;
      scene.draw(ledgerId, motion);
    }
    this.bar.draw();
    this.sentence.setAttribute("aria-live", player.playing ? "off" : "polite");
    say(this.sentence, event ? `${this.whose(n)}${this.say(event)}` : "Nothing has happened yet.");
    const broken = n < 0 ? null : events.breakAt(n);
    say(this.broke, broken ? `✘ ${broken[0]} broke here. ${broken[1]} ${broken[2]}` : "");
    this.list.draw(player.index, true);
    this.drawLineage(n);
    this.drawPalette(event);
  }

  whose(n) {
    const which = this.events.steps.which[n];
    return which === BOTH ? "" : which === FIRST ? "Only in the first run: " : "Only in the other: ";
  }

  drawLineage(n) {
    this.lineage.replaceChildren(...(n < 0 ? [] : this.events.lineage(n)).map((step) => make("li", {},
      make("button", { "data-step": step, ...(step === n && { "aria-current": "true" }) },
        make("time", {}, (this.events.get(step, "time_us") / 1000).toFixed(2)), this.say(this.events.at(step))))));
    this.lineage.scrollTop = this.lineage.scrollHeight;
  }

  drawPalette(event) {
    if (!this.palette) return;
    if (!event) return this.palette.draw(null, "", false, this.scenes.length > 1);
    const { run, seq } = this.chosen(), { messages, first, last } = this.events.runs[run];
    this.palette.draw(event, messages[seq] ?? "", first <= seq && seq <= last, this.scenes.length > 1);
  }

  /** The ledger that is drawn: the chosen one, else the newest of the moment. */
  shownLedger() {
    const known = [...new Set(this.scenes.flatMap(({ moment }) => [...moment.ledgers.keys()]))].sort((a, b) => b - a);
    if (known.join() !== this.known) {
      const chosen = this.ledger.value;
      this.known = known.join();
      this.ledger.replaceChildren(make("option", { value: "" }, known.length ? `Ledger ${known[0]}` : "No ledger yet"),
        ...known.slice(1).map((id) => make("option", { value: id }, `Ledger ${id}`)));
      this.ledger.value = known.slice(1).includes(Number(chosen)) ? chosen : "";
    }
    this.ledger.disabled = known.length < 2;
    return this.ledger.value === "" ? known[0] ?? -1 : Number(this.ledger.value);
  }

  key(event) {
    const { player } = this;
    if (event.target.closest(".lk-grid, .lk-tl-list, select, input")) {
      if (!["Home", "End"].includes(event.key) || event.target.closest(".lk-grid, select, input")) return;
    }
    const to = { ArrowLeft: player.index - 1, ArrowRight: player.index + 1, Home: 0, End: player.journal.count }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      player.playing = false;
      player.seek(to);
    } else if (event.key === " " && !event.target.matches("button, summary")) {
      event.preventDefault();
      player.toggle();
    }
  }
}

function legend(words) {
  return make("details", { class: "lk-tl-legend" }, make("summary", {}, "Signs"),
    make("div", { class: "lk-legend" }, ...words.legend.map(([look, text]) => make("span", {},
      make("i", { class: "lk-key", "data-look": look, "aria-hidden": "true" }), text))),
    make("div", { class: "lk-legend" }, ...TIMELINE_SIGNS.map(([sign, text]) => make("span", {},
      make("b", {}, sign), text))));
}

function render({ model, el, signal }) {
  const root = make("div", { class: "lk-view lk-timeline", tabindex: 0, role: "group",
    "aria-label": "Timeline: arrow keys step, space plays, home and end go to the ends" });
  let timeline, inside;

  function show() {
    inside?.abort();
    inside = new AbortController();
    timeline = new Timeline(model.get("runs"), model.get("at"), model.get("words"), model.get("palette"),
      (command) => model.send(command), inside.signal);
    const hadFocus = root.contains(document.activeElement);
    root.replaceChildren(timeline.element);
    if (hadFocus) root.focus({ preventScroll: true });
    timeline.draw(0);
  }

  const told = ({ notice }) => {
    timeline.palette?.answered(notice);
    timeline.draw(0);
    if (notice) timeline.palette?.say(notice);
  };
  model.on("msg:custom", told);
  model.on("change:runs", show);
  keepKeys(root, signal, (event) => timeline.key(event));
  el.append(root);
  show();
  // How much is in sight is known only once the page has laid the view out, and may change.
  const resized = new ResizeObserver(() => timeline.draw(0));
  resized.observe(el);
  signal.addEventListener("abort", () => {
    timeline.player.playing = false;
    inside.abort();
    resized.disconnect();
    model.off("msg:custom", told);
    model.off("change:runs", show);
  });
}

export default { render };
