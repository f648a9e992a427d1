// Many images at a glance: all that the model predicts as one class, or that may be of it.

import { post } from "./api.js";
import { colorOf, dot } from "./colors.js";
import { again, button, byId, fill, h, hints, isTouch, kbd, option, speak, toast, wait } from "./dom.js";
import { classOfKey } from "./keys.js";
import { address, thumbnail } from "./pictures.js";
import { featuresStatus, number, percent, plural } from "./words.js";

const COUNT = 30; // so that a person sees all classes before long: few labels of some classes alone teach less

/** What to look at, and what that is good for. */
const MODES = {
  typical: ["Typical", "Images that together say most about the class: they teach the model most for the time they take."],
  doubt: ["Least sure", "Images of the class that the model is least sure about."],
  mistakes: ["Likely mistakes", "Images for which another class, shown on each, is almost as likely."],
  likely: ["More of this class", "Images most likely to be of this class, whatever the model predicts."],
  surest: ["Finish the folder", "The surest predictions first: the quickest way to label the rest."],
};
const SIZES = [64, 240, 104]; // pixels of a tile: least, most, at first

/** Scroll a row of buttons, where it is too long, to the one that is pressed. */
function showPressed(row) {
  row.querySelector("[aria-pressed=true]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
}

export class ReviewView {
  constructor(page) {
    this.page = page;
    this.box = byId("view-review");
    this.place = 0; // the class that is shown, or given
    this.like = ""; // or images like the one of this id
    this.order = "typical";
    this.other = ""; // with likely mistakes: the class that it may be instead
    this.region = ""; // only this part of the map
    this.wanted = null; // an address to show as soon as the classes are known
    this.size = Number(localStorage.getItem("tile")) || SIZES[2];
    this.tiles = [];
    this.out = new Set(); // left out or, of images that may be of a class, not chosen
    this.given = new Map(); // classes that tiles were given in place
    this.passed = new Set(); // left out before
    this.unchosen = new Set(); // of this grid: left out at first, by nobody
    this.seen = new Set(); // unchosen before, while the same is looked for
    this.at = 0; // the tile that the keys move
    this.history = [];
    this.tabs = h("div", { class: "review-tabs", role: "group", "aria-label": "Classes" });
    this.head = h("div", { class: "review-head" });
    this.grid = h("div", { class: "grid", role: "listbox", "aria-multiselectable": "true", "aria-label": "Images", tabindex: "0" });
    this.note = h("p", { class: "quiet review-note" });
    this.resize(this.size);
    this.keys = h("p");
    this.rule = h("p", { class: "quiet review-note rule-note" });
    fill(this.box, this.tabs, h("div", { class: "review-main" }, this.head, this.note, this.grid, this.keys, this.rule));
  }

  get name() {
    return this.page.state?.classes[this.place]?.name;
  }

  /** Whether tiles are chosen one by one, since most of them are not of the class. */
  get isFinding() {
    return this.order === "likely" && !this.like;
  }

  /** Whether tiles are chosen rather than left out. */
  get isChoosing() {
    return this.isFinding || !!this.like;
  }

  /** The address of what is shown: `/cat?order=doubt`. */
  addressOf({ name = this.name, order = this.order, other = "", like = "", region = this.region }) {
    const given = Object.entries({ order: order === "typical" ? "" : order, other, like, region }).filter(([, value]) => value);
    return `/${encodeURIComponent(name ?? "")}${given.length ? `?${new URLSearchParams(given)}` : ""}`;
  }

  /** Show something else, which can be gone back from. */
  show(what) {
    this.page.go("review", this.addressOf(what));
  }

  /** Tiles that get the class when the grid is confirmed. */
  get chosen() {
    return this.tiles.filter((tile) => !this.out.has(tile.id) && !this.given.has(tile.id));
  }

  /** The next class that the model predicts for an image, so that all classes are seen in turn. */
  get nextPlace() {
    const { classes } = this.page.state;
    const places = classes.map((_, step) => (this.place + 1 + step) % classes.length);
    return places.find((place) => this.counts[classes[place].name] > 0) ?? this.place;
  }

  /** How many images without an answer are predicted as each class. */
  get counts() {
    return (this.region && this.countsInside) || (this.page.state.jobs.guesses.result?.counts ?? {});
  }

  /** Show what an address names, or what was shown before. */
  enter(part = "") {
    this.wanted = part;
    this.#open();
    this.grid.focus();
  }

  /** Show what the address names, once the classes are known; else a class that has images. */
  #open() {
    const { state } = this.page;
    if (!state) return;
    const [, path, query] = /^\/?([^?]*)\??(.*)$/s.exec(this.wanted);
    if (this.wanted) {
      const { order, other, like, region } = Object.fromEntries(new URLSearchParams(query));
      const isNew = (region ?? "") !== this.region;
      Object.assign(this, { order: order in MODES ? order : "typical", other: other ?? "", like: like ?? "", region: region ?? "" });
      this.seen.clear();
      if (isNew) this.countsInside = null;
    }
    const { counts } = this;
    this.isAnyClass = !path;
    const isEmpty = !path && counts[this.name] === 0;
    const place = state.classes.findIndex(({ name }) => (isEmpty ? counts[name] > 0 : encodeURIComponent(name) === path));
    if (place >= 0) this.place = place;
    this.wanted = null;
    this.page.setAddress(this.addressOf(this));
    this.drawTabs();
    this.load();
  }

  update() {
    if (this.page.view !== "review") return;
    if (this.wanted !== null) this.#open();
    this.drawTabs();
    if (this.rule.textContent) this.#drawRule();
    if (!this.tiles.length && !this.isLoading) this.load();
  }

  async load() {
    if (!this.page.state) return;
    const { features } = this.page.state.jobs;
    if (features.status !== "done") {
      this.note.textContent = `The model can predict when the program has looked at all images. ${featuresStatus(features)}`;
      return;
    }
    const turn = (this.turn = (this.turn ?? 0) + 1);
    this.isLoading = true;
    const wish = { ...this.page.signature, count: COUNT, without: [...this.seen, ...this.passed].slice(-5000) };
    if (this.like) wish.like = this.like;
    else Object.assign(wish, { name: this.name, order: this.order });
    if (this.other) wish.other = this.other;
    if (this.region) wish.region = this.region.split(",").map(Number);
    let answer = null;
    try {
      answer = await wait(this.note, `Looking for images of ${this.name} …`, post("/api/review", wish, { seconds: 65 }));
    } catch (error) {
      if (turn === this.turn) fill(this.note, `${error.message} `, again(() => this.load()));
    }
    if (turn !== this.turn) return; // another class was asked for meanwhile
    this.isLoading = false;
    this.countsInside = answer?.counts ?? null;
    const [most] = Object.entries(this.countsInside ?? {}).sort(([, a], [, b]) => b - a);
    if (most?.[1] && !this.countsInside[this.name] && !this.isFinding) {
      this.place = this.page.state.classes.findIndex(({ name }) => name === most[0]);
      this.page.setAddress(this.addressOf(this));
      return this.load();
    }
    this.likeFile = answer?.like[0]?.file ?? "";
    this.tiles = answer?.tiles ?? [];
    this.numAll = answer?.num_all ?? 0;
    if (this.isAnyClass && !this.isChoosing && !this.tiles.length && !this.counts[this.name] && this.nextPlace !== this.place) {
      this.place = this.nextPlace; // the first predictions came after the address
      this.page.setAddress(this.addressOf(this));
      return this.load();
    }
    this.by = answer?.by ?? null;
    const isUnlike = (tile) => this.isFinding || (!!this.like && tile.class !== this.name);
    this.unchosen = new Set(this.tiles.filter(isUnlike).map((tile) => tile.id));
    this.out = new Set(this.unchosen);
    this.given.clear();
    this.at = 0;
    this.drawTabs();
    this.draw();
    if (answer) this.#explain();
    this.grid.dataset.turn = turn;
  }

  #explain() {
    if (!this.by) this.note.textContent = "There are no predictions yet: label some images of at least two classes first.";
    else if (!this.tiles.length) this.note.textContent = this.like ? "Nothing else is like it." : `No ${this.passed.size ? "other " : ""}image without a label is predicted as ${this.name}${this.region ? " in this part of the map" : ""}.`;
    else {
      const sureness = this.tiles.map((tile) => Math.round(100 * tile.sure));
      const [first, last] = [Math.min(...sureness), Math.max(...sureness)];
      const sure = this.isChoosing ? "" : ` The model is ${first === last ? first : `${first} to ${last}`} % sure.`;
      const mode = this.like ? `Images that look most like the one you chose. Those predicted as ${this.name} are chosen already.` : MODES[this.order][1];
      const wrong = isTouch() ? "Tap what is wrong to leave it out" : "Click what is wrong to leave it out, or press the key of its class";
      const task = this.isChoosing ? `Choose what is ${this.name}, then confirm. The rest stays unlabeled.` : `${wrong}; then confirm the rest.`;
      this.note.textContent = `${mode}${sure} ${task}`;
      this.#drawRule();
    }
  }

  /** Say what comes of a label from here. */
  #drawRule() {
    this.rule.textContent = `These labels are stored as confirmed (${number(this.page.state.confirmed)} so far): they train the model, cost no budget, and never check it. Of near copies you see one, and only that one gets the label.`;
  }

  // ----------------------------------------------------------------------------- doing

  choose(place, order = this.order) {
    this.show({ name: this.page.state.classes[place].name, order });
  }

  toggle(place, to = !this.out.has(this.tiles[place].id)) {
    const id = this.tiles[place].id;
    if (to) this.out.add(id);
    else this.out.delete(id);
    this.drawTile(place);
    this.drawHead();
  }

  move(to, isRange) {
    if (!this.tiles.length) return;
    const next = Math.min(this.tiles.length - 1, Math.max(0, to));
    if (isRange) {
      const isOut = this.out.has(this.tiles[this.at].id);
      const [from, end] = [Math.min(this.at, next), Math.max(this.at, next)];
      for (let place = from; place <= end; place += 1) this.toggle(place, isOut);
    }
    this.point(next);
    this.grid.children[next].scrollIntoView({ block: "nearest" });
  }

  /** Let keys act on a tile, without scrolling: the pointer may be over it. */
  point(place) {
    const before = this.at;
    this.at = place;
    this.drawTile(before);
    this.drawTile(place);
    this.grid.setAttribute("aria-activedescendant", `tile-${place}`);
  }

  /** Give a class to some tiles at once; return whether they have it. */
  async give(tiles, name, isCorrection) {
    if (!tiles.length) return true;
    const [uuid, verb] = [crypto.randomUUID(), isCorrection ? "correct" : "confirm"];
    const done = await this.page.change({ uuid, verb, items: tiles.map((tile) => tile.id), name });
    if (!done) return false;
    if (done.items.length) this.history.push({ verb, items: done.items, undoes: uuid });
    const text = `${done.items.length} ${isCorrection ? "labeled" : "confirmed"} as ${name}`;
    speak(`${text}.`);
    toast(`${text}. Backspace takes that back.`, 4, null, "change");
    return true;
  }

  /** Give the chosen tiles the class of this grid, and show the next ones. */
  async confirm() {
    if (this.isSending) return;
    this.isSending = true;
    const isDone = await this.give(this.chosen, this.name, this.isFinding);
    this.isSending = false;
    if (!isDone) return;
    this.out.forEach((id) => (this.unchosen.has(id) ? this.seen : this.passed).add(id));
    if (this.order === "typical" && !this.like) this.choose(this.nextPlace);
    else await this.load();
  }

  /** Give the tile that keys act on its class, in place; with it, all others that are left out if it is. */
  async label(place) {
    const tile = this.tiles[this.at];
    if (!tile || this.isSending || this.given.has(tile.id)) return;
    const isOne = this.isChoosing || !this.out.has(tile.id);
    await this.labelAll(isOne ? [tile] : this.tiles.filter((tile) => this.out.has(tile.id)), place);
  }

  async labelAll(tiles, place) {
    const { name } = this.page.state.classes[place];
    tiles.forEach((tile) => this.given.set(tile.id, name));
    this.drawTiles();
    if (await this.give(tiles, name, true)) return;
    tiles.forEach((tile) => this.given.delete(tile.id));
    this.drawTiles();
  }

  async undo() {
    const last = this.history.pop();
    if (!last) return toast("Nothing was labeled here yet.");
    const done = await this.page.change(last);
    if (done) toast(`${plural(done.items.length, "label")} taken back.`, 4, null, "change");
    const isHere = done && last.items.every((id) => this.given.delete(id));
    return isHere ? this.drawTiles() : this.load();
  }

  more() {
    if (this.tiles.length) this.showLike(this.tiles[this.at]);
  }

  /** Show more like an image. */
  showLike({ id, class: name }) {
    this.show({ name, like: id, region: "" });
  }

  resize(size) {
    this.size = size;
    localStorage.setItem("tile", size);
    this.grid.style.setProperty("--tile", `${size}px`);
    for (const image of this.grid.querySelectorAll("img")) image.src = address(image.dataset.id, this.side);
  }

  /** Longest side of the pictures that are asked for. */
  get side() {
    return this.size > 128 ? 320 : 160;
  }

  actionOf(event) {
    const columns = Math.max(1, getComputedStyle(this.grid).gridTemplateColumns.split(" ").length);
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[event.key];
    if (step) return () => this.move(this.at + step, event.shiftKey);
    const place = classOfKey(event, this.page.views.label.keys);
    if (place >= 0) return () => this.label(place);
    const chooseBy = (by) => () => this.choose((this.place + by + this.page.state.classes.length) % this.page.state.classes.length);
    const toggle = () => this.tiles.length && this.toggle(this.at);
    const more = () => this.more();
    return { " ": toggle, x: toggle, Enter: () => this.confirm(), Backspace: () => this.undo(), m: more, M: more, Escape: chooseBy(0), PageDown: chooseBy(1), PageUp: chooseBy(-1) }[event.key];
  }

  // --------------------------------------------------------------------------- drawing

  drawTabs() {
    const state = this.page.state;
    if (!state) return;
    const { counts } = this;
    const keys = this.page.views.label.keys;
    const text = JSON.stringify([state.classes.map((entry) => entry.name + colorOf(entry)), counts, this.place, !!this.like]);
    if (text === this.drawn) return;
    this.drawn = text;
    const isMoved = this.drawnPlace !== this.place;
    this.drawnPlace = this.place;
    fill(
      this.tabs,
      state.classes.map((entry, place) =>
        button(
          [kbd(keys[place]?.digit || "…"), dot(entry), h("span", { class: "name" }, entry.name), h("span", { class: "count", title: "Images that the model predicts as this class" }, counts[entry.name] ?? "")],
          () => this.choose(place),
          { class: "", "aria-pressed": String(place === this.place && !this.like) },
        ),
      ),
    );
    if (isMoved) showPressed(this.tabs);
  }

  drawHead() {
    const left = this.chosen.length;
    const kind = this.isFinding ? "More of" : "Probably";
    const title = this.like ? `Like ${this.likeFile}` : `${kind} ${this.name ?? "…"}${this.other ? `, perhaps ${this.other}` : ""}`;
    const leftOut = this.isChoosing ? [] : this.tiles.filter((tile) => this.out.has(tile.id) && !this.given.has(tile.id));
    const choices = [option("", `Label ${leftOut.length} left out as …`, true), ...(this.page.state?.classes ?? []).map((entry, place) => option(place, entry.name))];
    const mode = ([text, title], act, isPressed) => button(text, act, { class: "", title, "aria-pressed": String(isPressed) });
    const modes = Object.entries(MODES).map(([order, words]) => mode(words, () => this.choose(this.place, order), order === this.order && !this.like));
    modes.splice(4, 0, mode(["Like this image", "Images that look like the one that the keys act on (M)"], () => this.more(), !!this.like));
    fill(
      this.head,
      h("h2", {}, title, " ", h("span", { class: "quiet" }, this.numAll > this.tiles.length ? `${this.tiles.length} of ${this.numAll}` : "")),
      leftOut.length ? h("select", { "aria-label": "Label what is left out as", onkeydown: (event) => event.stopPropagation(), onchange: (event) => event.target.value && this.labelAll(leftOut, Number(event.target.value)) }, choices) : null,
      button([left ? `Confirm ${left} as ${this.name} ` : "Show more ", kbd("Enter")], () => this.confirm(), { class: "button main", disabled: !this.tiles.length }),
      h("div", { class: "orders", role: "group", "aria-label": "What to show" }, modes),
      this.region ? button("Whole map", () => this.show({ region: "" }), { title: "Not only this part of the map" }) : null,
      h("label", { class: "size quiet" }, "Size ", h("input", { type: "range", min: SIZES[0], max: SIZES[1], step: 8, value: this.size, oninput: (event) => this.resize(Number(event.target.value)) })),
    );
    fill(this.keys, hints(["← ↑ → ↓", "or pointer: tile"], ["1 … 0", "its class"], ["Space", this.isChoosing ? "choose" : "leave out"], ["M", "more like it"], ["⌫", "undo"]));
    showPressed(this.head.querySelector(".orders"));
  }

  draw() {
    this.grid.classList.toggle("choosing", this.isChoosing);
    fill(
      this.grid,
      this.tiles.map((tile, place) => {
        const image = thumbnail(tile, this.side);
        image.dataset.id = tile.id;
        image.loading = "lazy";
        image.decoding = "async";
        return h(
          "div",
          {
            class: "tile",
            role: "option",
            id: `tile-${place}`,
            onpointermove: () => place !== this.at && this.point(place),
            onclick: (event) => {
              if (event.shiftKey) this.move(place, true);
              else {
                this.move(place, false);
                this.toggle(place);
              }
            },
          },
          image,
          h("span", { class: "sure" }),
        );
      }),
    );
    this.drawTiles();
  }

  drawTiles() {
    this.drawHead();
    this.tiles.forEach((_, place) => this.drawTile(place));
  }

  drawTile(place) {
    const box = this.grid.children[place];
    if (!box) return;
    const { id, sure, other } = this.tiles[place];
    const name = this.given.get(id);
    const isOut = this.out.has(id) && !name;
    box.classList.toggle("out", isOut);
    box.classList.toggle("given", !!name);
    box.classList.toggle("at", place === this.at);
    box.setAttribute("aria-selected", String(!isOut));
    box.classList.toggle("rival", !!other);
    box.querySelector(".sure").textContent = name ? `✓ ${name}` : other ? `or ${other}?` : percent(sure);
  }
}
