// What the picture of a bookie's inside consists of: bands of items.  The rules are those of
// bookie_bands.py; a test compares the two as JSON.

const MOST_ITEMS = 48, MOST_FILES = 3, SLOT_SIZE = 8, FIRST_SLOT = 1024;
const EMPTY_ITEM = { kind: "", look: "", ledger: -1, entry: -1, hue: -1, label: "", note: "",
  words: "", found: false };

/** The picture of a state (bookieStateOf); `places` are the templates of bookie_bands.py. */
export function bandsOf(state, pageSize, places) {
  const files = Object.values(state.journals), logs = Object.values(state.logs);
  const ledgers = [...new Set([...files.flat(), ...logs.flat(), ...state.memtable]
    .map((each) => each.ledger))].sort((a, b) => a - b);
  const draw = { state, places, pageSize, hueOf: (ledger) => ledgers.indexOf(ledger) };
  const journals = Object.entries(state.journals).slice(-MOST_FILES);
  return [
    memtableBand(draw),
    ...(journals.length ? journals : [["", []]]).map((each) => journalBand(draw, ...each)),
    ...Object.entries(state.logs).slice(-MOST_FILES).map((each) => logBand(draw, ...each)),
    ...ledgers.filter((ledger) => slotsOf(state, ledger).size).map((l) => indexBand(draw, l)),
  ];
}

const item = (kind, more = {}) => ({ ...EMPTY_ITEM, kind, ...more });

function entryItem(draw, band, look, { ledger, entry }, { note = "", place = {}, found = false } = {}) {
  return item("entry", { look, ledger, entry, hue: draw.hueOf(ledger), note, found,
    label: band === "index" ? String(entry) : `${ledger}/${entry}`,
    words: fill(draw.places[`${band} ${look}`], place) });
}

function lastOf(items) {
  const leftOut = items.length - MOST_ITEMS;
  return leftOut <= 0 ? items : [item("gap", { label: `… ${leftOut}` }), ...items.slice(leftOut)];
}

function isFound({ found }, { ledger, entry }, where) {
  return found !== null && found.ledger === ledger && found.entry === entry
    && found.where === where;
}

function memtableBand(draw) {
  const { state } = draw;
  const items = state.memtable.map((kept) => entryItem(draw, "memtable", kept.state, kept,
    { found: isFound(state, kept, "memtable") }));
  const leftOut = items.length - MOST_ITEMS;
  return { part: "memory", title: "memtable", subtitle: "by ledger, entry",
    items: leftOut <= 0 ? items
      : [...items.slice(0, MOST_ITEMS), item("gap", { label: `+${leftOut}` })] };
}

function journalBand(draw, file, records) {
  const { state } = draw, items = [item("head", { label: "header" })];
  const mark = state.mark?.file === file ? state.mark : null;
  const markItem = () => item("mark", { label: "LastLogMark", note: String(mark.offset),
    words: `LastLogMark: replay starts in ${mark.file} at ${mark.offset}` });
  let before = null;
  for (const record of records) {
    if (before && before.group !== record.group) items.push(item("pad"));
    if (mark && record.offset >= mark.offset && !(before?.offset >= mark.offset))
      items.push(markItem());
    items.push(recordItem(draw, file, record));
    before = record;
  }
  if (before?.state === "synced") items.push(item("pad"));
  if (mark && !(before?.offset >= mark.offset)) items.push(markItem());
  items.push(item("tail", { label: "preallocated" }));
  return { part: "journal disk", title: file || "no record yet", subtitle: "journal, as it comes",
    items: lastOf(items) };
}

function recordItem(draw, file, record) {
  const { mark, journals } = draw.state, files = Object.keys(journals);
  const at = files.indexOf(file), markAt = files.indexOf(mark?.file);
  const isBefore = markAt >= 0 && (at < markAt || at === markAt && record.offset < mark.offset);
  const look = record.state === "synced" && isBefore ? "done" : record.state;
  const { ledger, kind } = record, place = { file, offset: record.offset };
  const note = String(record.offset);
  if (kind === "entry") return entryItem(draw, "journal", look, record, { note, place });
  const { places } = draw, where = fill(places[`journal ${look}`], place);
  return item("special", { look, ledger, hue: draw.hueOf(ledger), label: `${ledger} ${kind}`,
    note, words: `${fill(places[kind], { ledger })}; ${where}` });
}

function logBand(draw, file, entries) {
  const { state } = draw;
  const isHere = (stored) => {
    const slot = slotsOf(state, stored.ledger).get(stored.entry);
    return slot?.file === file && slot.offset === stored.offset;
  };
  const items = entries.map((stored) => entryItem(draw, "log",
    stored.indexed ? "stored" : "written", stored, {
      note: String(stored.offset), place: { file, offset: stored.offset },
      found: isFound(state, stored, "entry log") && isHere(stored) }));
  return { part: "ledger disk", title: file, subtitle: "entry log, all ledgers",
    items: lastOf([item("head", { label: "header" }), ...items]) };
}

function indexBand(draw, ledger) {
  const { state, pageSize } = draw, slots = slotsOf(state, ledger), items = [];
  const entries = [...slots.keys()].sort((a, b) => a - b), perPage = pageSize / SLOT_SIZE;
  let before = -1, page = -1;
  for (const last of entries) {
    for (let entry = last - before <= 4 ? before + 1 : last; entry <= last; entry++) {
      if (Math.floor(entry / perPage) !== page) {
        page = Math.floor(entry / perPage);
        items.push(item("page", { label: `page ${page}` }));
      }
      items.push(slotItem(draw, { ledger, entry }, slots.get(entry)));
    }
    before = last;
  }
  return { part: "ledger disk", title: `${ledger.toString(16)}.idx`,
    subtitle: `index of ledger ${ledger}`, items: lastOf(items) };
}

function slotItem(draw, key, where) {
  const slot = FIRST_SLOT + SLOT_SIZE * key.entry;
  if (!where) return entryItem(draw, "index", "empty", key, { note: "0", place: { slot } });
  return entryItem(draw, "index", "slot", key, { note: `${where.file.replace(/\.log$/, "")}:${where.offset}`,
    place: { slot, ...where }, found: isFound(draw.state, key, "entry log") });
}

/** Entry id -> where it lies, as the ledger's index says; a later log wins. */
function slotsOf(state, ledger) {
  const slots = new Map();
  for (const [file, entries] of Object.entries(state.logs))
    for (const stored of entries)
      if (stored.ledger === ledger && stored.indexed)
        slots.set(stored.entry, { file, offset: stored.offset });
  return slots;
}
