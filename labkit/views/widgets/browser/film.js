// A film: the scenes of a run as append-only tables, written by labkit/views/widgets/film.py.

/** @typedef {[string, string, number, number, number[]]} Head key, tag, attributes, words, move */
/** @typedef {[number, number, number, number]} Beat position, row, words, number of the event */
/**
 * @typedef {{ words: string[], pairs: [string, string][], attributes: number[][],
 *   heads: Head[], rows: number[][], beats: Beat[] }} Tables the new rows of each table
 */

export class Film {
  /** @type {[string, string][]} */
  pairs = [];
  /** @type {Record<string, string>[]} */
  attributes = [];
  /** @type {Head[]} */
  heads = [];
  /** @type {{ head: number, children: number[] }[]} */
  rows = [];
  /** @type {string[]} */
  words = [];
  /** @type {Beat[]} */
  beats = [];

  /** @param {Tables} tables */
  constructor(tables) {
    this.grow(tables);
  }

  /**
   * Append to the tables.  Rows are decoded to a head and the numbers of their children.
   * @param {Tables} tables
   */
  grow(tables) {
    // Push one at a time, because the number of arguments of a call is limited.
    for (const each of tables.pairs) this.pairs.push(each);
    for (const each of tables.attributes) {
      this.attributes.push(Object.fromEntries(each.map((number) => this.pairs[number])));
    }
    for (const each of tables.heads) this.heads.push(each);
    for (const each of tables.words) this.words.push(each);
    for (const each of tables.beats) this.beats.push(each);
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

  /** A mark without its children: key, tag, attributes, text and move.  @param {number} row */
  head(row) {
    const [key, tag, attributes, words, move] = this.heads[this.rows[row].head];
    return { key, tag, attributes: this.attributes[attributes], text: this.words[words], move };
  }

  /** @param {number} row */
  key(row) {
    return this.heads[this.rows[row].head][0];
  }

  /** The number of the last beat at or before the position.  @param {number} position */
  at(position) {
    let low = 0, high = this.last;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.beats[middle][0] <= position) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** @param {number} number */
  beat(number) {
    const [at, row, words, seq] = this.beats[number];
    return { at, row, words: this.words[words], seq };
  }
}
