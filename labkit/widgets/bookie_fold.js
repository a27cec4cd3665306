// The inside of one bookie at one moment, folded from columns of its events: the rules of
// labkit/trace/bookie_fold.py, kind by kind.  A test compares the two as JSON.

/** An accumulator that `advanceBookie` moves on. */
export function emptyBookie() {
  return { count: 0, up: "unknown", memtable: new Map(), journals: new Map(), logs: new Map(),
    mark: null, found: null, group: -1, leftInGroup: 0, special: [], wasKilled: false };
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

function filed(files, event, place, key = keyOf(event)) {
  if (!files.has(event.file)) files.set(event.file, new Map());
  files.get(event.file).set(key, place);
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

function specialAppended(moment, event) {
  const { ledger, offset, file } = event, kind = SPECIAL[event.kind];
  const key = `${ledger}/${-offset}`;
  filed(moment.journals, event,
    { ledger, entry: -1, offset, state: "written", group: -1, kind }, key);
  moment.special.push({ file, key, offset });
}

function synced(moment, event) {
  if (moment.leftInGroup <= 0) {
    moment.group += 1;
    moment.leftInGroup = event.size;
  }
  moment.leftInGroup -= 1;
  const records = moment.journals.get(event.file);
  const isCovered = (each) => each.file === event.file && each.offset <= event.offset;
  const covered = moment.special.filter(isCovered).map((each) => each.key);
  moment.special = moment.special.filter((each) => !isCovered(each));
  for (const key of [...covered, keyOf(event)])
    if (records?.has(key))
      records.set(key, { ...records.get(key), state: "synced", group: moment.group });
}

const journalId = (file) => parseInt(file, 16);

function settleByReplay(moment, event) {
  const end = journalId(event.file);
  for (const [file, records] of moment.journals)
    for (const [key, record] of records) {
      if (record.state !== "unsure") continue;
      const id = journalId(file), found = id < end || id === end && record.offset < event.offset;
      records.set(key, { ...record, state: found ? "synced" : "lost" });
    }
}

function replayed(moment, event) {
  moment.up = "up";
  settleByReplay(moment, event);
  moment.memtable.clear();
  const files = [...moment.journals.keys()], { mark } = moment;
  const first = mark ? Math.max(0, files.indexOf(mark.file)) : 0;
  const indexed = (key) => [...moment.logs.values()].some((log) => log.get(key)?.indexed);
  for (const file of files.slice(first)) {
    const start = mark?.file === file ? mark.offset : 0;
    for (const [key, record] of moment.journals.get(file))
      if (record.kind === "entry" && record.offset >= start && record.state === "synced"
          && !indexed(key)) moment.memtable.set(key, kept(record, "replayed"));
  }
}

function logWritten(moment, event) {
  const { ledger, entry, offset } = event, key = keyOf(event);
  filed(moment.logs, event, { ledger, entry, offset, indexed: false });
  moment.memtable.set(key, kept(event, "written"));
}

const SPECIAL = { "journal.key_appended": "key", "journal.fence_appended": "fence",
  "journal.lac_appended": "LAC" };

const BOOKIE_RULES = {
  "node.started": started,
  "bookie.registered": started,
  "node.killed": (moment) => {
    moment.up = "down";
    moment.wasKilled = true;
    for (const [key, each] of moment.memtable) moment.memtable.set(key, kept(each, "lost"));
    changeRecords(moment, "written", "unsure");
    moment.special = [];
  },
  "memtable.put": (moment, event) => {
    const key = keyOf(event);
    if (!moment.memtable.has(key)) moment.memtable.set(key, kept(event, "put"));
  },
  "journal.appended": (moment, event) => {
    const { ledger, entry, offset } = event;
    filed(moment.journals, event,
      { ledger, entry, offset, state: "written", group: -1, kind: "entry" });
  },
  ...Object.fromEntries(Object.keys(SPECIAL).map((kind) => [kind, specialAppended])),
  "journal.synced": synced,
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
