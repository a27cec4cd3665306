// Loads the module, the style sheet and the state of each view when it becomes visible.
// A view sends messages to Python.  A page has no Python, so it shows where to run the view instead.

const NEEDS_PYTHON = "This needs Python. Open the lesson in a tab to use it.";
const here = new URL(".", import.meta.url);

/** @type {any} */
const shared = globalThis;
shared[Symbol.for("labkit.run-page")] = String(new URL("../run.html", here));

/** @typedef {(...values: any[]) => void} Handle */

/** The model of a widget, as a view's module expects it. */
export class Model {
  /** @type {Map<string, Handle[]>} */
  heard = new Map();
  /** @type {any} the film before a fork is shown */
  base;

  /** @param {Record<string, any>} state @param {HTMLElement} place */
  constructor(state, place) {
    this.state = state;
    this.place = place;
  }
  /** @param {string} name */
  get(name) {
    return this.state[name];
  }
  /** @param {string} name @param {any} value */
  set(name, value) {
    this.state[name] = value;
    this.tell(`change:${name}`);
    this.tell("change");
  }
  save_changes() {}
  /** @param {string} name @param {Handle} handle */
  on(name, handle) {
    this.heard.set(name, [...(this.heard.get(name) ?? []), handle]);
  }
  /** @param {string} name @param {Handle} handle */
  off(name, handle) {
    this.heard.set(name, (this.heard.get(name) ?? []).filter((each) => handle && each !== handle));
  }
  /** @param {string} name @param {any[]} values */
  tell(name, ...values) {
    (this.heard.get(name) ?? []).forEach((each) => each(...values));
  }
  /** @param {any} message */
  send(message) {
    if (
      !this.place.dispatchEvent(
        new CustomEvent("lk-send", {
          detail: { message, model: this },
          bubbles: true,
          cancelable: true,
        }),
      )
    ) return;
    if (message?.do === "resync" || message?.hello) return;
    let note = this.place.querySelector(".lk-elsewhere");
    if (!note) {
      note = document.createElement("p");
      note.className = "lk-elsewhere";
      note.setAttribute("role", "status");
      this.place.append(note);
    }
    note.textContent = NEEDS_PYTHON;
  }
}

/**
 * @param {any} place the element of a view; its `model` is set
 * @param {any} [given] the view's traits, or a promise of them, if they are not those of its file
 */
export async function open(place, given) {
  const { module, style, state } = place.dataset;
  const link = document.createElement("link");
  Object.assign(link, { rel: "stylesheet", href: new URL(`views/${style}`, here) });
  if (!document.querySelector(`link[href="${link.href}"]`)) document.head.append(link);
  const [found, traits] = await Promise.all([
    import(String(new URL(`views/${module}`, here))),
    given ?? fetch(new URL(`views/${state}`, here)).then((response) => response.json()),
  ]);
  const model = new Model(traits, place);
  const box = document.createElement("div");
  const still = [...place.childNodes];
  place.append(box);
  const { signal } = new AbortController();
  await (found.default?.render ?? found.render)({ model, el: box, signal });
  still.forEach((node) => node.remove());
  place.model = model;
  place.dataset.plays = "true";
}

/** Sets the attribute with which JupyterLab announces its theme to views. */
function followTheme() {
  const { theme } = document.body.dataset;
  const dark = theme === "dark" ||
    (theme !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.body.dataset.jpThemeLight = String(!dark);
}

followTheme();
new MutationObserver(followTheme).observe(document.body, { attributeFilter: ["data-theme"] });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", followTheme);
const seen = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (isIntersecting) {
      seen.unobserve(target);
      open(target).catch((error) => console.error("cannot load this view:", error));
    }
  }
}, { rootMargin: "300px" });
// run.js opens a view itself, and imports this module, which the page may also load under a second URL.
document.querySelectorAll(".lk-place:not([data-plays])").forEach((place) => seen.observe(place));
