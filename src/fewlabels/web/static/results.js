// Have I labeled enough? Accuracy with its interval, the curve, balance, likely slips.

import { get, post } from "./api.js";
import { again, button, byId, fill, h, kbd, note, table, toast, wait } from "./dom.js";
import { doubtful, drawPeople } from "./people.js";
import { thumbnail } from "./pictures.js";
import { percent, plural } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";

function s(tag, props, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(props)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** The accuracy of each model, with its interval, over the labels it learned from. */
function curve(rounds) {
  const points = rounds.map(({ num_labeled: labels, audited }) => ({ labels, accuracy: audited.num_right / audited.num_audited, ...audited }));
  const [width, height, left, bottom] = [520, 240, 58, 30];
  const most = Math.max(...points.map((point) => point.labels), 1);
  const x = (labels) => left + ((width - left - 14) * labels) / most;
  const y = (share) => 10 + (height - bottom - 10) * (1 - share);
  const parts = [0, 0.25, 0.5, 0.75, 1].flatMap((share) => [
    s("line", { x1: left, x2: width - 14, y1: y(share), y2: y(share), class: "rule" }),
    s("text", { x: left - 8, y: y(share) + 4, "text-anchor": "end" }, `${100 * share} %`),
  ]);
  const up = points.map((point) => `${x(point.labels)},${y(point.high)}`);
  const down = points.map((point) => `${x(point.labels)},${y(point.low)}`).reverse();
  parts.push(s("polygon", { points: [...up, ...down].join(" "), class: "band" }));
  parts.push(s("polyline", { points: points.map((point) => `${x(point.labels)},${y(point.accuracy)}`).join(" "), class: "curve" }));
  for (const point of points) {
    parts.push(s("line", { x1: x(point.labels), x2: x(point.labels), y1: y(point.low), y2: y(point.high), class: "range" }));
    parts.push(s("circle", { cx: x(point.labels), cy: y(point.accuracy), r: 4, class: "dot" }));
  }
  parts.push(s("text", { x: left, y: height - 8 }, "0"));
  parts.push(s("text", { x: width - 14, y: height - 8, "text-anchor": "end" }, `${most} labels to learn from`));
  const last = points.at(-1);
  const text = `Accuracy of ${points.length} models; the last ${Math.round(100 * last.accuracy)} percent, between ${Math.round(100 * last.low)} and ${Math.round(100 * last.high)}`;
  return s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": text, class: "chart" }, ...parts);
}

const card = (title, ...content) => h("div", { class: "card" }, h("h2", {}, title), ...content);
const wideCard = (title, ...content) => h("div", { class: "card wide" }, h("h2", {}, title), ...content);
const link = (text, onclick, props = {}) => button(text, onclick, { class: "link", ...props });
const scrolling = (title, content) => h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": title }, content);

/** A share with its interval: a bar for where it may be, a mark for what was seen. */
function range({ num_right: right, num_audited: of, low, high }, what) {
  if (!of) return h("span", { class: "quiet" }, "not seen yet");
  const text = `${percent(right / of)}, between ${percent(low)} and ${percent(high)}: ${right} of ${of} images ${what}`;
  const [width, height] = [120, 12];
  const bar = s(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, class: "span", role: "img", "aria-label": text },
    s("rect", { x: 0, y: 5, width, height: 2, class: "rail" }),
    s("rect", { x: width * low, y: 2, width: width * (high - low), height: 8, rx: 4, class: "span-band" }),
    s("circle", { cx: 4 + (width - 8) * (right / of), cy: 6, r: 4, class: "dot" }),
  );
  return h("span", { class: "range-cell", title: text }, bar, h("span", { class: "share" }, percent(right / of)), h("span", { class: "quiet" }, `${percent(low).replace(" %", "")}–${percent(high)}`));
}

function balance(status, more) {
  const rows = status.classes.filter((entry) => entry.is_active).map((entry) => [
    h("th", { scope: "row", role: "rowheader" }, entry.name),
    [String(entry.labels), entry.measuring ? h("span", { class: "quiet" }, ` (${plural(entry.measuring, "check")})`) : ""],
    range(entry.recall, `labeled ${entry.name} are recognized`),
    range(entry.precision, `predicted as ${entry.name} are right`),
    entry.predicted ?? "",
    link("find more", () => more(entry.name), { "aria-label": `Find more of ${entry.name}` }),
  ]);
  return scrolling("Classes", table(["Class", "Labels", "Recognized", "Right when predicted", "Predicted", ""], rows));
}

const MOST_IN_MATRIX = 15; // classes; of more, the confusions are listed

/** What is confused with what; a click shows such images in Review. */
function confusion(status, show) {
  const names = status.classes.map((entry) => entry.name);
  const counts = new Map(status.confusion.map((cell) => [JSON.stringify([cell.label, cell.predicted]), cell.count]));
  const most = Math.max(1, ...counts.values());
  const words = (count, label, predicted) => `${count} labeled ${label}, predicted as ${predicted}`;
  const cell = (label, predicted) => {
    const count = counts.get(JSON.stringify([label, predicted])) ?? 0;
    const text = words(count, label, predicted);
    const content = count ? button(String(count), () => show(label, predicted), { class: "", title: text, "aria-label": `${text}; show such images` }) : null;
    const box = h("td", { class: label === predicted ? "right" : count ? "wrong" : "" }, content);
    box.style.setProperty("--share", `${Math.round((70 * count) / most)}%`);
    return box;
  };
  if (names.length > MOST_IN_MATRIX) {
    const wrong = status.confusion.filter((entry) => entry.label !== entry.predicted).sort((a, b) => b.count - a.count);
    return h("ul", {}, wrong.slice(0, 20).map(({ count, label, predicted }) => h("li", {}, link(words(count, label, predicted), () => show(label, predicted)))));
  }
  const head = h("tr", {}, h("td", {}), names.map((name) => h("th", { scope: "col" }, h("span", {}, name))));
  const rows = names.map((label) => h("tr", {}, h("th", { scope: "row" }, label), names.map((predicted) => cell(label, predicted))));
  return scrolling("Confusion matrix", h("table", { class: "matrix" }, h("thead", {}, head), h("tbody", {}, rows)));
}

/** How often confirmed labels are wrong, by those that were labeled once more. */
function slips({ num_right: same, num_audited: repeats, low, high }) {
  if (!repeats) return null;
  return note(`${repeats} confirmed images came back in Label, without a prediction: ${repeats - same} got another class. So probably between ${percent(1 - high)} and ${percent(1 - low)} of the confirmed labels are slips: in 95 of 100 projects the true share is in such a range.`);
}

/** What the latest model, which an export writes, learned from. */
function learned({ model, num_unused: unused, num_measuring: measuring }, state) {
  if (!model) return note("There is no model yet. It needs labels of at least two classes.");
  const parts = Object.entries(model.classes).map(([name, count]) => `${name} ${count}`);
  const sources = [["asked one by one", state?.spent], ["confirmed in Review", state?.confirmed], ["imported", state?.imported]].filter(([, count]) => count).map(([what, count]) => `${count} ${what}`);
  return h(
    "div",
    {},
    h("p", { class: "wrap" }, `${model.name} (${model.trainer}) learned from ${model.num_labels} labels: ${parts.join(", ")}.`),
    note(`Labels of this project: ${sources.join(", ")}. ${measuring} of them were drawn at random to check the model, which never learns from them. ${unused ? `${unused} labels are not in the model yet; an export trains on them first where that takes seconds.` : "The model has learned from all others."}`),
  );
}

export class ResultsView {
  constructor(page) {
    this.page = page;
    this.box = byId("view-results");
    this.kept = new Set(); // labels that were looked at again, and are right
  }

  async enter() {
    const turn = (this.turn = (this.turn ?? 0) + 1);
    const first = h("p", { class: "quiet" });
    if (!this.slips) fill(this.box, first);
    try {
      const status = await wait(first, "Reading the results …", get("/api/results"));
      if (turn === this.turn) this.draw(status);
    } catch (error) {
      if (turn === this.turn) fill(this.box, h("p", { class: "quiet" }, `${error.message} `, again(() => this.enter())));
    }
    if (turn !== this.turn || !this.slips) return;
    const people = await get("/api/people").catch(() => null);
    if (people && turn === this.turn) drawPeople(this.people, people, this.page);
    const box = h("p", { class: "quiet" });
    this.slips.append(box);
    const looks = await wait(box, "Looking through all labels …", get("/api/second-looks", 65)).catch((error) => ({ slips: null, doubts: [], error: error.message }));
    if (turn !== this.turn) return;
    this.drawSlips(looks);
    this.drawDoubts(looks.doubts);
  }

  update(state) {
    const key = ["training", "round", "features", "final"].map((name) => state.jobs[name].status).join();
    if (this.page.view === "results" && key !== this.key) this.enter();
    this.key = key;
  }

  draw(status) {
    const { review } = this.page.views;
    this.people = h("div", { class: "card wide", hidden: true });
    this.doubts = h("div", { class: "card wide", hidden: true });
    this.slips = wideCard("Labels to look at again");
    const unused = status.num_unused ? `${status.num_unused} labels are not in the model yet.` : "The model has learned from all labels.";
    const advice = status.advice ? h("div", { class: "gain" }, h("h3", {}, "Have I labeled enough?"), h("p", {}, status.advice), this.checks(status)) : null;
    const noModel = () => note("It begins with the first model that has random checks.");
    const showConfused = (label, predicted) => review.show(label === predicted ? { name: predicted, order: "typical", region: "" } : { name: predicted, order: "mistakes", other: label, region: "" });
    fill(
      this.box,
      h(
        "div",
        { class: "card wide lead" },
        h("div", {}, h("h2", { class: "headline" }, status.headline), note(status.explanation), advice),
        h(
          "div",
          { class: "buttons" },
          button(["Train now ", kbd("⇧T")], () => this.page.start("train"), { class: "button main" }),
          button(["Export ", kbd("⇧E")], () => this.page.start("export")),
          button("Final training …", () => this.page.start("estimate"), { title: "A network trained from scratch on the images; says first how long it takes" }),
          note(unused),
        ),
      ),
      card("Learning curve", note("The share of random checks (images drawn at random that no model learns from) that each model gets right. In 95 of 100 projects the true share stays within the band."), status.curve.length ? curve(status.curve) : noModel()),
      card("What is confused with what", note("Random checks by their label (rows) and what the latest model predicts (columns). A click shows images in Review that may be confused in the same way."), status.confusion.length ? confusion(status, showConfused) : noModel()),
      wideCard("Classes", note("In brackets: how many of the labels are random checks, which no model learns from. Recognized: the share of its images that the model finds (recall). Right when predicted: the share of its predictions that are right (precision). Both come from the random checks; in 95 of 100 cases the true share is in the range behind it. Predicted: images that the model puts in the class."), balance(status, (name) => review.show({ name, order: "likely", region: "" }))),
      wideCard("What the exported model learned from", learned(status, this.page.state), slips(status.repeats)),
      status.notes.length ? wideCard("To keep in mind", h("ul", {}, status.notes.map((text) => h("li", {}, text)))) : null,
      this.people,
      this.slips,
      this.doubts,
    );
  }

  /** Offer the random checks that the advice names, or say where they are. */
  checks({ num_checks: more, num_awaited: awaited, audit }) {
    if (!more) return null;
    if (awaited) return note(`${plural(awaited, "random check")} ${awaited === 1 ? "comes" : "come"} with the next images in Label, unmarked. `, link("Label them", () => this.page.go("label")));
    const budget = this.page.state.budget + more;
    const askFor = async () => {
      const done = await post("/api/budget", { ...this.page.signature, budget, audit: audit + more }).catch((error) => toast(error.message));
      if (!done) return;
      toast(`${budget} labels are planned now.`, 4);
      this.enter();
    };
    return h("p", { class: "checks" }, button(`Ask for ${plural(more, "random check")}`, askFor), h("span", { class: "quiet" }, `They raise the budget to ${plural(budget, "label")}.`));
  }

  /** Show what the model is least sure about; a click shows more like it in Review. */
  drawDoubts(tiles) {
    if (!this.doubts) return;
    this.doubts.hidden = !tiles.length;
    const shown = tiles.map((tile) => button([thumbnail(tile), h("span", { class: "sure" }, `${tile.class} ${percent(tile.sure)}`)], () => this.page.views.review.showLike(tile), { class: "tile rival", title: "More like this, in Review" }));
    fill(this.doubts, h("h2", {}, "Likely mistakes of the model"), note("It is least sure about these, of all that nobody has labeled. More labels like them help most; a click shows more in Review."), h("div", { class: "grid" }, shown));
  }

  drawSlips(looks) {
    const { slips, at_once: atOnce, reason, error } = looks;
    if (!this.slips) return;
    const title = h("h2", {}, "Labels to look at again");
    const tiles = slips?.filter((tile) => !this.kept.has(tile.id + tile.label)).slice(0, atOnce);
    if (!tiles?.length) {
      const none = slips?.length ? "None is left." : "None: no label has another class that is ten times as likely.";
      const text = error ? `They could not be computed: ${error}` : slips ? none : `Not computed yet. ${reason}`;
      fill(this.slips, title, h("p", { class: error ? "wrap" : "quiet wrap", role: error ? "alert" : "status" }, text));
      return;
    }
    const rows = tiles.map((tile) => {
      const keep = () => {
        this.kept.add(tile.id + tile.label);
        this.drawSlips(looks); // the next one of the list takes its place
      };
      const text = h("p", {}, "Labeled ", h("b", {}, tile.label), "; the model says ", h("b", {}, tile.other), `, ${percent(tile.sure)}.`);
      return doubtful(this.page, tile, text, [[tile.other, `Change to ${tile.other}`]], keep, [button("Keep", keep)]);
    });
    fill(this.slips, title, note("Models trained without these labels consider another class at least ten times as likely. The most doubtful labels come first. Models make mistakes, so look before you change a label. Random checks are not among them."), h("div", { class: "slips" }, rows));
  }
}
