// The state of a cluster at one moment, folded from columns of events: the rules of
// labkit/trace/fold.py, kind by kind, so that a picture plays and rewinds without the kernel.
// The result has the same fields as Python's ClusterState; a test compares the two as JSON.

const EMPTY_COPY = {
  state: "sent", acked: false, reads: 0,
  journal_file: "", journal_offset: -1, log_file: "", log_offset: -1, note: "",
};
const EMPTY_LEDGER = {
  ensemble_size: -1, write_quorum: -1, ack_quorum: -1, fragments: [],
  last_add_pushed: -1, last_add_confirmed: -1, closed: false,
};
const ON_DISK = ["durable", "flushed"];

/** An accumulator that `advance` moves on; the same one may go on with later events. */
export function beginning(bookies = []) {
  const moment = {
    count: 0, nodes: {}, bookies: new Map(), ledgers: new Map(), flushing: {}, read: null,
  };
  for (const name of bookies) meet(moment, name);
  return moment;
}

/** Take the events of the columns up to, and without, row `index`. */
export function advance(moment, columns, index) {
  for (; moment.count < index; moment.count++) {
    const event = eventAt(columns, moment.count);
    if (moment.bookies.has(event.node)) moment.nodes[event.node] ??= "up";
    RULES[event.kind]?.(moment, event);
  }
  return moment;
}

/** The state after the first `index` events; `sentences` are the templates by kind. */
export function stateAt(columns, index, { bookies = [], sentences = {} } = {}) {
  const moment = advance(beginning(bookies), columns, index);
  const last = index > 0 ? eventAt(columns, index - 1) : null;
  return {
    event_count: moment.count,
    time_us: last ? last.time_us : -1,
    sentence: last ? fill(sentences[last.kind] ?? last.kind, last) : "",
    bookies: Object.fromEntries(bookieNames(moment).map((name) => [name, {
      state: moment.nodes[name] ?? "unknown",
      entries: toObject(moment.bookies.get(name), toObject),
    }])),
    ledgers: toObject(moment.ledgers),
    read: moment.read,
  };
}

/** The bookies by name, bookie-2 before bookie-10. */
export function bookieNames(moment) {
  const key = (name) => {
    const digits = name.match(/\d*$/)[0];
    return [name.slice(0, name.length - digits.length), digits === "" ? -1 : Number(digits)];
  };
  return [...moment.bookies.keys()].sort((a, b) => {
    const [p, m] = key(a), [q, n] = key(b);
    return p < q ? -1 : p > q ? 1 : m - n;
  });
}

const toObject = (map, value = (x) => x) =>
  Object.fromEntries([...map].map(([key, each]) => [key, value(each)]));

function meet(moment, name) {
  if (!moment.bookies.has(name)) moment.bookies.set(name, new Map());
  return moment.bookies.get(name);
}

function change(moment, bookie, event, changes) {
  const ledgers = meet(moment, bookie);
  if (event.entry < 0) return;
  if (!ledgers.has(event.ledger)) ledgers.set(event.ledger, new Map());
  const copies = ledgers.get(event.ledger);
  const copy = copies.get(event.entry) ?? EMPTY_COPY;
  copies.set(event.entry, { ...copy, ...changes(copy) });
}

function changeLedger(moment, event, changes) {
  const ledger = moment.ledgers.get(event.ledger) ?? EMPTY_LEDGER;
  moment.ledgers.set(event.ledger, { ...ledger, ...changes(ledger) });
}

function confirmed(moment, event) {
  changeLedger(moment, event, (ledger) => (
    { last_add_confirmed: Math.max(ledger.last_add_confirmed, event.entry) }));
}

function setEnsemble(moment, event) {
  const first = Math.max(event.entry, 0);
  const ensemble = event.note.match(/[^\s,[\]()'"]+/g) ?? [];
  for (const bookie of ensemble) meet(moment, bookie);
  changeLedger(moment, event, ({ fragments }) => ({ fragments: [
    ...fragments.filter((fragment) => fragment.first_entry !== first),
    { first_entry: first, ensemble },
  ].sort((a, b) => a.first_entry - b.first_entry) }));
}

function killed(moment, event) {
  moment.nodes[event.node] = "down";
  delete moment.flushing[event.node];
  for (const copies of (moment.bookies.get(event.node) ?? new Map()).values())
    for (const [entry, copy] of copies)
      if (copy.state === "memtable") copies.set(entry, { ...copy, state: "lost" });
}

function flushed(moment, event) {
  for (const { ledger, entry } of moment.flushing[event.node] ?? [])
    change(moment, event.node, { ledger, entry }, () => ({ state: "flushed" }));
  delete moment.flushing[event.node];
}

function setRead(moment, event, reader, bookie, state) {
  const { ledger, entry, note } = event;
  moment.read = { reader, ledger, entry, bookie, state, note };
}

const RULES = {
  "node.started": (moment, event) => { moment.nodes[event.node] = "up"; },
  "node.resumed": (moment, event) => { moment.nodes[event.node] = "up"; },
  "node.paused": (moment, event) => { moment.nodes[event.node] = "paused"; },
  "node.killed": killed,
  "bookie.registered": (moment, event) => {
    meet(moment, event.node);
    moment.nodes[event.node] = "up";
  },
  "ledger.created": (moment, event) => {
    const numbers = (event.note.match(/\d+/g) ?? []).map(Number);
    if (numbers.length !== 3) return;
    const [ensemble_size, write_quorum, ack_quorum] = numbers;
    changeLedger(moment, event, () => ({ ensemble_size, write_quorum, ack_quorum }));
  },
  "ensemble.set": setEnsemble,
  "ledger.closed": (moment, event) => {
    confirmed(moment, event);
    changeLedger(moment, event, () => ({ closed: true }));
  },
  "add.pushed": (moment, event) => changeLedger(moment, event, (ledger) => (
    { last_add_pushed: Math.max(ledger.last_add_pushed, event.entry) })),
  "lac.advanced": confirmed,
  "add.sent": (moment, event) => change(moment, event.peer, event, (copy) => (
    ["failed", "lost"].includes(copy.state) ? EMPTY_COPY : {})),
  "memtable.put": (moment, event) => change(moment, event.node, event, (copy) => (
    { state: ON_DISK.includes(copy.state) ? copy.state : "memtable" })),
  "journal.appended": (moment, event) => change(moment, event.node, event, () => (
    { journal_file: event.file, journal_offset: event.offset })),
  "journal.synced": (moment, event) => event.entry >= 0
    && change(moment, event.node, event, (copy) => (
      { state: copy.state === "flushed" ? "flushed" : "durable" })),
  "add.acked": (moment, event) => change(moment, event.peer, event, () => ({ acked: true })),
  "add.failed": (moment, event) => change(moment, event.peer, event, (copy) => (
    { state: copy.state === "sent" ? "failed" : copy.state, note: event.note })),
  "entry_log.written": (moment, event) => {
    change(moment, event.node, event, () => ({ log_file: event.file, log_offset: event.offset }));
    (moment.flushing[event.node] ??= []).push(event);
  },
  "memtable.flushed": flushed,
  "read.sent": (moment, event) => setRead(moment, event, event.node, event.peer, "asked"),
  "read.served": (moment, event) =>
    setRead(moment, event, event.peer || (moment.read?.reader ?? ""), event.node, "served"),
  "read.done": (moment, event) => {
    setRead(moment, event, event.node, event.peer, "done");
    change(moment, event.peer, event, (copy) => ({ reads: copy.reads + 1 }));
  },
  "read.failed": (moment, event) => setRead(moment, event, event.node, event.peer, "failed"),
};
