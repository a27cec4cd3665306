// The landing page's run: a bookie that is killed there opens the fork that was run for it.

const OVER = "This run is nearly over. Play it again and kill a bookie earlier.";
const ONE = "One fault at a time here. In the tab you can go on, and everywhere you like.";
const BACK = { name: "back", kind: "button", label: "Back to the run without this fault" };

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
  model.set("controls", [BACK]);
  model.set("film", film);
}

/** @param {Model} model */
function back(model) {
  const { base } = model;
  delete model.base;
  model.set("notice", "");
  model.set("controls", []);
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
  } else if (message.set === "back") {
    event.preventDefault();
    back(model);
  }
});
