// A film: the scenes of a run as tables that only grow (labkit/widgets/film.py writes them).

/** @typedef {[string, string, number, string, number[]]} Head key, tag, attributes, text, move */

export class Film {
  /** @type {Record<string, string>[]} */
  attributes = [];
  /** @type {Head[]} */
  heads = [];
  /** @type {{ head: number, children: number[] }[]} */
  rows = [];
  /** @type {string[]} */
  words = [];
  /** @type {[number, number, number, number][]} position, row, words, number of the event */
  beats = [];

  constructor(tables) {
    this.grow(tables);
  }

  /** Take more of each table.  A row becomes its head and the numbers of its children. */
  grow(tables) {
    for (const name of ["attributes", "heads", "words", "beats"]) {
      for (const each of tables[name]) this[name].push(each);
    }
    for (const [head, like, start, removed, ...put] of tables.rows) {
      let children = put;
      if (like >= 0) {
        const old = this.rows[like].children;
        children = [...old.slice(0, start), ...put, ...old.slice(start + removed)];
      }
      this.rows.push({ head, children });
    }
  }

  get last() {
    return this.beats.length - 1;
  }

  get end() {
    return this.beats[this.last][0];
  }

  /** A mark's own part: key, tag, attributes, text and move. */
  head(row) {
    const [key, tag, attributes, text, move] = this.heads[this.rows[row].head];
    return { key, tag, attributes: this.attributes[attributes], text, move };
  }

  key(row) {
    return this.heads[this.rows[row].head][0];
  }

  /** The number of the last beat that is not after the position. */
  at(position) {
    let low = 0, high = this.last;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.beats[middle][0] <= position) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  beat(number) {
    const [at, row, words, seq] = this.beats[number];
    return { at, row, words: this.words[words], seq };
  }
}
