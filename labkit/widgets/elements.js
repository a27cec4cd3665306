// What every view needs of a page: making elements, and speaking to those who do not see it.

/** Make an element with attributes and children. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** Put words into a live region, unless they stand there already: a screen reader says each once. */
function say(region, ...words) {
  const fresh = make("div", {}, ...words);
  if (region.textContent !== fresh.textContent) region.replaceChildren(...fresh.childNodes);
}

/** Keys that a view understands must not reach JupyterLab, where `b` inserts a cell; those with Ctrl,
 *  Meta or Alt are JupyterLab's. */
function keepKeys(root, signal, handle = () => {}) {
  root.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    event.stopPropagation();
    handle(event);
  }, { signal });
}
