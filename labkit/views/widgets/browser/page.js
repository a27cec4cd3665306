// Helpers for building the page, used by all modules.

/**
 * Make an element with attributes, listeners (`onclick: f`) and children.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, any>} attributes
 * @param {(Node | string)[]} children
 */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

/**
 * Put text into a live region unless it is already there, so that a screen reader reads it once.
 * @param {Element} region
 * @param {(Node | string)[]} words
 */
export function say(region, ...words) {
  const fresh = make("div", {}, ...words);
  if (region.innerHTML !== fresh.innerHTML) region.replaceChildren(...fresh.childNodes);
}

/**
 * Replace the element's children, but do not move the ones that remain, or they would lose the
 * focus.
 * @param {HTMLElement} element
 * @param {HTMLElement[]} children
 */
export function arrange(element, children) {
  for (const each of [...element.children]) {
    if (!children.includes(/** @type {HTMLElement} */ (each))) each.remove();
  }
  children.forEach((each, place) => {
    if (element.children[place] !== each) element.insertBefore(each, element.children[place]);
  });
}

/** Format the time since the start of the run.  @param {number} us */
export const clockTime = (us) =>
  us < 1e6 ? `${(us / 1e3).toFixed(2)} ms` : `${(us / 1e6).toLocaleString("en", TENTHS)} s`;

const TENTHS = { minimumFractionDigits: 1, maximumFractionDigits: 1 };
