// The page that opens links to runs and to crash maps.  A link may come from a stranger: the page
// shows it only as text, and Python validates it before it runs.

import { open } from "./play.js";

const LINK = /^(?:run|crash)\.1\.([\w-]+)\.(-1|\d{1,9})$/;
const MAX_LENGTH = 24000, MAX_BYTES = 64 * 1024;
const here = new URL(".", import.meta.url);
const root = /** @type {HTMLElement} */ (document.querySelector("#lk-run"));

/** @typedef {Record<string, any> & { fragment: string, at: number, key: string }} Link */

/**
 * @param {string} tag @param {Record<string, string>} attributes @param {(Node | string)[]} children
 */
function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const status = make("p", { role: "status", class: "lk-elsewhere" });
const still = make("figure", { class: "lk-still" });
const place = make("div", {});
const notes = make("div", {});

/** @param {string} words */
function say(words) {
  /** @type {HTMLElement} */ (status).hidden = !words;
  status.textContent = words;
}

/** Read a link, or throw an `Error` that says what is wrong with it.  @param {string} fragment */
async function read(fragment) {
  const [, format] = fragment.match(/^(?:run|crash)\.(\d+)\./) ?? [];
  if (format && format !== "1") {
    throw new Error(`The link has format ${format}; this site opens format 1.`);
  }
  const [, packed, at] = fragment.length > MAX_LENGTH ? [] : fragment.match(LINK) ?? [];
  try {
    const text = await unpacked(packed ?? ""), { RunLink, CrashMapLink } = JSON.parse(text);
    const data = RunLink ?? CrashMapLink, [key] = text.split(/"(?:scenario|script)":/);
    return { ...data, fragment, at: Number(at), key };
  } catch {
    throw new Error("The link is incomplete or damaged: copy all of it.");
  }
}

/** @param {string} text zlib data in URL-safe base64 */
async function unpacked(text) {
  const packed = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = Uint8Array.from(packed, (each) => each.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let result = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    result += part.value;
    if (result.length > MAX_BYTES) throw new Error("it is too large");
  }
  return result;
}

/** Draw the cluster and its scenario until the view can be shown.  @param {Link} link */
function drawStill({ scenario, script, defect }) {
  if (script) return drawParts(script, defect);
  const { cluster, workload = [{ Write: {} }], faults = [], variant } = scenario.Scenario;
  const count = Math.min(Number(cluster?.Cluster?.bookies ?? 3), 50);
  const bookies = Array.from({ length: count }, (_, number) => make("div", {}, `b${number}`));
  const picture = { role: "img", "aria-label": `${count} bookies before the run` };
  drawParts([...workload, ...faults], variant, make("div", picture, ...bookies));
}

/**
 * List the steps of a scenario or of a script as text.
 * @param {Record<string, any>[]} parts @param {string} bug @param {(Node | string)[]} above
 */
function drawParts(parts, bug, ...above) {
  const lines = parts.slice(0, 20).map((part) =>
    Object.entries(part).map(([name, fields]) => `${name} ${JSON.stringify(fields)}`).join()
  );
  if (bug) lines.unshift(`A system with this bug: ${bug}`);
  still.replaceChildren(...above, make("pre", { tabindex: "0" }, lines.join("\n")));
}

/** @param {Link} link @param {any} traits @param {Record<string, string>} files */
async function show(link, traits, files) {
  const fresh = make("div", { class: "lk-place" });
  Object.assign(/** @type {HTMLElement} */ (fresh).dataset, files, { plays: "false" });
  const before = [...place.children];
  place.append(fresh);
  await open(fresh, traits);
  before.forEach((each) => each.remove());
  if (!root.dataset.digest) root.scrollIntoView();
  root.dataset.digest = link.digest;
  still.replaceChildren();
}

/** @param {Link} link @param {Record<string, string>} files */
async function showPrepared(link, files) {
  const traits = await (await fetch(new URL(`views/${files.state}`, here))).json();
  const { film } = traits;
  const beat = film.beats.findLast((/** @type {number[]} */ [, , , seq]) => seq <= link.at);
  const opening = beat === film.beats.at(-1) ? film.opening : beat?.[0] ?? 0;
  await show(link, { ...traits, film: { ...film, opening, stays: true } }, files);
  if (link.view === "Game" || link.view === "Play") return showRun(link);
  say("");
  if (link.script) return; // A crash map has no buttons that need Python.
  const button = make("button", { type: "button", class: "lk-change" }, "Change this run");
  button.addEventListener("click", () => {
    button.remove();
    showRun(link);
  });
  notes.prepend(button);
}

/** Run the link's scenario in a worker, which then answers the view.  @param {Link} link */
async function showRun(link) {
  say("Python is starting in this tab, to repeat the run. The first time takes longest.");
  const worker = new Worker(new URL("run-worker.js", import.meta.url), { type: "module" });
  /** @type {Promise<any>} the last response; the worker handles one message at a time */
  let last = Promise.resolve();
  /** @param {object} message @returns {Promise<any>} */
  const ask = (message) =>
    last = last.then(() =>
      new Promise((resolve) => {
        worker.onmessage = ({ data }) => resolve(data);
        worker.onerror = (event) => resolve({ error: event.message || "Python did not start" });
        worker.postMessage(message);
      })
    );
  let isReady = false, start = () => {};
  const started = /** @type {Promise<void>} */ (new Promise((resolve) => start = resolve));
  place.addEventListener("lk-send", async (event) => {
    const { message, model } = /** @type {CustomEvent} */ (event).detail;
    event.preventDefault();
    if (message?.hello || message?.do === "resync") return;
    if (!isReady) say("Python is still starting. Your click takes effect as soon as it is ready.");
    await started;
    const changed = await ask({ message });
    // The picture that was shown while Python was starting has been replaced.
    const now = /** @type {any} */ (place.firstElementChild)?.model ?? model;
    if (changed.error) return now.set("notice", changed.error);
    for (const [name, value] of Object.entries(changed)) now.set(name, value);
    if (["next", "level"].includes(message.set)) root.scrollIntoView();
    if (changed.film?.solved) {
      storage()?.setItem(`labkit.solved.${changed.film.solved}`, "yes");
      tick();
    }
  });
  const traits = await ask({ link: link.fragment });
  if (traits.error) {
    return say(`${traits.error}. At home, try: labkit open ${link.fragment}`);
  }
  const { module, style } = root.dataset;
  await show(link, traits, { module: module ?? "", style: style ?? "" });
  say("");
  isReady = true;
  start();
}

/** The browser's storage, or null if the visitor has disabled it. */
function storage() {
  let found = null;
  try {
    found = localStorage;
  } catch { /* Reading the property throws. */ }
  return found;
}

/** Tick the solved levels of the game, which are kept in this browser. */
function tick() {
  for (
    const level of /** @type {NodeListOf<HTMLElement>} */ (
      document.querySelectorAll("[data-level]")
    )
  ) {
    const isSolved = storage()?.getItem(`labkit.solved.${level.dataset.level}`);
    level.textContent = isSolved ? "✔ solved: " : "";
  }
}

async function main() {
  root.replaceChildren(status, still, place, notes);
  tick();
  say("The run is being opened.");
  const index = fetch(new URL(`views/${root.dataset.index}`, here)).then((got) => got.json());
  if (!location.hash) {
    const words = "This page opens links to runs. To make one, press “Copy link” under a picture.";
    return say(root.dataset.empty ?? words);
  }
  const link = await read(location.hash.slice(1));
  if (typeof link.code === "string" && link.code) {
    notes.append(make(
      "details",
      {},
      make("summary", {}, "The learner's code that this run used, as text"),
      make("pre", { tabindex: "0" }, link.code),
    ));
  }
  const files = (await index)[link.key];
  if (files) return showPrepared(link, files);
  try {
    drawStill(link);
  } catch { /* Python says what is wrong with the scenario. */ }
  await showRun(link);
}

addEventListener("hashchange", () => location.reload());
main().catch((error) => say(error.message));
