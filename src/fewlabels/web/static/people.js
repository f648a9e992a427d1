// Who labels, how far people agree, and the images that they see differently.

import { button, fill, h, note, table, toast } from "./dom.js";
import { thumbnail } from "./pictures.js";
import { percent, plural } from "./words.js";

function pair({ first, other, shared, same, kappa }) {
  const share = same / shared;
  const chance = kappa === null || kappa === 1 ? "" : `; chance alone would give about ${percent((share - kappa) / (1 - kappa))}`;
  return h("li", {}, `${first} and ${other} gave the same label to ${same} of ${plural(shared, "image")}: ${percent(share)}${chance}.`);
}

/** An image with a doubtful label; `others` are classes that it may get instead. */
export function doubtful(page, tile, text, others, onChange, more = [], verb = "change") {
  const change = (name) => {
    page.outbox.add(page.action(verb, { item: tile.id, name }), (answer) => answer && toast(`Labeled ${name}.`, 3));
    onChange();
  };
  const buttons = others.map(([name, words]) => button(words, () => change(name)));
  return h("div", { class: "slip" }, thumbnail(tile), text, h("div", { class: "buttons" }, buttons, more));
}

function disputed(page, tile) {
  const me = page.annotator || page.project.user;
  const mine = tile.answers.find((answer) => answer.annotator === me);
  const labels = [...new Set(tile.answers.map((answer) => answer.label))];
  const others = labels.filter((label) => label !== mine?.label).map((label) => [label, mine ? `Change mine to ${label}` : `It is ${label}`]);
  const text = h("ul", { class: "answers" }, tile.answers.map((answer) => h("li", {}, `${answer.annotator}: `, h("b", {}, answer.label))));
  const row = doubtful(page, tile, text, others, () => row.remove(), [], mine ? "change" : "settle");
  return row;
}

/** Fill a card with what is known of several people; one alone needs none. */
export function drawPeople(card, status, page) {
  card.hidden = status.people.length < 2;
  const pace = (seconds) => (seconds === null ? "" : `${seconds.toFixed(1)} s`);
  fill(
    card,
    h("h2", {}, "People"),
    note("Only what was asked one by one counts here. The time of a label is that of the median: half of them took longer."),
    h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "People" }, table(["Name", "Labels", "Skipped", "Unsure", "Time of a label"], status.people.map(({ name, labels, skipped, unsure, seconds }) => [name, labels, skipped, unsure, pace(seconds)]))),
    status.pairs.length ? h("ul", { class: "pairs" }, status.pairs.map(pair)) : note("No image has labels of two people yet."),
    h("h3", {}, "Disagreements to settle"),
    note(`${plural(status.num_apart, "image")} ${status.num_apart === 1 ? "has" : "have"} all labels that were wanted, and no class has more than half of them. Such an image trains and checks nothing until somebody settles it.`),
    h("div", { class: "slips" }, status.apart.map((tile) => disputed(page, tile))),
  );
}
