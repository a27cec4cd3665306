// What a run looks like around its entries at one moment: the rules of timeline_fold.py, kind by
// kind; a test compares the two as JSON.  And two runs side by side: timeline_steps.py's rules.

const QUIET_NODE = {
  state: "unknown", doing: "", ledger: -1, last_add_pushed: -1, last_add_confirmed: -1,
  fenced: [], troubles: [], is_auditor: false,
};

/** An accumulator that `surround` moves on. */
export function nothingAround() {
  return { count: 0, nodes: {}, cuts: [], ledgers: {}, durableFences: new Set() };
}

/** Take the events of the columns up to, and without, row `index`. */
export function surround(moment, columns, index) {
  for (; moment.count < index; moment.count++) {
    const event = eventAt(columns, moment.count);
    moment.nodes[event.node] ??= QUIET_NODE;
    AROUND[event.kind]?.(moment, event);
  }
  return moment;
}

/** The same fields as Python's Surroundings. */
export function surroundingsAt(columns, index) {
  const { nodes, cuts, ledgers } = surround(nothingAround(), columns, index);
  return { nodes, cuts, ledgers };
}

function set(moment, name, changes) {
  moment.nodes[name] = { ...QUIET_NODE, ...moment.nodes[name], ...changes };
}

const troublesOf = (moment, name) => moment.nodes[name]?.troubles ?? [];

function trouble(moment, name, what) {
  set(moment, name, { troubles: [...troublesOf(moment, name).filter((each) => each !== what), what] });
}

function noTrouble(moment, name, ...beginnings) {
  set(moment, name, { troubles: troublesOf(moment, name).filter(
    (each) => !beginnings.some((beginning) => each.startsWith(beginning))) });
}

const up = (moment, event) => set(moment, event.node, { state: "up" });

const advanced = (moment, event) =>
  set(moment, event.node, { ledger: event.ledger, last_add_confirmed: event.entry });

const repairs = (moment, event) => set(moment, event.node, {
  doing: event.kind === "replication.started" ? `repairs ledger ${event.ledger}` : "" });

function recovery(moment, event) {
  if (event.kind === "recovery.started") moment.ledgers[event.ledger] = "in recovery";
  const doing = {
    "recovery.started": `fences ledger ${event.ledger}`,
    "recovery.covered": `looks for entries from ${event.entry + 1} on`,
    "recovery.ended": `recovered up to entry ${event.entry}`,
    "recovery.failed": "its recovery failed",
  }[event.kind];
  set(moment, event.node, { doing, ledger: event.ledger });
}

const AROUND = {
  "node.started": up,
  "node.resumed": up,
  "node.paused": (moment, event) => set(moment, event.node, { state: "paused" }),
  "node.killed": (moment, event) => {
    let { fenced, troubles } = moment.nodes[event.node];
    if (!event.note.endsWith("kept"))
      fenced = fenced.filter((ledger) => moment.durableFences.has(`${event.node} ${ledger}`));
    moment.nodes[event.node] = { ...QUIET_NODE, state: "down", fenced, troubles };
  },
  "node.failed": (moment, event) => trouble(moment, event.node, "its code failed"),
  "clock.skewed": (moment, event) => trouble(moment, event.node, `clock ${event.note}`),
  "disk.bad": (moment, event) => trouble(moment, event.node, `disk ${event.note}`),
  "disk.good": (moment, event) =>
    noTrouble(moment, event.node, `disk ${event.note.replace(/^no longer /, "")}`),
  "disk.rotted": (moment, event) => trouble(moment, event.node, "a bit flipped on disk"),
  "session.lost": (moment, event) => trouble(moment, event.node, "session lost"),
  "bookie.read_only": (moment, event) => trouble(moment, event.node, "read-only"),
  "bookie.writable": (moment, event) => noTrouble(moment, event.node, "read-only"),
  "bookie.registered": (moment, event) => {
    up(moment, event);
    noTrouble(moment, event.node, "session", "taken");
  },
  "bookie.lost": (moment, event) => trouble(moment, event.peer, "taken for lost"),
  "link.cut": (moment, event) => { moment.cuts = [...moment.cuts, `${event.node}>${event.peer}`]; },
  "link.healed": (moment, event) => {
    moment.cuts = moment.cuts.filter((link) => link !== `${event.node}>${event.peer}`);
  },
  "step.started": (moment, event) => set(moment, event.node, { doing: event.note }),
  "step.ended": (moment, event) => {
    if (moment.nodes[event.node].state === "down") return;
    const colon = event.note.indexOf(": ");
    set(moment, event.node, { doing: colon < 0 ? "" : event.note.slice(colon + 2) });
  },
  "ledger.created": (moment, event) => {
    moment.ledgers[event.ledger] = "open";
    set(moment, event.node, { ledger: event.ledger, last_add_pushed: -1, last_add_confirmed: -1 });
  },
  "add.pushed": (moment, event) =>
    set(moment, event.node, { ledger: event.ledger, last_add_pushed: event.entry }),
  "lac.advanced": advanced,
  "lac.read": advanced,
  "ledger.closed": (moment, event) => {
    moment.ledgers[event.ledger] =
      event.entry >= 0 ? `closed at entry ${event.entry}` : "closed, empty";
  },
  "recovery.started": recovery,
  "recovery.covered": recovery,
  "recovery.ended": recovery,
  "recovery.failed": recovery,
  "ledger.fenced": (moment, event) => {
    const { fenced } = moment.nodes[event.node];
    if (!fenced.includes(event.ledger)) set(moment, event.node, { fenced: [...fenced, event.ledger] });
  },
  "journal.synced": (moment, event) => {
    if (event.entry < 0) moment.durableFences.add(`${event.node} ${event.ledger}`);
  },
  "memtable.flushed": (moment, event) => {
    for (const ledger of moment.nodes[event.node].fenced)
      moment.durableFences.add(`${event.node} ${ledger}`);
  },
  "auditor.elected": (moment, event) => {
    for (const name in moment.nodes) set(moment, name, { is_auditor: name === event.node });
  },
  "replication.started": repairs,
  "replication.done": repairs,
  "replication.deferred": repairs,
  "epilogue.started": (moment, event) => {
    for (const name in moment.nodes) noTrouble(moment, name, "clock", "disk");
    set(moment, event.node, { doing: "looks everything up" });
  },
};

// Two runs

const BOTH = 0, FIRST = 1, OTHER = 2;
const COMPARED = ["time_us", "node", "kind", "ledger", "entry", "peer", "file", "offset", "size", "note"];

/** Whether the same happened in row i of one run and in row j of the other. */
const sameEvent = (a, i, b, j) => COMPARED.every((name) => a[name][i] === b[name][j]);

/** Whether what is in row i of one run happens in the other at the same time, from row j on. */
function comesSoon(a, i, b, j) {
  for (; j < b.seq.length && b.time_us[j] === a.time_us[i]; j++) if (sameEvent(a, i, b, j)) return true;
  return false;
}

/** Steps through two runs at once: which run goes on (BOTH, FIRST or OTHER), and how many events of
 *  each have happened after it. */
export function stepsOf(first, other) {
  const n = first.seq.length, m = other ? other.seq.length : n;
  const which = [], ofFirst = [], ofOther = [];
  let i = 0, j = 0;
  while (i < n || j < m) {
    let step = BOTH;
    if (other) {
      if (j >= m) step = FIRST;
      else if (i >= n) step = OTHER;
      else if (!sameEvent(first, i, other, j)) {
        const ahead = first.time_us[i] - other.time_us[j];
        // A fault, which only the other has, stands before what it changes.
        step = ahead < 0 || ahead === 0 && comesSoon(other, j, first, i) ? FIRST : OTHER;
      }
    }
    if (step !== OTHER) i++;
    if (step !== FIRST) j++;
    which.push(step);
    ofFirst.push(i);
    ofOther.push(j);
  }
  return { which, ofFirst, ofOther };
}
