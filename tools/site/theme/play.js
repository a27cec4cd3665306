// Gives each view of a page its module, its style sheet and its state, once it comes into sight.
// What a view sends would go to its Python; here there is none, so the page says where it runs.

const SAY = "This needs labkit's Python. Open the page in the tab to use it.";
const here = new URL(".", import.meta.url);

/** @typedef {(...values: any[]) => void} Handle */

/** The model that a view's module expects of its widget. */
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
    let words = this.place.querySelector(".lk-elsewhere");
    if (!words) {
      words = document.createElement("p");
      words.className = "lk-elsewhere";
      words.setAttribute("role", "status");
      this.place.append(words);
    }
    words.textContent = SAY;
  }
}

/** @param {any} place an element, which gets its `model` */
export async function open(place) {
  const { module, style, state } = place.dataset;
  const link = document.createElement("link");
  Object.assign(link, { rel: "stylesheet", href: new URL(`views/${style}`, here) });
  if (!document.querySelector(`link[href="${link.href}"]`)) document.head.append(link);
  const [found, traits] = await Promise.all([
    import(String(new URL(`views/${module}`, here))),
    fetch(new URL(`views/${state}`, here)).then((answer) => answer.json()),
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

/** JupyterLab tells views its theme by this attribute; a page does the same. */
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
      open(target).catch((error) => console.error("this view stays a picture:", error));
    }
  }
}, { rootMargin: "300px" });
document.querySelectorAll(".lk-place").forEach((place) => seen.observe(place));
