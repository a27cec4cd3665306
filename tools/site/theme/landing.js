// The run on the landing page: killing a bookie switches to the fork that was prepared for it.

const OVER = "This run is nearly over. Replay it and kill a bookie earlier.";
const ONE = "Only one fault at a time here. In the tab you can add as many as you like.";

/** @typedef {import("./play.js").Model} Model */

/** @param {Model} model @param {{ on: string, seq: number }} message */
async function kill(model, { on, seq }) {
  if (model.base) return model.set("notice", ONE);
  const found = model.get("forks")[on].find((/** @type {[number, string]} */ [moment]) =>
    moment >= seq
  );
  if (!found) return model.set("notice", OVER);
  const film = await (await fetch(new URL(`views/${found[1]}`, import.meta.url))).json();
  const base = model.get("film");
  const [left] = base.beats.find((/** @type {number[]} */ beat) => beat[3] >= found[0]);
  model.base = { ...base, moment: left };
  model.set("notice", "");
  model.set("film", film);
}

/** @param {Model} model */
function undo(model) {
  const { base } = model;
  delete model.base;
  model.set("notice", "");
  model.set("film", base);
}

document.addEventListener("lk-send", (event) => {
  const { message, model } = /** @type {CustomEvent} */ (event).detail;
  if (!model.get("forks")) return;
  if (message.do === "kill") {
    event.preventDefault();
    kill(model, message).catch(() =>
      model.set("notice", "The fork could not be loaded. Try again.")
    );
  } else if (message.do === "undo") {
    event.preventDefault();
    undo(model);
  }
});
