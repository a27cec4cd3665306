// The cluster view in the browser: draws the state that cluster_fold.js makes of the events, and
// keeps no other model.  cluster_view.py joins this file with those that it needs to one ES module.

/** The line over the picture: which ledger, its quorums, how far it is. */
class Title {
  constructor(changed, signal) {
    this.select = make("select", { "aria-label": "Ledger" });
    this.select.addEventListener("change", changed, { signal });
    this.badges = make("span", { class: "lk-badges" });
    this.element = make("div", { class: "lk-title" }, this.select, this.badges);
  }

  /** The ledger to draw: the fixed one, the one chosen, else the newest. */
  ledger(moment, fixed) {
    const newest = Math.max(-1, ...moment.ledgers.keys());
    const known = fixed >= 0 ? [fixed] : [...moment.ledgers.keys()].sort((a, b) => b - a);
    if (known.join() !== this.known) {
      const chosen = this.select.value;
      this.known = known.join();
      this.select.replaceChildren(
        make("option", { value: "" }, newest < 0 && fixed < 0 ? "No ledger yet"
          : `Ledger ${known[0]}${known.length > 1 ? " (newest)" : ""}`),
        ...known.slice(1).map((id) => make("option", { value: id }, `Ledger ${id}`)));
      // Who looks at the newest follows it; who chose another stays there.
      this.select.value = known.slice(1).includes(Number(chosen)) ? chosen : "";
    }
    this.select.disabled = known.length < 2;
    return this.select.value === "" ? known[0] ?? -1 : Number(this.select.value);
  }

  draw(ledger, leftOut) {
    this.badges.hidden = ledger === undefined;
    if (this.badges.hidden) return;
    const number = (value) => (value < 0 ? "?" : value);
    const id = (value) => (value < 0 ? "none" : value);
    const { ensemble_size, write_quorum, ack_quorum, last_add_pushed, last_add_confirmed, closed }
      = ledger;
    const badges = [
      [`E ${number(ensemble_size)}`, "ensemble size: bookies that the ledger is spread over"],
      [`Qw ${number(write_quorum)}`, "write quorum: bookies that each entry is sent to"],
      [`Qa ${number(ack_quorum)}`, "ack quorum: acknowledgements after which an entry is confirmed"],
      [`LAP ${id(last_add_pushed)}`, "LastAddPushed: the last entry that the writer has sent"],
      [`LAC ${id(last_add_confirmed)}`,
        "LastAddConfirmed: up to here Qa bookies have every entry, and readers may read"],
      [closed ? "closed" : "open", closed ? "its last entry is fixed" : "its writer may add"],
    ];
    if (leftOut) badges.push([`${leftOut.toLocaleString("en")} events left out`,
      "the oldest events of single entries are not kept in the view"]);
    this.badges.replaceChildren(...badges.map(([text, title]) => make("span", { title }, text)));
  }
}

/** Where the lit entry lies, in words; one line per bookie. */
function wordsOf(grid) {
  const entry = grid.lit;
  if (entry === undefined)
    return [make("span", { class: "lk-hint" }, "Point at an entry, or go there with Tab and the arrow keys, to see where it lies.")];
  const confirmed = entry <= grid.ledger.last_add_confirmed ? "confirmed" : "not confirmed";
  const lines = [...grid.columns.keys()].flatMap((name) => {
    const copy = grid.moment.bookies.get(name).get(grid.ledgerId)?.get(entry);
    return copy ? [make("li", {}, make("b", {}, name), ` ${grid.where(name, copy)}`)] : [];
  });
  return [make("b", {}, `Entry ${entry} of ledger ${grid.ledgerId}, ${confirmed}`),
    make("ul", {}, ...lines)];
}

function legend(words) {
  return make("div", { class: "lk-legend" }, ...words.legend.map(([look, text]) =>
    make("span", {}, make("i", { class: "lk-key", "data-look": look, "aria-hidden": "true" }), text)));
}

function render({ model, el, signal }) {
  const words = model.get("words"), live = model.get("live");
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  const journal = new Journal(model.get("journal"));
  const ask = (command, bookie = "") => model.send({ do: command, bookie });
  let moment = beginning(model.get("bookies")), folded = null;

  const sentence = make("p", { class: "lk-sentence", "aria-live": "polite" });
  const where = make("div", { class: "lk-where", "aria-live": "polite" });
  const notice = make("p", { class: "lk-notice", role: "alert" });
  const title = new Title(() => draw(0), signal);
  const grid = new Grid(words, live ? ask : null, () => say(where, ...wordsOf(grid)), signal);
  const player = new Player(journal, (steps) => draw(steps), signal);
  const bar = new Bar(player, words, live, signal);
  const root = make("div", { class: "lk-view lk-cluster" }, title.element, legend(words), grid.element,
    bar.element, sentence, notice, where);

  function draw(steps) {
    if (folded !== journal.columns || moment.count > player.index) {
      moment = beginning(model.get("bookies"));
      folded = journal.columns;
    }
    advance(moment, journal.columns, player.index);
    const ledgerId = title.ledger(moment, model.get("ledger"));
    title.draw(moment.ledgers.get(ledgerId), journal.leftOut);
    const last = player.index ? eventAt(journal.columns, player.index - 1) : null;
    if (steps > 0 && player.atEnd && live || player.playing) grid.sticky = true;
    grid.draw(moment, ledgerId, model.get("busy"), {
      fly: steps > 0 && steps < 100 && !calm.matches,
      row: last?.ledger === ledgerId ? last.entry : -1,
    });
    bar.draw();
    sentence.setAttribute("aria-live", player.playing ? "off" : "polite");
    say(sentence, last ? fill(words.sentences[last.kind], last) : "Nothing has happened yet.");
    say(notice, model.get("notice"));
    say(where, ...wordsOf(grid));
  }

  function receive(message) {
    const follow = player.atEnd && !player.playing;
    if (!journal.take(message)) return ask("resync");
    if (follow || player.index > journal.count) player.seek(journal.count);
    else bar.draw();
  }

  model.on("msg:custom", receive);
  const journalChanged = () => {
    const whole = model.get("journal");
    if (whole.number > journal.number) receive(whole);
  };
  const redraw = () => draw(0);
  model.on("change:journal", journalChanged);
  for (const change of ["change:busy", "change:notice"]) model.on(change, redraw);
  signal.addEventListener("abort", () => {
    player.playing = false;
    model.off("msg:custom", receive);
    model.off("change:journal", journalChanged);
    for (const change of ["change:busy", "change:notice"]) model.off(change, redraw);
  });

  keepKeys(root, signal, (event) => {
    if (event.key === " " && !event.target.matches("button, select")) {
      event.preventDefault();
      player.toggle();
    }
  });
  el.append(root);
  draw(0);
  // How many rows are in sight is known only once the page has laid the view out, and may change.
  const resized = new ResizeObserver(redraw);
  resized.observe(grid.element);
  signal.addEventListener("abort", () => resized.disconnect());
}

export default { render };
