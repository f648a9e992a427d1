// Who labels, how far people agree, and the images that they see differently.

import { button, fill, h, note, table, toast } from "./dom.js";
import { thumbnail } from "./pictures.js";
import { percent } from "./words.js";

function pair({ first, other, shared, same, kappa }) {
  const beyond = kappa === null ? "" : `, Cohen's kappa ${kappa.toFixed(2)}`;
  return h("li", {}, `${first} and ${other}: the same label on ${same} of ${shared} images (${percent(same / shared)}${beyond})`);
}

/** An image with a doubtful label; `others` are classes that it may get instead. */
export function doubtful(page, tile, text, others, onChange, more = []) {
  const change = (name) => {
    page.outbox.add(page.action("change", { item: tile.id, name }), (answer) => answer && toast(`Changed to ${name}.`, 3));
    onChange();
  };
  const buttons = others.map(([name, words]) => button(words, () => change(name)));
  return h("div", { class: "slip" }, thumbnail(tile), text, h("div", { class: "buttons" }, buttons, more));
}

function disputed(page, tile) {
  const me = page.annotator || page.project.user;
  const mine = tile.answers.find((answer) => answer.annotator === me);
  const labels = mine ? [...new Set(tile.answers.map((answer) => answer.label))] : [];
  const others = labels.filter((label) => label !== mine.label).map((label) => [label, `Change mine to ${label}`]);
  const text = h("ul", { class: "answers" }, tile.answers.map((answer) => h("li", {}, `${answer.annotator}: `, h("b", {}, answer.label))));
  const row = doubtful(page, tile, text, others, () => row.remove());
  return row;
}

/** Fill a card with what is known of several people; one alone needs none. */
export function drawPeople(card, status, page) {
  card.hidden = status.people.length < 2;
  const all = status.kappa === null ? "" : ` Fleiss' kappa over all: ${status.kappa.toFixed(2)}; 1 is always, 0 as by chance.`;
  fill(
    card,
    h("h2", {}, "People"),
    table(["Name", "Labels", "Skipped", "Unsure"], status.people.map(({ name, labels, skipped, unsure }) => [name, labels, skipped, unsure])),
    status.pairs.length ? h("ul", { class: "pairs" }, status.pairs.map(pair)) : note("No image has labels of two people yet."),
    note(`${status.num_apart} images have different labels and all that were wanted.${all}`),
    h("div", { class: "slips" }, status.apart.map((tile) => disputed(page, tile))),
  );
}
