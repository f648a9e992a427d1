// Who labels, how far people agree, and the images that they see differently.

import { fill, h, toast } from "./dom.js";
import { thumbnail } from "./pictures.js";

const percent = (part, whole) => `${Math.round((100 * part) / whole)} %`;

function table(people) {
  const head = ["Name", "Labels", "Skipped", "Unsure"].map((text) => h("th", { scope: "col" }, text));
  const rows = people.map((person) => h("tr", {}, h("td", {}, person.name), h("td", {}, String(person.labels)), h("td", {}, String(person.skipped)), h("td", {}, String(person.unsure))));
  return h("table", { class: "balance" }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows));
}

function pair({ first, other, shared, same, kappa }) {
  const beyond = kappa === null ? "" : `, Cohen's kappa ${kappa.toFixed(2)}`;
  return h("li", {}, `${first} and ${other}: the same label on ${same} of ${shared} images (${percent(same, shared)}${beyond})`);
}

function apart(tile, page) {
  const me = page.annotator || page.project.user;
  const mine = tile.answers.find((answer) => answer.annotator === me);
  const others = mine ? [...new Set(tile.answers.map((answer) => answer.label))].filter((label) => label !== mine.label) : [];
  const row = h("div", { class: "slip" });
  const change = (name) => {
    page.outbox.add(page.action("change", { item: tile.id, name }), (answer) => answer && toast(`Your label is ${name} now.`, 3));
    row.remove();
  };
  row.append(
    thumbnail(tile),
    h("ul", { class: "answers" }, tile.answers.map((answer) => h("li", {}, `${answer.annotator}: `, h("b", {}, answer.label)))),
    h("div", { class: "buttons" }, others.map((name) => h("button", { type: "button", class: "button", onclick: () => change(name) }, `Change mine to ${name}`))),
  );
  return row;
}

/** Fill a card with what is known of several people; one alone needs none. */
export function drawPeople(card, status, page) {
  card.hidden = status.people.length < 2;
  const all = status.kappa === null ? "" : ` Fleiss' kappa over all: ${status.kappa.toFixed(2)}; 1 is always, 0 as by chance.`;
  const shared = status.pairs.length ? h("ul", { class: "pairs" }, status.pairs.map(pair)) : h("p", { class: "quiet wrap" }, "No image has labels of two people yet.");
  fill(
    card,
    h("h2", {}, "People"),
    table(status.people),
    shared,
    h("p", { class: "quiet wrap" }, `${status.num_apart} images have different labels and all that were wanted.${all}`),
    h("div", { class: "slips" }, status.apart.map((tile) => apart(tile, page))),
  );
}
