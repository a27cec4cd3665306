// What a view lets choose, as Python describes it: each change is a message.

import { make } from "./page.js";

/**
 * @typedef {{ name: string, label: string, kind: string, value: string | number,
 *   options: [string, string][], min: number, max: number, step: number }} Control
 */
/** @typedef {HTMLInputElement | HTMLSelectElement | HTMLButtonElement} Field */

export class Controls {
  shape = "";
  /** @type {Map<string, Field>} */
  fields = new Map();

  /** @param {(message: { set: string, value: string | number | boolean }) => void} send */
  constructor(send) {
    this.send = send;
    this.element = make("div", { class: "lk-controls" });
  }

  /** @param {Control[]} controls */
  draw(controls) {
    const shape = JSON.stringify(controls.map(({ value, ...rest }) => rest));
    if (shape !== this.shape) this.build(controls, shape);
    for (const { name, value } of controls) {
      const field = this.fields.get(name);
      if (field && document.activeElement !== field && field.value !== String(value)) {
        field.value = String(value);
      }
    }
  }

  /** @param {Control[]} controls @param {string} shape */
  build(controls, shape) {
    this.shape = shape;
    const focused = [...this.fields].find(([, field]) => field === document.activeElement)?.[0];
    this.fields = new Map(controls.map((each) => [each.name, this.field(each)]));
    this.element.hidden = controls.length === 0;
    this.element.replaceChildren(...controls.map(({ name, label, kind }) => {
      const field = /** @type {Field} */ (this.fields.get(name));
      return kind === "button" ? field : make("label", {}, make("span", {}, label), field);
    }));
    if (focused !== undefined) this.fields.get(focused)?.focus({ preventScroll: true });
  }

  /** @param {Control} control @returns {Field} */
  field({ name, label, kind, value, options, min, max, step }) {
    const change = (/** @type {any} */ event) =>
      this.send({
        set: name,
        value: kind === "number" ? Number(event.target.value) : event.target.value,
      });
    if (kind === "button") {
      return make("button", { onclick: () => this.send({ set: name, value: true }) }, label);
    }
    if (kind === "number") {
      return make("input", {
        "aria-label": label,
        type: "number",
        min,
        max,
        step,
        value,
        oninput: (/** @type {any} */ event) =>
          event.target.validity.valid && event.target.value !== "" && change(event),
      });
    }
    const field = make(
      "select",
      { "aria-label": label, onchange: change },
      ...options.map(([key, words]) => make("option", { value: key }, words)),
    );
    field.value = String(value);
    field.disabled = options.length < 2;
    return field;
  }
}
