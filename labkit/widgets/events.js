// Events as columns, and in words: what the folds and the player of a run share.

/** The event in row `index` of the columns. */
export function eventAt(columns, index) {
  const event = {};
  for (const name in columns) event[name] = columns[name][index];
  return event;
}

/** Fill a template of labkit/trace/sentence.py. */
export function fill(template, values) {
  const absent = (name) => values[name] === "" || values[name] === -1;
  return template
    .replace(/\[([^\][]*)\]/g, (_, part) =>
      [...part.matchAll(/\{(\w+)\}/g)].some(([, name]) => absent(name)) ? "" : part)
    .replace(/\{(\w+)\}/g, (_, name) => values[name]);
}
