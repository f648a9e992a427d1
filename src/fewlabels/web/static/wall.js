// Many images at a glance: all that the model takes for one class, surest first.

import { post } from "./api.js";
import { byId, fill, h, speak, toast } from "./dom.js";
import { meant } from "./keys.js";
import { thumbnail } from "./pictures.js";
import { progressOf } from "./waiting.js";

const COUNT = 60;

export class WallView {
  constructor(desk) {
    this.desk = desk;
    this.box = byId("view-wall");
    this.place = 0; // which class
    this.like = null; // or images like this one
    this.tiles = [];
    this.out = new Set(); // knocked out
    this.passed = new Set(); // knocked out on a wall before
    this.at = 0; // the tile that the keys move
    this.history = [];
    this.tabs = h("div", { class: "wall-tabs", role: "group", "aria-label": "Classes" });
    this.head = h("div", { class: "wall-head" });
    this.grid = h("div", { class: "grid", role: "listbox", "aria-multiselectable": "true", "aria-label": "Images", tabindex: "0" });
    this.note = h("p", { class: "quiet wall-note" });
    fill(this.box, this.tabs, h("div", { class: "wall-main" }, this.head, this.note, this.grid));
  }

  get name() {
    return this.desk.state?.classes[this.place]?.name;
  }

  /** The class that the tiles get unless they are knocked out. */
  get confirmed() {
    return this.like ? this.like.class : this.name;
  }

  enter() {
    this.drawTabs();
    this.load();
    this.grid.focus();
  }

  hear() {
    if (this.desk.view !== "wall") return;
    this.drawTabs();
    if (!this.tiles.length && !this.isLoading) this.load();
  }

  async load() {
    if (!this.desk.state) return;
    const { features } = this.desk.state.jobs;
    if (features.status !== "done") {
      const far = features.status === "running" ? progressOf(features, "This is being prepared") : features.error ?? "It was stopped";
      this.note.textContent = `The model can guess when the program has looked at all images. ${far}.`;
      return;
    }
    if (this.shown !== this.confirmed) this.note.textContent = `Working out what the model takes for ${this.confirmed} …`;
    const turn = (this.turn = (this.turn ?? 0) + 1);
    this.isLoading = true;
    const wish = { ...this.desk.signature, count: COUNT, without: [...this.passed].slice(-5000) };
    if (this.like) wish.like = this.like.id;
    else wish.name = this.name;
    let found = null;
    try {
      found = await post("/api/wall", wish, { seconds: 65 });
    } catch (error) {
      this.note.textContent = error.message;
    }
    if (turn !== this.turn) return; // another class was asked for meanwhile
    this.isLoading = false;
    this.tiles = found?.tiles ?? [];
    this.numAll = found?.num_all ?? 0;
    this.shown = this.confirmed;
    this.by = found?.by ?? null;
    this.out.clear();
    this.at = 0;
    this.draw();
    if (found) this.#explain();
    this.grid.dataset.turn = turn;
  }

  #explain() {
    if (!this.by) this.note.textContent = "There is no guess yet: label some images of at least two classes first.";
    else if (!this.tiles.length) this.note.textContent = this.like ? "Nothing else is like it." : `Nothing that is not labeled is taken for ${this.name}.`;
    else {
      const [most, least] = [this.tiles[0], this.tiles.at(-1)].map((one) => Math.round(100 * one.sure));
      const sure = this.like ? "" : `The model is ${most === least ? most : `${most} to ${least}`} % sure. `;
      this.note.textContent = `${sure}Knock out what is wrong, then confirm the rest. Near copies are shown once, and only the image that you see gets the label. Confirmed labels train the model, cost no budget, and never measure it.`;
    }
  }

  // ----------------------------------------------------------------------------- doing

  choose(place) {
    this.place = place;
    this.like = null;
    this.drawTabs();
    this.load();
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
      for (let one = from; one <= end; one += 1) this.toggle(one, isOut);
    }
    const before = this.at;
    this.at = next;
    this.drawTile(before);
    this.drawTile(next);
    this.grid.children[next].scrollIntoView({ block: "nearest" });
    this.grid.setAttribute("aria-activedescendant", `tile-${next}`);
  }

  /** Send it until it is taken; null: it was refused. */
  send(given) {
    return new Promise((go) => this.desk.outbox.add({ ...given, path: "/api/confirm" }, go));
  }

  /** Give a class to some tiles at once; return whether they have it. */
  async give(tiles, name) {
    if (!tiles.length) return true;
    if (this.isSending) return false;
    this.isSending = true;
    const given = { ...this.desk.signature, uuid: crypto.randomUUID(), items: tiles.map((one) => one.id), name };
    const done = await this.send(given);
    this.isSending = false;
    if (!done) return false;
    if (done.items.length) this.history.push({ ...given, items: done.items });
    speak(`${done.items.length} images confirmed as ${name}.`);
    toast(`${done.items.length} confirmed as ${name}. Backspace takes them back.`, 4);
    return true;
  }

  async confirm() {
    const out = this.tiles.filter((one) => this.out.has(one.id));
    const rest = this.tiles.filter((one) => !this.out.has(one.id));
    if (!(await this.give(rest, this.confirmed))) return;
    out.forEach((one) => this.passed.add(one.id));
    await this.load();
  }

  async label(place) {
    const chosen = new Set(this.tiles.filter((one) => this.out.has(one.id)));
    if (!(await this.give([...chosen], this.desk.state.classes[place].name))) return;
    this.tiles = this.tiles.filter((one) => !chosen.has(one));
    chosen.forEach((one) => this.out.delete(one.id));
    this.at = Math.min(this.at, Math.max(0, this.tiles.length - 1));
    this.draw();
  }

  async undo() {
    const last = this.history.pop();
    if (!last) return toast("Nothing was confirmed on the wall yet.");
    const { tab, annotator, items, uuid } = last;
    const done = await this.send({ tab, annotator, items, undoes: uuid, uuid: crypto.randomUUID() });
    if (done) toast(`${done.items.length} labels taken back.`, 4);
    return this.load();
  }

  more() {
    if (!this.tiles.length) return;
    this.like = this.tiles[this.at];
    this.load();
  }

  /** Come from elsewhere to see more like an image. */
  showLike(tile) {
    this.like = tile;
    this.desk.go("wall");
  }

  press(event) {
    const columns = Math.max(1, getComputedStyle(this.grid).gridTemplateColumns.split(" ").length);
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns };
    const place = meant(event, this.desk.views.label.keys);
    let act = null;
    if (steps[event.key]) act = () => this.move(this.at + steps[event.key], event.shiftKey);
    else if (event.key === " " || event.key === "x") act = () => this.tiles.length && this.toggle(this.at);
    else if (event.key === "Enter") act = () => this.confirm();
    else if (event.key === "Backspace") act = () => this.undo();
    else if (event.key === "m") act = () => this.more();
    else if (event.key === "Escape") act = () => (this.like ? this.choose(this.place) : this.out.clear() || this.draw());
    else if (event.key === "PageDown") act = () => this.choose((this.place + 1) % this.desk.state.classes.length);
    else if (event.key === "PageUp") act = () => this.choose((this.place + this.desk.state.classes.length - 1) % this.desk.state.classes.length);
    else if (place >= 0) act = () => (this.out.size ? this.label(place) : this.choose(place));
    if (!act) return;
    event.preventDefault();
    act();
  }

  // --------------------------------------------------------------------------- drawing

  drawTabs() {
    const state = this.desk.state;
    if (!state) return;
    const counts = state.jobs.guesses?.result?.counts ?? [];
    const keys = this.desk.views.label.keys;
    const told = JSON.stringify([state.classes.map((one) => one.name), counts, this.place, !!this.like]);
    if (told === this.told) return;
    this.told = told;
    fill(
      this.tabs,
      state.classes.map((one, place) =>
        h(
          "button",
          { type: "button", "aria-pressed": String(place === this.place && !this.like), onclick: () => this.choose(place) },
          h("kbd", {}, keys[place]?.digit || "…"),
          h("span", { class: "name" }, one.name),
          h("span", { class: "count", title: "Images that the model takes for it" }, counts[place] ?? ""),
        ),
      ),
    );
  }

  drawHead() {
    const left = this.tiles.length - this.out.size;
    const title = this.like ? `Like ${this.like.file}` : `Taken for ${this.name ?? "…"}`;
    fill(
      this.head,
      h("h2", {}, title, " ", h("span", { class: "quiet" }, this.numAll > this.tiles.length ? `${this.tiles.length} of ${this.numAll}` : "")),
      h("span", { class: "keys quiet" }, h("kbd", {}, "← ↑ → ↓"), " move ", h("kbd", {}, "Space"), " knock out ", h("kbd", {}, "1 … 0"), " label those ", h("kbd", {}, "M"), " more like this ", h("kbd", {}, "⌫"), " undo"),
      h(
        "button",
        { type: "button", class: "button main", disabled: left < 1, onclick: () => this.confirm() },
        `Confirm ${left} as ${this.confirmed ?? ""} `,
        h("kbd", {}, "Enter"),
      ),
    );
  }

  draw() {
    this.drawHead();
    fill(
      this.grid,
      this.tiles.map((tile, place) => {
        const image = thumbnail(tile);
        image.loading = "lazy";
        image.decoding = "async";
        return h(
          "div",
          {
            class: "tile",
            role: "option",
            id: `tile-${place}`,
            onclick: (event) => {
              if (event.shiftKey) this.move(place, true);
              else {
                this.move(place, false);
                this.toggle(place);
              }
            },
          },
          image,
          h("span", { class: "sure" }, `${Math.round(100 * tile.sure)} %`),
        );
      }),
    );
    this.tiles.forEach((_, place) => this.drawTile(place));
  }

  drawTile(place) {
    const box = this.grid.children[place];
    if (!box) return;
    const out = this.out.has(this.tiles[place].id);
    box.classList.toggle("out", out);
    box.classList.toggle("at", place === this.at);
    box.setAttribute("aria-selected", String(!out));
  }
}
