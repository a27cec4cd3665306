// Gives each view of a page its module, its style sheet and its state, once it comes into sight.
// What a view sends would go to its Python; here there is none, so the page says where it runs.

const SAY = "This needs labkit's Python. Open the page in the tab to use it.";
const here = new URL(".", import.meta.url);

/** The model that a view's module expects of its widget. */
class Model {
  heard = new Map();

  constructor(state, place) {
    this.state = state;
    this.place = place;
  }
  get(name) {
    return this.state[name];
  }
  set(name, value) {
    this.state[name] = value;
    this.tell(`change:${name}`);
    this.tell("change");
  }
  save_changes() {}
  on(name, handle) {
    this.heard.set(name, [...(this.heard.get(name) ?? []), handle]);
  }
  off(name, handle) {
    this.heard.set(name, (this.heard.get(name) ?? []).filter((each) => handle && each !== handle));
  }
  tell(name, ...values) {
    (this.heard.get(name) ?? []).forEach((each) => each(...values));
  }
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
