// One run of the timeline at one moment: its clients, its bookies with their entries, its cut links.

const EPILOGUE = "epilogue";
const NODE_GLYPHS = { up: "●", down: "✕", paused: "‖", unknown: "○" };
const idOf = (entry) => (entry < 0 ? "none" : entry);

/** What a client knows and does, in words. */
function doingOf(node) {
  const parts = [];
  if (node.state === "down" || node.state === "paused") parts.push(node.state);
  if (node.doing) parts.push(node.doing);
  if (node.last_add_pushed >= 0) parts.push(`LAP ${node.last_add_pushed}`);
  if (node.last_add_confirmed >= 0) parts.push(`LAC ${node.last_add_confirmed}`);
  return [...parts, ...node.troubles].join(" · ");
}

/** A ledger's numbers and state, in words. */
function ledgerWords(ledger, state) {
  if (!ledger) return "no ledger yet";
  const { ensemble_size, write_quorum, ack_quorum, last_add_pushed, last_add_confirmed } = ledger;
  return `E ${idOf(ensemble_size)} · Qw ${idOf(write_quorum)} · Qa ${idOf(ack_quorum)}`
    + ` · LAP ${idOf(last_add_pushed)} · LAC ${idOf(last_add_confirmed)} · ${state ?? "state not told"}`;
}

/** The picture of one run. */
class Scene {
  constructor(run, words, goTo, signal) {
    this.run = run;
    this.columns = run.columns;
    this.count = run.columns.seq.length;
    this.grid = new Grid(words, null, () => {}, signal);
    this.ledgerLine = make("p", { class: "lk-tl-ledger" });
    this.clients = make("div", { class: "lk-tl-clients" });
    this.cuts = make("p", { class: "lk-tl-cuts" });
    this.element = make("section", { class: "lk-tl-run", "aria-label": run.title },
      make("h3", { title: run.title }, run.title), this.promises(goTo, signal), this.ledgerLine,
      this.clients, this.grid.element, this.cuts);
    this.restart();
  }

  restart() {
    this.moment = beginning(this.run.bookies);
    this.around = nothingAround();
  }

  /** How the promises fared, with a button to each event where one broke. */
  promises(goTo, signal) {
    const { broken, words } = this.run;
    if (!broken.length) return make("p", { class: "lk-tl-kept" }, words);
    return make("ul", { class: "lk-tl-broken" }, ...broken.map(([name, promise, reason, seq]) => {
      const go = make("button", { title: promise, "aria-label": `Go to where ${name} broke` }, `✘ ${name}`);
      go.addEventListener("click", () => goTo(seq), { signal });
      return make("li", {}, go, make("span", { title: reason }, ` ${reason}`));
    }));
  }

  /** The ledgers that exist at the moment. */
  advanceTo(index) {
    if (this.moment.count > index) this.restart();
    advance(this.moment, this.columns, index);
    surround(this.around, this.columns, index);
  }

  draw(ledgerId, motion) {
    const { moment, around, grid } = this;
    say(this.ledgerLine, ledgerWords(moment.ledgers.get(ledgerId), around.ledgers[ledgerId]));
    grid.draw(moment, ledgerId, {}, motion);
    for (const [name, column] of grid.columns) this.drawHead(name, column, ledgerId);
    this.drawClients();
    say(this.cuts, around.cuts.length ? `✂ cut: ${around.cuts.map((cut) => cut.replace(">", " → ")).join(", ")}` : "");
  }

  /** Beside a bookie's name: whether it has fenced, and what is wrong with its machine. */
  drawHead(name, column, ledgerId) {
    const node = this.around.nodes[name];
    if (!column.extra) {
      column.extra = make("div", { class: "lk-tl-extra" });
      column.head.append(column.extra);
    }
    const parts = [];
    if (node?.fenced.includes(ledgerId)) parts.push("⊘ fenced");
    if (node?.is_auditor) parts.push("◎ auditor");
    if (node?.doing) parts.push(node.doing);
    parts.push(...(node?.troubles ?? []).map((trouble) => `! ${trouble}`));
    const text = parts.join(", ");
    if (column.extra.textContent !== text) column.extra.textContent = column.extra.title = text;
  }

  drawClients() {
    const bookies = this.moment.bookies;
    const shown = Object.entries(this.around.nodes).filter(([name, node]) =>
      !bookies.has(name) && (name !== EPILOGUE || node.doing));
    const key = JSON.stringify(shown);
    if (key === this.clientsKey) return;
    this.clientsKey = key;
    this.clients.replaceChildren(...shown.map(([name, node]) => make("span",
      { class: "lk-tl-client", "data-state": node.state, title: `${name}: ${doingOf(node)}` },
      make("i", { "aria-hidden": "true" }, NODE_GLYPHS[node.state]), make("b", {}, name), ` ${doingOf(node)}`)));
  }
}
