// The fault palette: what can go wrong at the chosen event.  Only its fork asks the kernel.

const FIELDS = {
  node: { label: "node", words: "", of: "nodes" },
  target: { label: "other node", words: "and", of: "nodes" },
  disk: { label: "what was not synced", words: "unsynced data",
    of: [["lost", "lost"], ["kept", "kept"], ["torn", "torn"]] },
  direction: { label: "direction", words: "",
    of: [["both", "both ways"], ["out", "that way only"], ["in", "the other way only"]] },
  extra_ms: { label: "milliseconds more", words: "ms more", value: 20 },
  for_ms: { label: "for so many milliseconds, 0 for good", words: "ms (0: for good)", value: 0 },
};
const PATIENCE_MS = 4000;

class FaultPalette {
  /** `fork(fault)` asks for another future; `keep()` goes on from it. */
  constructor(palette, fork, keep, signal) {
    Object.assign(this, { palette, fork });
    this.fields = {};
    this.fault = make("select", { "aria-label": "Fault" },
      ...palette.faults.map(([name, label]) => make("option", { value: name }, label)));
    this.fault.value = "crash";
    this.slots = make("span", { class: "lk-tl-fields" });
    this.button = make("button", { class: "lk-tl-fork" }, "Fork");
    this.keep = make("button", { title: "the other future becomes the run, and more faults may follow" },
      "Go on from the other future");
    this.where = make("p", { class: "lk-hint" });
    this.notice = make("p", { class: "lk-notice", role: "alert" });
    this.element = make("div", { class: "lk-tl-palette", role: "group", "aria-label": "Fault palette" },
      make("h4", {}, "What if, just after this event,"), this.where,
      make("div", { class: "lk-tl-form" }, this.fault, this.slots, this.button), this.notice, this.keep);
    this.fault.addEventListener("change", () => this.arrange(), { signal });
    this.button.addEventListener("click", () => this.ask(), { signal });
    this.keep.addEventListener("click", keep, { signal });
    signal.addEventListener("abort", () => clearTimeout(this.timer));
    this.arrange();
  }

  arrange() {
    const [, , names] = this.palette.faults.find(([name]) => name === this.fault.value);
    this.slots.replaceChildren(...names.filter((name) => name in FIELDS).flatMap((name) => {
      const { label, words, of, value } = FIELDS[name];
      const options = of === "nodes" ? this.palette.nodes.map((node) => [node, node]) : of;
      const field = this.fields[name] ??= options
        ? make("select", { "aria-label": label }, ...options.map(([key, text]) => make("option", { value: key }, text)))
        : make("input", { type: "number", min: 0, step: "any", value, "aria-label": label });
      const text = words && make("span", {}, words);
      return !text ? [field] : options ? [text, field] : [field, text];
    }));
  }

  ask() {
    const [, , names] = this.palette.faults.find(([name]) => name === this.fault.value);
    const fault = { name: this.fault.value };
    for (const name of names) if (name in this.fields) {
      const { value, type } = this.fields[name];
      fault[name] = type === "number" ? Number(value) : value;
    }
    this.waiting = true;
    this.button.setAttribute("aria-disabled", "true");
    this.say("The real code runs again …");
    this.timer = setTimeout(() => this.say("No answer yet. A fork needs the notebook's kernel, idle;"
      + " everything else here works without it."), PATIENCE_MS);
    this.fork(fault);
  }

  /** The kernel has answered. */
  answered(notice = "") {
    clearTimeout(this.timer);
    this.waiting = false;
    this.say(notice);
  }

  say(text) { say(this.notice, text); }

  /** `event` is the chosen one, `message` the name of its message, "" for none. */
  draw(event, message, isWithinReach, hasOther) {
    for (const option of this.fault.options)
      if (option.value === "lose" || option.value === "delay") option.disabled = !message;
    if (this.fault.selectedOptions[0]?.disabled) {
      this.fault.value = "crash";
      this.arrange();
    }
    const off = this.waiting || !isWithinReach;
    this.button.setAttribute("aria-disabled", String(off));
    this.keep.hidden = !hasOther;
    say(this.where, !event ? "Choose an event."
      : !isWithinReach ? "Faults strike from when the cluster is up to when the epilogue begins."
      : message ? `its message is ${message.replace(">", " → ")}` : "it has no message of its own");
    if (event && event.node !== this.chosen && this.fields.node && this.palette.nodes.includes(event.node)) {
      this.fields.node.value = event.node;
      if (this.fields.target && this.palette.nodes.includes(event.peer)) this.fields.target.value = event.peer;
      this.chosen = event.node;
    }
  }
}
