// The color of each class.

import { h } from "./dom.js";

const PALETTE = ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#ee8866", "#44bb99", "#99517a", "#8c6d31", "#77aadd", "#bbcc33"];

/** The color that somebody chose for a class, or the one of its number. */
export const colorOf = (entry) => entry.color || PALETTE[entry.number % PALETTE.length];

/** A dot in the color of a class. */
export function dot(entry) {
  const element = h("span", { class: "dot", "aria-hidden": "true" });
  if (entry) element.style.background = colorOf(entry);
  return element;
}
