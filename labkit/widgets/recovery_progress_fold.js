// What the recovery progress shows at each step: the same rules as recovery_progress_fold.py.

export function beginningOfRecovery(bookies) {
  return { count: 0, auditor: "", isAuditorDead: false,
    bookies: new Map(bookies.map((name) => [name, "up"])), ledgers: new Map(), held: new Map() };
}

const held = (moment, bookie, ledger) => {
  const key = `${bookie}/${ledger}`;
  if (!moment.held.has(key)) moment.held.set(key, new Set());
  return moment.held.get(key);
};

function ledgerOf(moment, id) {
  if (!moment.ledgers.has(id))
    moment.ledgers.set(id, { writeQuorum: 0, end: -1, closed: false, marked: false, missed: "",
      holder: "", holderDied: false, why: "", ensembles: new Map(), targets: new Map() });
  return moment.ledgers.get(id);
}

const stageOf = ({ holder, why, marked }) =>
  holder ? (why ? "waiting" : "locked") : marked ? "marked" : "whole";

function letGo(ledger) {
  Object.assign(ledger, { holder: "", holderDied: false, why: "" });
  ledger.targets.clear();
}

function store(moment, [bookie, id, entry]) {
  held(moment, bookie, id).add(entry);
  const ledger = ledgerOf(moment, id);
  if (!ledger.closed) ledger.end = Math.max(ledger.end, entry);
  if (stageOf(ledger) !== "locked") return;
  const first = Math.max(0, ...[...ledger.ensembles.keys()].filter((each) => each <= entry));
  if (!ledger.targets.has(first)) ledger.targets.set(first, []);
  if (!ledger.targets.get(first).includes(bookie)) ledger.targets.get(first).push(bookie);
}

function endSession(moment, node, onlyOfTheDead) {
  if (moment.auditor === node && (moment.isAuditorDead || !onlyOfTheDead))
    Object.assign(moment, { auditor: "", isAuditorDead: false });
  for (const ledger of moment.ledgers.values())
    if (ledger.holder === node && (ledger.holderDied || !onlyOfTheDead)) letGo(ledger);
}

const TAKE = {
  "bookie.registered": (moment, { node }) => moment.bookies.set(node, "up"),
  "node.started": (moment, { node }) => moment.bookies.set(node, "up"),
  "node.resumed": (moment, { node }) => moment.bookies.set(node, "up"),
  "node.paused": (moment, { node }) => moment.bookies.set(node, "paused"),
  "node.killed": (moment, { node }) => {
    if (moment.auditor === node) moment.isAuditorDead = true;
    for (const ledger of moment.ledgers.values()) if (ledger.holder === node) ledger.holderDied = true;
    if (!["gone", "lost"].includes(moment.bookies.get(node))) moment.bookies.set(node, "down");
  },
  "session.lost": (moment, { node }) => {
    const state = moment.bookies.get(node);
    endSession(moment, node, !["down", "gone", "lost"].includes(state));
    if (state === "down" || state === "paused") moment.bookies.set(node, "gone");
  },
  "autorecovery.restarted": (moment, { node }) => endSession(moment, node, false),
  "auditor.elected": (moment, { node }) => Object.assign(moment, { auditor: node, isAuditorDead: false }),
  "bookie.lost": (moment, { peer }) => moment.bookies.set(peer, "lost"),
  "ledger.created": (moment, { ledger, note }) => {
    const numbers = note.match(/\d+/g) ?? [];
    ledgerOf(moment, ledger).writeQuorum = numbers.length > 1 ? Number(numbers[1]) : 0;
  },
  "ensemble.set": (moment, { ledger: id, entry, note }) => {
    const ensemble = note.split(",").map((name) => name.trim()), ledger = ledgerOf(moment, id);
    for (const name of ensemble) if (!moment.bookies.has(name)) moment.bookies.set(name, "up");
    ledger.writeQuorum ||= ensemble.length;
    ledger.ensembles.set(Math.max(entry, 0), ensemble);
  },
  "ledger.closed": (moment, { ledger, entry }) =>
    Object.assign(ledgerOf(moment, ledger), { closed: true, end: entry }),
  "ledger.underreplicated": (moment, { ledger, note }) =>
    Object.assign(ledgerOf(moment, ledger), { marked: true, missed: note }),
  "replication.started": (moment, { ledger: id, node }) => {
    const ledger = ledgerOf(moment, id);
    letGo(ledger);
    Object.assign(ledger, { marked: true, holder: node });
  },
  "journal.synced": (moment, { node, ledger, entry }) => store(moment, [node, ledger, entry]),
  "replication.deferred": (moment, { ledger, node, note }) =>
    Object.assign(ledgerOf(moment, ledger), { holder: node, why: note }),
  "replication.done": (moment, { ledger: id }) => {
    const ledger = ledgerOf(moment, id);
    letGo(ledger);
    Object.assign(ledger, { marked: false, missed: "" });
  },
};

/** Take steps up to that number. */
export function advanceRecovery(moment, columns, count) {
  for (; moment.count < count; moment.count++) {
    for (const each of columns.stored[moment.count]) store(moment, each);
    TAKE[columns.kind[moment.count]]?.(moment, eventAt(columns, moment.count));
  }
}

function copiesOf(moment, id, first, last) {
  const { ensembles, writeQuorum, targets } = moment.ledgers.get(id);
  const ensemble = ensembles.get(first), size = ensemble.length;
  const has = ensemble.map((name) => held(moment, name, id));
  const answers = ensemble.map((name) => moment.bookies.get(name) === "up");
  const places = ensemble.map((bookie) =>
    ({ bookie, state: moment.bookies.get(bookie) ?? "up", held: 0, due: 0 }));
  let least = writeQuorum, present = 0;
  for (let entry = first; entry <= last; entry++) {
    let copies = 0;
    for (let at = entry; at < entry + writeQuorum; at++) {
      const place = places[at % size], isHeld = has[at % size].has(entry);
      place.due++;
      place.held += isHeld;
      copies += answers[at % size] && isHeld;
    }
    least = Math.min(least, copies);
    present += copies;
  }
  const copied = (targets.get(first) ?? []).filter((name) => !ensemble.includes(name)).map((name) =>
    [name, [...held(moment, name, id)].filter((entry) => first <= entry && entry <= last).length]);
  const sum = (numbers) => numbers.reduce((total, each) => total + each, 0);
  return { first, last, places, least, present, copied: sum(copied.map(([, count]) => count)),
    due: sum(places.map(({ due }) => due)), targets: copied };
}

/** A ledger with its copies counted. */
export function repairOf(moment, id) {
  const ledger = moment.ledgers.get(id);
  const firsts = [...ledger.ensembles.keys()].sort((a, b) => a - b);
  const fragments = firsts.map((first, at) => copiesOf(moment, id, first,
    at + 1 < firsts.length ? firsts[at + 1] - 1 : Math.max(ledger.end, first - 1)));
  return { write_quorum: ledger.writeQuorum, closed: ledger.closed, stage: stageOf(ledger),
    missed: ledger.missed, holder: ledger.holder, why: ledger.why, fragments };
}

/** The ledgers that are in the picture, in order. */
export const ledgerIds = (moment) => [...moment.ledgers.keys()]
  .filter((id) => moment.ledgers.get(id).ensembles.size).sort((a, b) => a - b);

/** The whole state as plain data, as `state_after` gives it in Python. */
export function recoveryAfter(columns, bookies, count, sentences) {
  const moment = beginningOfRecovery(bookies), last = count ? eventAt(columns, count - 1) : null;
  advanceRecovery(moment, columns, count);
  return { step_count: count, time_us: last ? last.time_us : -1,
    sentence: last ? fill(sentences[last.kind], last) : "",
    auditor: moment.auditor, is_auditor_dead: moment.isAuditorDead,
    bookies: Object.fromEntries(moment.bookies),
    ledgers: Object.fromEntries(ledgerIds(moment).map((id) => [id, repairOf(moment, id)])) };
}
