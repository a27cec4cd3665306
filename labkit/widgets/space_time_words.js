// The words beside a dot, as space_time_words.py puts them together.

const INSTEAD = [["LAC #", "acked #"], ["add #", "sends #"], ["killed", "its node died"]];
const FIRST_WORDS = ["LAC #", "killed", "fenced"];

/** `0–2 5` for 0, 1, 2 and 5. */
function rangesOf(numbers) {
  const ranges = [];
  for (const number of [...new Set(numbers)].sort((a, b) => a - b)) {
    const last = ranges.at(-1);
    if (last && last[1] === number - 1) last[1] = number;
    else ranges.push([number, number]);
  }
  return ranges.map(([a, b]) => (a === b ? `${a}` : `${a}–${b}`)).join(" ");
}

/** A dot's words (each with its entry) in one line of at most so many characters. */
function labelOf(words, most) {
  const entries = new Map();
  for (const [word, entry] of words) {
    if (word) entries.set(word, [...(entries.get(word) ?? []), entry]);
  }
  for (const [telling, plain] of INSTEAD) if (entries.has(telling)) entries.delete(plain);
  const later = (word) => (FIRST_WORDS.includes(word) ? 0 : 1);
  const ordered = [...entries.keys()].sort((a, b) => later(a) - later(b));
  const text = ordered.map((word) => word.replace("#", rangesOf(entries.get(word)))).join(", ");
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
}
