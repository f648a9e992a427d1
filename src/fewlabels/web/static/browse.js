// All images: find some by what is known of them, look at them, change their labels.

import { post } from "./api.js";
import { colorOf } from "./colors.js";
import { again, button, byId, fill, h, hints, isTouch, kbd, note, option, speak, toast, wait } from "./dom.js";
import { classOfKey } from "./keys.js";
import { PointMap } from "./map.js";
import { picture, thumbnail } from "./pictures.js";
import { featuresStatus, number, percent, plural } from "./words.js";

const BLOCK = 120; // images in a request
const MOST_BLOCKS = 60;
const MOST_SELECTED = 2000;
const [GAP, CAPTION, MARGIN] = [6, 22, 2]; // pixels, pixels, rows above and below the screen
const REST = 60; // milliseconds without scrolling until images are asked for

const STATUSES = { none: "No answer", labeled: "Any label", undecided: "People disagree, or more have to answer", skipped: "Excluded", unsure: "Unsure" };
const CHOICES = {
  agreement: ["Label and prediction", { same: "Same", other: "Different" }],
  source: ["Label came from", { asked: "A question", confirmed: "A confirmed prediction", corrected: "A correction", imported: "An import", measuring: "A random check of the model" }],
  order: ["Order", { name: "File name", newest: "Newest answer first", doubt: "Least sure prediction first" }],
};
const KINDS = { label: "labeled it", relabel: "changed the label to", skip: "excluded it", unsure: "was unsure", undo: "took an answer back" };

const images = (count) => plural(count, "image");
const options = (choices, chosen) => Object.entries(choices).map(([value, text]) => option(value, text, value === chosen));

export class BrowseView {
  constructor(page) {
    this.page = page;
    this.filter = {}; // as it is in the address
    this.blocks = new Map(); // tiles by the number of their block; null: asked for
    this.selected = new Set();
    this.history = []; // changes that can be undone
    this.rows = new Map(); // elements of the rows on the screen
    this.turn = this.at = this.anchor = this.total = 0;
    this.size = Number(localStorage.getItem("tile-size")) || (innerWidth < 600 ? 104 : 120);
    this.fields = {};
    this.form = this.#makeForm();
    this.head = h("div", { class: "browse-head" });
    this.count = h("p", { class: "browse-count", role: "status" });
    this.actions = h("div", { class: "browse-actions", role: "group", "aria-label": "Change labels" });
    this.spacer = h("div", { class: "browse-spacer", role: "rowgroup" });
    this.grid = h("div", { class: "browse-grid", role: "grid", "aria-label": "Images", "aria-multiselectable": "true", tabindex: "0", onscroll: () => this.#scrolled(), onkeydown: (event) => this.#pressControl(event) }, this.spacer);
    this.empty = h("p", { class: "browse-empty quiet wrap", hidden: true });
    this.facts = h("div", { class: "browse-content" });
    this.dialog = h("dialog", { class: "browse-one", "aria-label": "One image", onclose: () => this.#close() }, this.facts);
    this.map = new PointMap({ onRegion: (region) => this.#enclose(region), onPoint: (place) => this.#openPoint(place) });
    this.map.box.hidden = true;
    this.tools = h("div", { class: "browse-actions browse-tools", role: "group", "aria-label": "Map" });
    this.head.append(this.count, this.actions, this.tools);
    fill(byId("view-browse"), this.form, this.head, this.empty, this.grid, this.map.box, this.dialog);
    this.#drawTools();
    new ResizeObserver(() => this.#layOut()).observe(this.grid);
  }

  // --------------------------------------------------------------------------- filters

  #makeForm() {
    const changed = () => this.#apply();
    const field = (name, title, element) => h("label", {}, h("span", {}, title), (this.fields[name] = element));
    const select = (name, title) => field(name, title, h("select", { onchange: changed }));
    const input = (name, title, more) => field(name, title, h("input", { onchange: changed, ...more }));
    const share = { type: "number", min: 0, max: 100, step: 1, inputmode: "numeric" };
    const later = () => {
      clearTimeout(this.typing);
      this.typing = setTimeout(changed, 120);
    };
    const slider = h("input", { type: "range", min: 64, max: 320, step: 8, value: this.size, oninput: (event) => this.resize(Number(event.target.value)) });
    return h(
      "form",
      {
        class: "browse-filters",
        onsubmit: (event) => event.preventDefault(),
        onkeydown: (event) => {
          event.stopPropagation(); // what is typed here is no key of the page
          const isDone = event.key === "Enter" && event.target.tagName === "INPUT";
          if (isDone) this.#apply();
          if (isDone || event.key === "Escape") this.grid.focus();
        },
      },
      input("name", "File name contains", { type: "search", maxlength: 200, oninput: later }),
      select("label", "Label"),
      select("predicted", "Prediction"),
      h(
        "details",
        {},
        h("summary", {}, "More filters"),
        h(
          "div",
          { class: "browse-more" },
          h("fieldset", {}, h("legend", {}, "Confidence in percent"), input("from", "From", share), input("to", "To", share)),
          select("agreement", CHOICES.agreement[0]),
          select("source", CHOICES.source[0]),
          select("person", "Answered by"),
          h("fieldset", {}, h("legend", {}, "Answered on"), input("since", "From", { type: "date" }), input("until", "To", { type: "date" })),
          select("order", CHOICES.order[0]),
          h("label", {}, h("span", {}, "Size of the images"), slider),
        ),
      ),
      (this.clear = button("Clear filters", () => this.show({}))),
    );
  }

  /** Fill the choices that depend on the project, and show the filter. */
  #drawForm() {
    const names = this.page.state?.classes.map((entry) => entry.name) ?? [];
    const { label, answer, predicted, person } = this.filter;
    const named = (known, chosen, prefix = "") => [...new Set([...known, chosen])].filter((name) => name).map((name) => option(prefix + name, name, name === chosen));
    const statuses = Object.entries(STATUSES).map(([name, text]) => option(`:${name}`, text, name === answer));
    fill(this.fields.label, option("", "Any", true), statuses, named(names, label, "="));
    fill(this.fields.predicted, option("", "Any", true), named(names, predicted));
    fill(this.fields.person, option("", "Anybody", true), named(this.people ?? [], person));
    for (const [name, [, choices]] of Object.entries(CHOICES)) {
      fill(this.fields[name], name === "order" ? null : option("", "Any", true), options(choices, this.filter[name]));
    }
    for (const name of ["name", "from", "to", "since", "until"]) {
      if (document.activeElement !== this.fields[name]) this.fields[name].value = this.filter[name] ?? "";
    }
    const hidden = ["from", "to", "agreement", "source", "person", "since", "until", "order"].filter((name) => this.filter[name]).length;
    this.clear.hidden = Object.keys(this.filter).every((name) => name === "view");
    this.form.querySelector("summary").textContent = hidden ? `More filters (${hidden})` : "More filters";
  }

  #apply() {
    const values = Object.fromEntries(Object.entries(this.fields).map(([name, element]) => [name, element.value.trim()]));
    const { label, ...filter } = values;
    if (label.startsWith(":")) filter.answer = label.slice(1);
    else if (label) filter.label = label.slice(1);
    if (filter.order === "name") delete filter.order;
    const { region, view } = this.filter;
    this.show({ ...filter, region, view });
  }

  /** Show the images of a filter, and put it into the address. */
  show(filter) {
    const given = Object.fromEntries(Object.entries(filter).filter(([, value]) => value));
    if (JSON.stringify(given) === JSON.stringify(this.filter) && this.isShown) return;
    this.filter = given;
    this.#setAddress();
    this.#drawForm();
    this.load();
  }

  #setAddress() {
    const image = this.dialog.open ? { image: this.shown.id } : {};
    const words = new URLSearchParams({ ...this.filter, ...image }).toString();
    if (this.page.view === "browse") this.page.setAddress(words && `?${words}`);
  }

  /** The filter, as the server takes it. */
  get wish() {
    const { name, from, to, since, until, region, view, ...same } = this.filter;
    const wish = { ...this.page.signature, ...same };
    if (region) wish.region = region.split(",").map(Number);
    const share = (text) => Math.min(1, Math.max(0, Number(text) / 100));
    const day = (text) => Math.max(0, new Date(`${text}T00:00`).getTime() / 1000);
    if (name) wish.text = name;
    if (from) wish.sure_from = share(from);
    if (to) wish.sure_to = share(to);
    if (since && day(since) >= 0) wish.since = day(since);
    if (until && day(until) >= 0) wish.until = day(until) + 86400;
    return wish;
  }

  enter(part = "") {
    if (!this.page.state) return (this.wanted = part);
    this.wanted = null;
    const known = new Set(["answer", "region", "view", ...Object.keys(this.fields)]);
    const words = new URLSearchParams(part);
    const filter = Object.fromEntries([...words].filter(([name]) => known.has(name)));
    this.leave();
    if (part.startsWith("?") || !this.isShown) this.show(filter);
    else {
      this.#setAddress();
      this.refresh();
    }
    this.grid.focus();
    if (words.get("image")) this.#openImage(words.get("image"));
  }

  leave() {
    if (this.dialog.open) this.dialog.close();
  }

  update(state) {
    if (this.page.view !== "browse") return;
    if (typeof this.wanted === "string") this.enter(this.wanted);
    const names = JSON.stringify(state.classes.map((entry) => entry.name));
    if (names !== this.classes) {
      this.classes = names;
      this.#drawForm();
      this.#drawActions();
    }
    if (this.isMap && this.waitsForMap) this.#loadMap();
    else if (this.by === null && state.jobs.guesses.result?.by) this.refresh(); // the first predictions
    if (this.sequence !== undefined && state.sequence > this.sequence && !this.isStale) {
      this.isStale = true;
      this.#drawCount();
    }
  }

  // --------------------------------------------------------------------------- loading

  /** Begin at the first image of the filter. */
  load() {
    this.selected.clear();
    this.at = this.anchor = 0;
    this.grid.scrollTop = 0;
    this.refresh("Looking for images …");
  }

  // -------------------------------------------------------------------------------- map

  get isMap() {
    return this.filter.view === "map";
  }

  #drawTools() {
    const pressed = (text, isPressed, act, title) => button(text, act, { "aria-pressed": String(isPressed), title });
    const turn = (view) => () => this.show({ ...this.filter, view });
    const colors = { label: "Color: Label", predicted: "Color: Prediction", sure: "Color: Confidence" };
    const choose = h("select", { "aria-label": "Color", onkeydown: (event) => event.stopPropagation(), onchange: (event) => this.map.paint(event.target.value) }, options(colors, this.map.color));
    const lasso = () => {
      this.map.isLasso = !this.map.isLasso;
      this.#drawTools();
    };
    const whole = () => this.show({ ...this.filter, region: "" });
    fill(
      this.tools,
      this.filter.region ? [button("Review these", () => this.page.views.review.show({ order: "typical", region: this.filter.region }), { class: "button main", title: "Confirm what the model predicts for the images of this part of the map" }), button("Leave this part of the map", whole, { title: "Show images of the whole map again" })] : null,
      this.isMap ? [choose, pressed("Draw around images", !!this.map.isLasso, lasso, "Draw around images to see them in the grid; Shift and the pointer do the same"), button("Whole map", () => this.map.reset())] : null,
      h("div", { class: "orders" }, pressed("Grid", !this.isMap, turn("")), pressed("Map", this.isMap, turn("map"), "Images as points, like ones near each other")),
    );
  }

  async #loadMap() {
    const turn = this.turn;
    const { features } = this.page.state.jobs;
    this.waitsForMap = features.status !== "done";
    if (this.waitsForMap) {
      this.count.textContent = `The map can be drawn when the program has looked at all images. ${featuresStatus(features)}`;
      return;
    }
    let answer;
    try {
      answer = await wait(this.count, "Working out the map …", post("/api/map", this.wish, { seconds: 65 }));
    } catch (error) {
      answer = { reason: error.message };
    }
    if (turn !== this.turn) return;
    if (answer.reason) {
      fill(this.count, `There is no map yet. ${answer.reason} `, again(() => this.refresh()));
      return;
    }
    this.total = answer.total;
    const entries = this.page.state.classes;
    const colored = answer.classes.map((name, place) => [name, colorOf(entries.find((entry) => entry.number === place) ?? { number: place })]);
    this.map.show({ ...answer, classes: colored });
    fill(this.count, h("b", {}, images(answer.total)), ` Images that the model finds alike are near each other. ${isTouch() ? "Tap" : "Click"} a point to see its image.`);
    this.map.box.dataset.turn = turn;
  }

  /** Show the images that a line was drawn around. */
  #enclose(region) {
    this.map.isLasso = false;
    this.show({ ...this.filter, region: region.join(","), view: "" });
    this.grid.focus();
  }

  async #openPoint(place) {
    this.at = place;
    if (!this.tileAt(place)) await this.#fetch(Math.floor(place / BLOCK));
    this.open(place);
  }

  /** Read anew what is shown. */
  async refresh(words = "Reading the images anew …") {
    this.turn += 1;
    this.isShown = true;
    this.isStale = false;
    this.sequence = this.page.state?.sequence;
    const before = this.blocks;
    this.blocks = new Map();
    this.map.box.hidden = !this.isMap;
    this.grid.hidden = this.actions.hidden = this.isMap;
    this.head.classList.toggle("selecting", this.selected.size > 0 && !this.isMap);
    this.#drawTools();
    if (this.isMap) return this.#loadMap();
    const wanted = this.#visibleBlocks();
    await wait(this.count, words, this.#fetch(wanted[0] ?? 0, before));
    this.#ask();
  }

  async #fetch(block, before = null) {
    const turn = this.turn;
    this.blocks.set(block, before?.get(block) ?? null);
    let answer;
    try {
      answer = await post("/api/browse", { ...this.wish, offset: block * BLOCK, count: BLOCK });
    } catch (error) {
      if (turn !== this.turn) return;
      this.blocks.delete(block);
      fill(this.count, `${error.message} `, again(() => this.refresh()));
      return;
    }
    if (turn !== this.turn) return;
    this.blocks.set(block, answer.tiles);
    if (this.blocks.size > MOST_BLOCKS) this.blocks.delete(this.blocks.keys().next().value);
    const isNew = JSON.stringify(answer.people) !== JSON.stringify(this.people);
    Object.assign(this, { total: answer.total, numImages: answer.num_images, by: answer.by, people: answer.people });
    if (isNew) this.#drawForm();
    this.at = Math.min(this.at, Math.max(0, this.total - 1));
    this.#layOut();
    this.grid.dataset.turn = turn;
  }

  #visibleBlocks() {
    const [first, last] = this.#range();
    const blocks = [];
    for (let block = Math.floor((first * this.columns) / BLOCK); block * BLOCK < Math.min(this.total, last * this.columns); block += 1) blocks.push(block);
    return blocks;
  }

  /** Ask for the images on the screen that are not there yet. */
  #ask() {
    for (const block of this.#visibleBlocks()) if (!this.blocks.has(block)) this.#fetch(block);
  }

  tileAt(place) {
    return this.blocks.get(Math.floor(place / BLOCK))?.[place % BLOCK] ?? null;
  }

  /** All tiles that are there. */
  *tiles() {
    for (const block of this.blocks.values()) if (block) yield* block;
  }

  // --------------------------------------------------------------------------- the grid

  resize(size) {
    const middle = this.columns * Math.floor(this.grid.scrollTop / this.height);
    this.size = size;
    localStorage.setItem("tile-size", size);
    this.#layOut();
    this.grid.scrollTop = Math.floor(middle / this.columns) * this.height;
  }

  #layOut() {
    const width = this.spacer.clientWidth;
    if (!width) return;
    this.columns = Math.max(2, Math.floor((width + GAP) / (this.size + GAP)));
    this.side = Math.floor((width - GAP * (this.columns - 1)) / this.columns);
    this.height = this.side + CAPTION + GAP;
    const numRows = Math.ceil(this.total / this.columns);
    this.spacer.style.height = `${numRows * this.height}px`;
    this.grid.setAttribute("aria-rowcount", numRows);
    this.grid.setAttribute("aria-colcount", this.columns);
    for (const row of this.rows.values()) row.remove();
    this.rows.clear();
    this.#draw();
    this.#drawCount();
    this.#drawActions();
  }

  /** The rows on the screen and some around it: the first, and the one after the last. */
  #range() {
    if (!this.columns) return [0, 1];
    const first = Math.floor(this.grid.scrollTop / this.height) - MARGIN;
    const last = Math.ceil((this.grid.scrollTop + this.grid.clientHeight) / this.height) + MARGIN;
    return [Math.max(0, first), Math.min(Math.ceil(this.total / this.columns), last)];
  }

  #scrolled() {
    if (!this.frame) {
      this.frame = requestAnimationFrame(() => {
        this.frame = 0;
        this.#draw();
      });
    }
    clearTimeout(this.resting);
    this.resting = setTimeout(() => {
      this.#ask();
      this.#draw();
    }, REST);
  }

  #draw() {
    const [first, last] = this.#range();
    for (const [place, row] of this.rows) {
      if (place >= first && place < last) continue;
      for (const image of row.querySelectorAll("img")) image.removeAttribute("src"); // nobody waits for it
      row.remove();
      this.rows.delete(place);
    }
    for (let place = first; place < last; place += 1) {
      let row = this.rows.get(place);
      if (!row) {
        row = this.#makeRow(place);
        this.rows.set(place, row);
        const next = [...this.spacer.children].find((other) => other.ariaRowIndex > place + 1);
        this.spacer.insertBefore(row, next ?? null);
      }
      for (const cell of row.children) this.#drawCell(cell);
    }
    this.empty.hidden = this.isMap || this.total > 0 || !this.grid.dataset.turn;
    if (!this.empty.hidden) this.empty.textContent = "No image meets these filters.";
    this.grid.hidden = this.isMap || !this.empty.hidden;
    if (this.total) this.grid.setAttribute("aria-activedescendant", `image-${this.at}`);
    else this.grid.removeAttribute("aria-activedescendant");
  }

  #makeRow(place) {
    const row = h("div", { class: "browse-row", role: "row", "aria-rowindex": place + 1 });
    row.style.transform = `translateY(${place * this.height}px)`;
    const last = Math.min(this.total, (place + 1) * this.columns);
    for (let index = place * this.columns; index < last; index += 1) {
      const cell = h("div", { class: "browse-cell", role: "gridcell", id: `image-${index}`, "aria-colindex": (index % this.columns) + 1, onclick: (event) => this.#click(event, index), ondblclick: () => this.open(index) }, h("div", { class: "browse-frame" }), h("div", { class: "browse-caption" }));
      cell.place = index;
      cell.style.width = `${this.side}px`;
      cell.firstChild.style.height = `${this.side}px`;
      row.append(cell);
    }
    return row;
  }

  #drawCell(cell) {
    const tile = this.tileAt(cell.place);
    const isSelected = !!tile && this.selected.has(tile.id);
    const key = tile ? `${tile.id} ${tile.label} ${tile.answer} ${tile.predicted} ${isSelected} ${cell.place === this.at}` : `${cell.place === this.at}`;
    if (cell.drawn === key) return;
    cell.drawn = key;
    cell.classList.toggle("at", cell.place === this.at);
    cell.setAttribute("aria-selected", String(isSelected));
    if (!tile) return;
    if (cell.shown !== tile.id) {
      const image = thumbnail(tile, this.side > 160 ? 320 : 160);
      image.decoding = "async";
      cell.firstChild.replaceChildren(image);
      cell.shown = tile.id;
    }
    const [words, kind] = captionOf(tile);
    cell.lastChild.textContent = words;
    cell.lastChild.className = `browse-caption ${kind}`;
    cell.setAttribute("aria-label", `${tile.file}, ${describe(tile)}`);
    cell.title = `${tile.file}\n${describe(tile)}`;
  }

  // -------------------------------------------------------------------------- selection

  #click(event, place) {
    const tile = this.tileAt(place);
    if (!tile) return;
    const isTouch = event.pointerType === "touch";
    if (event.shiftKey) return this.move(place, true);
    this.move(place, false);
    if (isTouch && !this.isSelecting) return this.open(place);
    this.toggle(tile);
  }

  toggle(tile) {
    if (!this.selected.delete(tile.id)) this.selected.add(tile.id);
    this.anchor = this.at;
    this.#selectionChanged();
  }

  selectNone() {
    this.selected.clear();
    this.#selectionChanged();
  }

  #selectionChanged() {
    this.#draw();
    this.#drawActions();
  }

  /** Let the keys act on another image; with a range, select all from the anchor to it. */
  async move(to, isRange) {
    if (!this.total) return;
    this.at = Math.min(this.total - 1, Math.max(0, to));
    const top = Math.floor(this.at / this.columns) * this.height;
    if (top < this.grid.scrollTop) this.grid.scrollTop = top;
    else if (top + this.height > this.grid.scrollTop + this.grid.clientHeight) this.grid.scrollTop = top + this.height - this.grid.clientHeight;
    if (!isRange) {
      this.anchor = this.at;
      return this.#draw();
    }
    await this.select(Math.min(this.anchor, this.at), Math.max(this.anchor, this.at) + 1);
  }

  /** Select a range, and nothing else. */
  async select(first, last) {
    let ids = [];
    for (let place = first; place < last; place += 1) ids.push(this.tileAt(place)?.id);
    if (last - first > MOST_SELECTED) toast(`At most ${number(MOST_SELECTED)} images are changed at once; the first ones are selected.`);
    if (ids.includes(undefined)) {
      const count = Math.min(MOST_SELECTED, last - first);
      const answer = await post("/api/browse", { ...this.wish, offset: first, count }).catch((error) => toast(error.message));
      if (!answer) return;
      ids = answer.tiles.map((tile) => tile.id);
    }
    this.selected = new Set(ids.slice(0, MOST_SELECTED));
    this.#selectionChanged();
    speak(`${this.selected.size} selected.`);
  }

  /** Images that an action is about: the selected ones or, without any, the one that keys act on. */
  get targets() {
    if (this.dialog.open) return [this.shown.id];
    const tile = this.tileAt(this.at);
    return this.selected.size ? [...this.selected] : tile ? [tile.id] : [];
  }

  // ---------------------------------------------------------------------------- changing

  async change(verb, name = null) {
    const items = this.targets;
    if (this.isSending) return toast("The last change is still being saved. Press the key again when it is.");
    if (!items.length) return toast("No image is there yet. Press the key again when it is.");
    this.isSending = true;
    const uuid = crypto.randomUUID();
    const done = await this.page.change({ uuid, items, verb, name });
    this.isSending = false;
    if (!done) return;
    const changed = new Set(done.items);
    if (changed.size) this.history.push({ items: done.items, undoes: uuid });
    const status = { label: "labeled", unlabel: "none", skip: "skipped" }[verb];
    for (const tile of this.tiles()) if (changed.has(tile.id)) Object.assign(tile, { label: name, answer: status });
    this.isStale = true;
    const words = { label: `labeled as ${name}`, unlabel: "without a label now", skip: "excluded" }[verb];
    const parts = [`${images(changed.size)} ${words}.`];
    if (done.num_same) parts.push(`${number(done.num_same)} were so already.`);
    if (done.num_others) parts.push(`${number(done.num_others)} left out: other people answered.`);
    if (done.num_held) parts.push(`${number(done.num_held)} left out: the Label view of a tab is about to show them.`);
    if (changed.size) parts.push("Backspace takes that back.");
    toast(parts.join(" "), 6, null, "change");
    speak(parts.join(" "));
    if (!this.dialog.open) this.selected.clear();
    this.#selectionChanged();
    this.#drawCount();
    if (this.dialog.open) this.#drawImage();
  }

  async undo() {
    const last = this.history.pop();
    if (!last) return toast("Nothing was changed here yet.");
    const done = await this.page.change(last);
    if (done) toast(`Taken back for ${images(done.items.length)}.`, 4, null, "change");
    await this.refresh();
    if (this.dialog.open) this.#drawImage();
  }

  // --------------------------------------------------------------------------- one image

  open(place) {
    const tile = this.tileAt(place);
    if (!tile) return;
    this.at = place;
    this.#openTile(tile);
  }

  /** Show the image of an address, whatever the filter. */
  async #openImage(id) {
    const answer = await post("/api/browse", { ...this.page.signature, items: [id] }).catch(() => null);
    if (answer?.tiles.length) this.#openTile(answer.tiles[0]);
    else toast("The image of this address is not in the project.");
  }

  #openTile(tile) {
    this.shown = tile;
    if (!this.dialog.open) this.dialog.showModal();
    this.#setAddress();
    this.dialog.append(byId("toasts")); // nothing else is seen above it
    this.#drawImage();
    this.#draw();
  }

  #close() {
    document.body.append(byId("toasts"));
    this.#setAddress();
    (this.isMap ? this.map.canvas : this.grid).focus();
  }

  async step(by) {
    const place = Math.min(this.total - 1, Math.max(0, this.at + by));
    await this.move(place, false);
    if (!this.tileAt(place)) await this.#fetch(Math.floor(place / BLOCK));
    this.open(place);
  }

  async #drawImage() {
    const { id } = this.shown;
    if (this.dialog.dataset.id !== id) fill(this.facts);
    const known = await wait(this.facts, "Reading what is known of this image …", post("/api/history", { ...this.page.signature, item: id })).catch((error) => toast(error.message));
    if (!known?.tile || this.shown.id !== id) return;
    const { tile, events } = known;
    Object.assign(this.shown, tile);
    const me = this.page.annotator || this.page.project.user;
    const image = picture(tile, 1280);
    image.alt = tile.file;
    const keys = this.page.views.label.keys;
    const action = (text, key, act, isMain = false, disabled = false) => button([`${text} `, key ? kbd(key) : null], act, { class: isMain ? "button main" : "button", "aria-pressed": isMain ? "true" : null, disabled });
    const latest = events.find((event) => event.kind !== "undo" && !event.is_undone && event.person === me);
    fill(
      this.facts,
      h("div", { class: "browse-picture" }, image),
      h(
        "div",
        { class: "browse-facts" },
        h("h2", {}, tile.file),
        h("p", {}, describe(tile)),
        h("div", { class: "buttons", role: "group", "aria-label": "Label" }, this.page.state.classes.map(({ name }, place) => action(name, keys[place]?.digit, () => this.change("label", name), name === tile.label))),
        h("div", { class: "buttons" }, action("Remove label", "Del", () => this.change("unlabel"), false, tile.answer === "none"), action("Exclude", "X", () => this.change("skip"), tile.answer === "skipped")),
        h("h3", {}, "History"),
        events.length ? h("ol", { class: "browse-history" }, events.map((event) => this.#makeEvent(event, event === latest))) : note("Nobody has answered about this image yet."),
        h("div", { class: "buttons browse-steps" }, action("Previous", "←", () => this.step(-1)), action("Next", "→", () => this.step(1)), action("Close", "Esc", () => this.dialog.close())),
      ),
    );
    this.dialog.dataset.id = id;
    this.dialog.querySelector(".browse-steps button:nth-child(2)").focus();
    this.#draw();
  }

  #makeEvent(event, canUndo) {
    const when = new Date(1000 * event.time);
    const source = { confirmed: " (confirming a prediction)", corrected: " (in Browse or Review)", imported: " (imported)" }[event.source] ?? "";
    const what = event.kind === "label" ? `labeled it ${event.label}` : event.kind === "relabel" ? `${KINDS.relabel} ${event.label}` : KINDS[event.kind];
    const undo = async () => {
      const done = await this.page.change({ items: [this.shown.id], verb: "undo", target: event.uuid });
      if (done) toast("The answer was taken back.", 4, null, "change");
      this.isStale = true;
      this.#drawImage();
    };
    return h("li", { class: event.is_undone ? "undone" : "" }, h("time", { datetime: when.toISOString() }, when.toLocaleString([], { dateStyle: "medium", timeStyle: "short" })), ` ${event.person} ${what}${event.kind === "undo" ? "" : source}${event.is_undone ? ", taken back since" : ""} `, canUndo ? button("Take back", undo) : null);
  }

  // ----------------------------------------------------------------------------- keys

  #pressControl(event) {
    if (!event.ctrlKey && !event.metaKey) return;
    if (event.key !== "a") return;
    event.preventDefault();
    this.select(0, this.total);
  }

  actionOf(event) {
    const { key } = event;
    if (event.target instanceof HTMLButtonElement && key === " ") return null;
    if (this.isMap && !this.dialog.open && key !== "/") return this.map.actionOf(event);
    const place = classOfKey(event, this.page.views.label.keys);
    if (place >= 0) return () => this.change("label", this.page.state.classes[place].name);
    const exclude = () => this.change("skip");
    const always = { Delete: () => this.change("unlabel"), x: exclude, X: exclude, Backspace: () => this.undo() };
    if (this.dialog.open) return { ...always, ArrowLeft: () => this.step(-1), ArrowRight: () => this.step(1) }[key];
    const page = Math.max(1, Math.floor(this.grid.clientHeight / this.height) - 1) * this.columns;
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.columns, ArrowDown: this.columns, PageUp: -page, PageDown: page, Home: -this.at, End: this.total - 1 - this.at };
    if (key in steps) return () => this.move(this.at + steps[key], event.shiftKey);
    const toggle = () => this.tileAt(this.at) && this.toggle(this.tileAt(this.at));
    return { ...always, " ": toggle, Enter: () => this.open(this.at), "/": () => this.fields.name.focus(), Escape: () => this.selectNone() }[key];
  }

  // ---------------------------------------------------------------------------- drawing

  #drawCount() {
    if (this.numImages === undefined || this.isMap) return;
    const words = this.total === this.numImages ? images(this.total) : `${number(this.total)} of ${images(this.numImages)}`;
    const more = this.by ? "" : " There are no predictions yet.";
    const refresh = this.isStale ? button("Labels have changed: refresh", () => this.refresh(), { class: "link" }) : null;
    fill(this.count, h("b", {}, words), more, refresh ? " " : null, refresh);
  }

  #drawActions() {
    const count = this.selected.size;
    const classes = this.page.state?.classes ?? [];
    const choose = h("select", { "aria-label": "Label the selected images as", onkeydown: (event) => event.stopPropagation(), onchange: (event) => event.target.value && this.change("label", event.target.value.slice(1)) }, option("", "Label as …", true), classes.map(({ name }) => option(`=${name}`, name)));
    const touch = button("Select", () => {
      this.isSelecting = !this.isSelecting;
      this.#drawActions();
    }, { "aria-pressed": String(!!this.isSelecting), class: "button touch-only" });
    const all = button(this.total > MOST_SELECTED ? h("span", {}, "Select ", h("span", { class: "wide-only" }, "the first "), number(MOST_SELECTED)) : h("span", {}, "Select all", h("span", { class: "wide-only" }, ` ${number(this.total)}`)), () => this.select(0, this.total), { disabled: !this.total });
    const some = [h("b", {}, `${number(count)} selected`), choose, button("Remove label", () => this.change("unlabel"), { title: "They are unlabeled again" }), button("Exclude", () => this.change("skip"), { title: "Not worth a label: nobody is asked about them, and nothing is learned from them" }), button("Select none", () => this.selectNone())];
    const keys = hints(["Space", "select"], ["Enter", "or double click: open"], ["1 … 0", "label"], ["/", "find"]);
    this.head.classList.toggle("selecting", count > 0 && !this.isMap);
    fill(this.actions, count ? some : keys, all, touch);
  }
}

/** What the line below an image says, and how it looks. */
function captionOf(tile) {
  if (tile.label !== null) return tile.predicted && tile.predicted !== tile.label ? [`${tile.label} (${tile.predicted}?)`, "labeled differs"] : [tile.label, "labeled"];
  if (tile.answer === "skipped") return ["excluded", "other"];
  if (tile.answer !== "none") return [tile.answer, "other"];
  return tile.predicted ? [`${tile.predicted}? ${percent(tile.sure)}`, "guess"] : ["", ""];
}

/** What is known of an image, in a sentence. */
function describe(tile) {
  const label = tile.label !== null ? `labeled ${tile.label}` : { none: "no label", undecided: "people disagree, or more have to answer", skipped: "excluded", unsure: "somebody was unsure" }[tile.answer];
  const prediction = tile.predicted ? `, predicted ${tile.predicted} (${percent(tile.sure)} sure)` : "";
  return `${label}${prediction}${tile.measures ? ", a random check of the model" : ""}`;
}
