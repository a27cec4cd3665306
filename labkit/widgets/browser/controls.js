// What a view lets choose, as Python describes it: each change is a message.

import { make } from "./page.js";

export class Controls {
  constructor(send) {
    this.send = send;
    this.element = make("div", { class: "lk-controls" });
    this.fields = new Map();
  }

  draw(controls) {
    const shape = JSON.stringify(controls.map(({ value, ...rest }) => rest));
    if (shape !== this.shape) this.build(controls, shape);
    for (const { name, value } of controls) {
      const field = this.fields.get(name);
      if (field && document.activeElement !== field && field.value !== String(value)) {
        field.value = value;
      }
    }
  }

  build(controls, shape) {
    this.shape = shape;
    const focused = [...this.fields].find(([, field]) => field === document.activeElement)?.[0];
    this.fields = new Map(controls.map((each) => [each.name, this.field(each)]));
    this.element.hidden = controls.length === 0;
    this.element.replaceChildren(...controls.map(({ name, label, kind }) => {
      const field = this.fields.get(name);
      return kind === "button" ? field : make("label", {}, make("span", {}, label), field);
    }));
    this.fields.get(focused)?.focus({ preventScroll: true });
  }

  field({ name, label, kind, value, options, min, max, step }) {
    const change = (event) =>
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
        oninput: (event) =>
          event.target.validity.valid && event.target.value !== "" && change(event),
      });
    }
    const field = make(
      "select",
      { "aria-label": label, onchange: change },
      ...options.map(([key, words]) => make("option", { value: key }, words)),
    );
    field.value = value;
    field.disabled = options.length < 2;
    return field;
  }
}
