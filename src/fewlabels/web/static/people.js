// Who labels, how far people agree, and the images that they see differently.

import { fill, h, toast } from "./dom.js";
import { thumbnail } from "./pictures.js";

const percent = (part, whole) => `${Math.round((100 * part) / whole)} %`;

function table(people) {
  const head = ["Name", "Labels", "Skipped", "Unsure"].map((text) => h("th", { scope: "col" }, text));
  const rows = people.map((one) => h("tr", {}, h("td", {}, one.name), h("td", {}, String(one.labels)), h("td", {}, String(one.skipped)), h("td", {}, String(one.unsure))));
  return h("table", { class: "balance" }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows));
}

function pair({ one, other, shared, same, kappa }) {
  const beyond = kappa === null ? "" : `, Cohen's kappa ${kappa.toFixed(2)}`;
  return h("li", {}, `${one} and ${other}: the same label on ${same} of ${shared} images (${percent(same, shared)}${beyond})`);
}

function apart(tile, desk) {
  const me = desk.annotator || desk.project.user;
  const mine = tile.answers.find((one) => one.annotator === me);
  const others = mine ? [...new Set(tile.answers.map((one) => one.label))].filter((label) => label !== mine.label) : [];
  const row = h("div", { class: "slip" });
  const change = (name) => {
    desk.outbox.add(desk.action("change", { item: tile.id, name }), (answer) => answer && toast(`Your label is ${name} now.`, 3));
    row.remove();
  };
  row.append(
    thumbnail(tile),
    h("ul", { class: "answers" }, tile.answers.map((one) => h("li", {}, `${one.annotator}: `, h("b", {}, one.label)))),
    h("div", { class: "buttons" }, others.map((name) => h("button", { type: "button", class: "button", onclick: () => change(name) }, `Change mine to ${name}`))),
  );
  return row;
}

/** Fill a card with what is known of several people; one alone needs none. */
export function drawPeople(card, found, desk) {
  card.hidden = found.people.length < 2;
  const all = found.kappa === null ? "" : ` Fleiss' kappa over all: ${found.kappa.toFixed(2)}; 1 is always, 0 as by chance.`;
  const shared = found.pairs.length ? h("ul", { class: "pairs" }, found.pairs.map(pair)) : h("p", { class: "quiet wrap" }, "No image has labels of two people yet.");
  fill(
    card,
    h("h2", {}, "People"),
    table(found.people),
    shared,
    h("p", { class: "quiet wrap" }, `${found.num_apart} images have different labels and all that were wanted.${all}`),
    h("div", { class: "slips" }, found.apart.map((tile) => apart(tile, desk))),
  );
}
