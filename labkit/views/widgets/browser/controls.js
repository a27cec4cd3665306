// The controls of a view, as described by Python.  Each change sends a message.

import { arrange, make } from "./page.js";

/**
 * @typedef {{ name: string, label: string, kind: string, value: string | number,
 *   options: [string, string][], min: number, max?: number, step: number | "any",
 *   disabled?: boolean }} Control
 */
/** @typedef {HTMLInputElement | HTMLSelectElement | HTMLButtonElement} Field */
/**
 * @typedef {{ shape: string, field: Field, element: HTMLElement, value: string | number }} Drawn
 *   a control on the page, and its value in Python
 */

export class Controls {
  /** @type {Map<string, Drawn>} by the control's name */
  drawn = new Map();
  typing = ""; // the field in which a number is being typed

  /**
   * @param {(message: { set: string, value: string | number | boolean }) => void} send
   * @param {(words: string) => void} refuse shows why a value was rejected
   */
  constructor(send, refuse) {
    this.send = send;
    this.refuse = refuse;
    this.element = make("div", { class: "lk-controls" });
  }

  /** @param {Control[]} controls */
  draw(controls) {
    this.element.hidden = controls.length === 0;
    const focused = [...this.drawn].find(([, { field }]) => field === document.activeElement)?.[0];
    this.drawn = new Map(controls.map((each) => [each.name, this.made(each)]));
    arrange(this.element, [...this.drawn.values()].map(({ element }) => element));
    const field = this.drawn.get(focused ?? "")?.field;
    if (field && field !== document.activeElement) field.focus({ preventScroll: true });
    for (const { name, value } of controls) {
      const drawn = /** @type {Drawn} */ (this.drawn.get(name)), { field } = drawn;
      // Keep a choice made a moment ago until Python has processed it.
      const isOld = field === document.activeElement && drawn.value === value;
      drawn.value = value;
      if (!isOld && this.typing !== name && field.value !== String(value)) {
        field.value = String(value);
      }
    }
  }

  /**
   * Return the control.  A control that differs only in its value is reused, including any typed
   * text.
   * @param {Control} control
   * @returns {Drawn}
   */
  made(control) {
    const { value: _, ...rest } = control, shape = JSON.stringify(rest);
    const known = this.drawn.get(control.name);
    if (known?.shape === shape) return known;
    const field = this.field(control);
    const element = control.kind === "button"
      ? field
      : make("label", {}, make("span", {}, control.label), field);
    return { shape, field, element, value: control.value };
  }

  /** @param {Control} control @returns {Field} */
  field(control) {
    const { name, label, kind, value, options, disabled = false } = control;
    if (kind === "button") {
      const onclick = () => this.send({ set: name, value: true });
      return make("button", { onclick, disabled }, label);
    }
    if (kind === "number") return this.number(control);
    const field = make(
      "select",
      {
        "aria-label": label,
        "data-name": name,
        onchange: () => this.send({ set: name, value: field.value }),
      },
      ...options.map(([key, words]) => make("option", { value: key }, words)),
    );
    field.value = String(value);
    field.disabled = options.length < 2;
    return field;
  }

  /**
   * A number is sent when it is complete, not digit by digit.  An invalid number is not sent, and
   * the field reverts to Python's value.
   * @param {Control} control
   */
  number({ name, label, value, min, max, step }) {
    const limits = max === undefined ? { min, step } : { min, max, step };
    const field = make("input", {
      ...{ "aria-label": label, type: "number", value, required: true },
      ...limits,
      oninput: () => this.typing = name,
      onblur: () => this.typing = "",
      onchange: () => {
        this.typing = "";
        if (field.validity.valid) return this.send({ set: name, value: Number(field.value) });
        field.value = String(this.drawn.get(name)?.value);
        const kind = step === 1 ? "a whole number" : "a number";
        const range = max === undefined ? `${min} or more` : `${min} to ${max}`;
        this.refuse(`“${label}” must be ${kind}: ${range}.`);
      },
    });
    return field;
  }
}
