// The button that copies a link to the moment on display.  Python makes the link; the page adds the
// moment and, on labkit's site, the address of the page that opens links.

import { make } from "./page.js";

const TITLE = "Copy a link that opens this run at this moment, here or with `labkit open LINK`";
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

export class CopyLink {
  link = "";

  /** @param {() => number} seq returns the last event shown */
  constructor(seq) {
    this.seq = seq;
    const onclick = () => this.copy();
    this.button = make("button", { title: TITLE, "aria-live": "polite", onclick }, "Copy link");
    this.element = make("span", { class: "lk-link" }, this.button);
  }

  /** @param {string | undefined} link that of the run, or "" if it has none */
  draw(link) {
    this.link = link ?? "";
    this.element.hidden = !this.link;
  }

  async copy() {
    const value = linkAt(this.link, this.seq());
    try {
      await navigator.clipboard.writeText(value);
    } catch {
      // Pages without HTTPS have no clipboard, and users can deny access to it.
      const field = make("input", { readonly: true, value, "aria-label": "Link" });
      this.element.replaceChildren(this.button, field);
      return field.select();
    }
    this.button.textContent = "Copied";
    setTimeout(() => this.button.textContent = "Copy link", COPIED_MS);
  }
}
