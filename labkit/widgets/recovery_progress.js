// The recovery progress in the browser: the chart, the player, and the ledgers at one moment as
// recovery_progress_fold.js makes them of the steps.

const RECOVERY_MARKS = { "node.killed": "◆", "auditor.elected": "★", "bookie.lost": "✕",
  "replication.done": "✓" };
const RECOVERY_SIGNS = [["★", "elected"], ["◆", "killed"], ["✕", "lost"], ["✓", "repaired"]];

function stageWords({ stage, missed, holder, why }) {
  return { whole: "not marked", marked: missed ? `marked, ${missed} missed` : "marked",
    locked: `${holder} repairs it`, waiting: `put off by ${holder}: ${why}` }[stage];
}

function rangeWords({ first, last }) {
  return last < first ? `from ${first}` : last === first ? `entry ${first}` : `${first} to ${last}`;
}

function placeElement({ bookie, state, held, due }, words) {
  const title = `${bookie}: ${held} of ${due} copies, ${words.bookies[state]}`;
  return make("span", { class: "lk-rp-place", "data-state": state === "up" ? "up" : "away", title,
    style: `--part:${due ? held / due : 0}` },
  make("span", {}, state === "up" ? bookie : `${bookie} ✕`), make("span", {}, `${held}/${due}`));
}

function fragmentElement(fragment, quorum, words) {
  const targets = fragment.targets.flatMap(([bookie, count]) => [make("span", { class: "lk-rp-arrow",
    "aria-hidden": "true" }, "→"), make("span", { class: "lk-rp-place", "data-state": "target",
    title: `${count} entries copied to ${bookie}, which the metadata does not name yet` },
  make("span", {}, bookie), make("span", {}, String(count)))]);
  const least = make("span", { class: "lk-rp-least" }, `${fragment.least} of ${quorum} copies`);
  least.toggleAttribute("data-short", fragment.least < quorum);
  return make("div", { class: "lk-rp-fragment" },
    make("span", { class: "lk-rp-range" }, rangeWords(fragment)),
    ...fragment.places.map((place) => placeElement(place, words)), ...targets, least);
}

function ledgerElement(id, ledger, words) {
  const closed = ledger.closed ? "closed" : "open";
  return make("div", { class: "lk-rp-ledger", role: "group", "aria-label": `ledger ${id}` },
    make("div", {}, make("b", {}, `ledger ${id}`), make("i", {}, ` ${closed}`),
      make("div", { class: "lk-rp-stage", "data-stage": ledger.stage }, stageWords(ledger))),
    make("div", {}, ...ledger.fragments.map((each) => fragmentElement(each, ledger.write_quorum, words))));
}

function recoveryLegend(words) {
  return make("div", { class: "lk-legend" }, ...words.legend.map(([look, text]) =>
    make("span", {}, make("i", { class: "lk-rp-key", "data-look": look, "aria-hidden": "true" }), text)),
  ...RECOVERY_SIGNS.map(([sign, text]) =>
    make("span", {}, make("i", { class: "lk-rp-sign", "aria-hidden": "true" }, sign), text)));
}

function nowWords(moment) {
  const who = moment.auditor || "nobody";
  const dead = moment.isAuditorDead ? " (dead, its session is not)" : "";
  const count = (stage) => ledgerIds(moment)
    .filter((id) => stageOf(moment.ledgers.get(id)) === stage).length;
  const [marked, locked, waiting] = ["marked", "locked", "waiting"].map(count);
  return [`Auditor: ${who}${dead}`, `marked: ${marked + locked + waiting}`, `being repaired: ${locked}`,
    `put off: ${waiting}`];
}

function render({ model, el, signal }) {
  const words = model.get("words"), bookies = model.get("bookies");
  const journal = new Journal(model.get("journal"));
  let moment = beginningOfRecovery(bookies);

  const badges = make("span", { class: "lk-badges" });
  const sentence = make("p", { class: "lk-sentence", "aria-live": "polite" });
  const ledgers = make("div", { class: "lk-rp-ledgers" });
  const player = new Player(journal, () => draw(), signal);
  player.index = Math.min(model.get("start"), journal.count);
  const chart = new Chart(model.get("chart"), (step) => { player.playing = false; player.seek(step); },
    signal);
  const bar = new Bar(player, words, false, signal, RECOVERY_MARKS);
  const root = make("div", { class: "lk-view lk-recovery" },
    make("div", { class: "lk-title" }, make("b", {}, "Recovery progress"), badges),
    recoveryLegend(words), chart.element, bar.element, sentence, ledgers);

  function draw() {
    if (moment.count > player.index) moment = beginningOfRecovery(bookies);
    advanceRecovery(moment, journal.columns, player.index);
    chart.show(player.index);
    badges.replaceChildren(...nowWords(moment).map((text) => make("span", {}, text)));
    ledgers.replaceChildren(...ledgerIds(moment).map((id) =>
      ledgerElement(id, repairOf(moment, id), words)));
    bar.draw();
    sentence.setAttribute("aria-live", player.playing ? "off" : "polite");
    const last = player.index ? eventAt(journal.columns, player.index - 1) : null;
    say(sentence, last ? fill(words.sentences[last.kind], last) : "Nothing has happened yet.");
  }

  keepKeys(root, signal, (event) => {
    const { key, target } = event, steps = { ArrowLeft: -1, ArrowRight: 1 }[key];
    if (key === " " && !target.matches("button, select")) player.toggle();
    else if (steps && !target.matches("input, select")) player.step(steps);
    else return;
    event.preventDefault();
  });
  signal.addEventListener("abort", () => { player.playing = false; });
  el.append(root);
  draw();
}

export default { render };
