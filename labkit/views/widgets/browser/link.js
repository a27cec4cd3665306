// Buttons that copy a text, such as the link to the moment on display.  Python makes the link; the
// page adds the moment and, on labkit's site, the address of the page that opens links.

import { make } from "./page.js";

const COPIED_MS = 2000;

/** @returns {string} the address of the page that opens links, or "" outside of labkit's site */
function runPage() {
  /** @type {any} */
  const shared = globalThis, page = shared[Symbol.for("labkit.run-page")];
  if (page) return page;
  const tab = location.pathname.match(/^(.*\/)tab\/(?:lab|notebooks)\//); // JupyterLite
  return tab ? `${location.origin}${tab[1]}run.html` : "";
}

/**
 * Return the link with another moment.
 * @param {string} link
 * @param {number} seq the last event shown
 */
export function linkAt(link, seq) {
  const [fragment, published] = link.split("#").reverse();
  const page = runPage() || published;
  const moment = fragment.replace(/-?\d+$/, String(seq));
  return page ? `${page}#${moment}` : moment;
}

/** A button that copies a text. */
export class CopyButton {
  /** @type {() => string} */
  text = () => "";

  /** @param {string} label @param {string} title */
  constructor(label, title) {
    this.label = label;
    const onclick = () => this.copy();
    this.button = make("button", { title, "aria-live": "polite", onclick }, label);
    this.element = make("span", { class: "lk-link" }, this.button);
    this.element.hidden = true;
  }

  /** @param {() => string} text returns what a click copies; the button is hidden if it is empty */
  draw(text) {
    this.text = text;
    this.element.hidden = !text();
  }

  async copy() {
    const value = this.text();
    try {
      await navigator.clipboard.writeText(value);
    } catch {
      // Pages without HTTPS have no clipboard, and users can deny access to it.
      const label = this.button.title;
      const field = make("textarea", { readonly: true, rows: 1, "aria-label": label }, value);
      this.element.replaceChildren(this.button, field);
      return field.select();
    }
    this.button.textContent = "Copied";
    setTimeout(() => this.button.textContent = this.label, COPIED_MS);
  }
}
