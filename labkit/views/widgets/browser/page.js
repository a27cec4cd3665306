// What every part of a view needs of a page.

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
 * Put words into a live region, unless they stand there already: a screen reader says each once.
 * @param {Element} region
 * @param {(Node | string)[]} words
 */
export function say(region, ...words) {
  const fresh = make("div", {}, ...words);
  if (region.innerHTML !== fresh.innerHTML) region.replaceChildren(...fresh.childNodes);
}

/**
 * Give the element these children.  None that stays is moved: it would lose the focus.
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

/** How every view writes a time of the run.  @param {number} us */
export const inMs = (us) =>
  `${(us / 1000).toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 })} ms`;
