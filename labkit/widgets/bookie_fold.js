// The inside of one bookie at one moment, folded from columns of its events: the rules of
// labkit/trace/bookie_fold.py, kind by kind.  A test compares the two as JSON.

/** An accumulator that `advanceBookie` moves on. */
export function emptyBookie() {
  return { count: 0, up: "unknown", memtable: new Map(), journals: new Map(), logs: new Map(),
    mark: null, found: null, group: -1, leftInGroup: 0, wasKilled: false };
}

/** Take the events of the columns up to, and without, row `index`. */
export function advanceBookie(moment, columns, index) {
  for (; moment.count < index; moment.count++) {
    const event = eventAt(columns, moment.count);
    moment.found = null;
    if (!(event.kind in BOOKIE_RULES)) continue;
    if (moment.up === "unknown") moment.up = "up";
    BOOKIE_RULES[event.kind](moment, event);
  }
  return moment;
}

/** The accumulator as a value: what Python's BookieState holds. */
export function bookieStateOf(moment, columns, sentences = {}) {
  const last = moment.count > 0 ? eventAt(columns, moment.count - 1) : null;
  const byOffset = (places) => [...places.values()].sort((a, b) => a.offset - b.offset);
  const files = (map) => Object.fromEntries([...map].map(([file, each]) => [file, byOffset(each)]));
  return {
    event_count: moment.count,
    time_us: last ? last.time_us : -1,
    sentence: last ? fill(sentences[last.kind] ?? last.kind, last) : "",
    state: moment.up,
    memtable: [...moment.memtable.values()]
      .sort((a, b) => a.ledger - b.ledger || a.entry - b.entry),
    journals: files(moment.journals),
    logs: files(moment.logs),
    mark: moment.mark,
    found: moment.found,
  };
}

const keyOf = ({ ledger, entry }) => `${ledger}/${entry}`;
const kept = ({ ledger, entry }, state) => ({ ledger, entry, state });

function filed(files, event, place) {
  if (!files.has(event.file)) files.set(event.file, new Map());
  files.get(event.file).set(keyOf(event), place);
}

function changeRecords(moment, before, after) {
  for (const records of moment.journals.values())
    for (const [key, record] of records)
      if (record.state === before) records.set(key, { ...record, state: after });
}

function settle(moment) {
  if (!moment.wasKilled) return;
  changeRecords(moment, "unsure", "lost");
  moment.wasKilled = false;
}

function keepOnly(moment, wanted) {
  moment.memtable = new Map([...moment.memtable].filter(([, each]) => wanted(each.state)));
}

function started(moment) {
  moment.up = "up";
  settle(moment);
}

function replayed(moment) {
  moment.up = "up";
  moment.memtable.clear();
  const files = [...moment.journals.keys()], { mark } = moment;
  const first = mark ? Math.max(0, files.indexOf(mark.file)) : 0;
  const indexed = (key) => [...moment.logs.values()].some((log) => log.get(key)?.indexed);
  for (const file of files.slice(first)) {
    const start = mark?.file === file ? mark.offset : 0;
    for (const [key, record] of moment.journals.get(file))
      if (record.offset >= start && record.state === "synced" && !indexed(key))
        moment.memtable.set(key, kept(record, "replayed"));
  }
}

function logWritten(moment, event) {
  const { ledger, entry, offset } = event, key = keyOf(event);
  filed(moment.logs, event, { ledger, entry, offset, indexed: false });
  moment.memtable.set(key, kept(event, "written"));
  if (!moment.wasKilled) return;
  for (const records of moment.journals.values())
    if (records.get(key)?.state === "unsure")
      records.set(key, { ...records.get(key), state: "synced" });
}

const BOOKIE_RULES = {
  "node.started": started,
  "bookie.registered": started,
  "node.killed": (moment) => {
    moment.up = "down";
    moment.wasKilled = true;
    for (const [key, each] of moment.memtable) moment.memtable.set(key, kept(each, "lost"));
    changeRecords(moment, "written", "unsure");
  },
  "memtable.put": (moment, event) => {
    const key = keyOf(event);
    if (!moment.memtable.has(key)) moment.memtable.set(key, kept(event, "put"));
  },
  "journal.appended": (moment, event) => {
    const { ledger, entry, offset } = event;
    filed(moment.journals, event, { ledger, entry, offset, state: "written", group: -1 });
  },
  "journal.synced": (moment, event) => {
    if (moment.leftInGroup <= 0) {
      moment.group += 1;
      moment.leftInGroup = event.size;
    }
    moment.leftInGroup -= 1;
    const records = moment.journals.get(event.file), key = keyOf(event);
    if (records?.has(key))
      records.set(key, { ...records.get(key), state: "synced", group: moment.group });
  },
  "journal.replayed": replayed,
  "entry_log.written": logWritten,
  "index.written": (moment, event) => {
    const key = keyOf(event);
    const log = [...moment.logs.values()].reverse().find((each) => each.has(key));
    log?.set(key, { ...log.get(key), indexed: true });
  },
  "memtable.flushed": (moment) => keepOnly(moment, (state) => state !== "written"),
  "mark.persisted": (moment, event) => {
    moment.mark = event.offset > 0 ? { file: event.file, offset: event.offset } : null;
    settle(moment);
    keepOnly(moment, (state) => state !== "lost");
  },
  "read.served": (moment, { ledger, entry, note }) => {
    moment.found = { ledger, entry, where: note.includes("memtable") ? "memtable" : "entry log" };
  },
};
