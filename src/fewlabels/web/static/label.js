// One image at a time: a key labels it and brings the next.

import { post } from "./api.js";
import { dot } from "./colors.js";
import { ask, button, byId, fill, h, kbd, note, speak, toast, wait } from "./dom.js";
import { assignKeys, classOfKey, HELP } from "./keys.js";
import { Ahead, address, thumbnail } from "./pictures.js";
import { featuresStatus, percent, progressOf, timeLeft } from "./words.js";

const HELD = [10, 40]; // images that a tab holds: two rounds, but at least and at most so many
const REFILL = 0.8; // of them; with fewer, more are asked for
const PAUSE = 1500; // milliseconds until a tab without images asks again
const MOST_ZOOM = 40;
const FULL = 2560;
const MORE = 40; // labels to plan at once
const [NUM_EXAMPLES, MOST_SHOWN] = [6, 30]; // images of a class, classes

export class LabelView {
  constructor(page) {
    this.page = page; // tab, annotator, outbox, state
    this.size = Math.min(HELD[1], Math.max(HELD[0], 2 * page.project.query));
    this.queue = [];
    this.history = [];
    this.current = null;
    this.ahead = new Ahead(1280);
    this.keys = [];
    this.typed = "";
    this.zoom = { scale: 1, x: 0, y: 0 }; // the image is moved by x and y pixels
    this.suggestions = new Map(); // what the model predicts, by image
    this.times = [];
    this.isRefilling = false;
    this.buttons = null; // below the message
    this.frame = byId("frame");
    this.#listenToPointer();
    this.#rememberDisplay();
    byId("more").addEventListener("click", () => this.planMore());
    for (const button of document.querySelectorAll("[data-do]")) {
      button.addEventListener("click", () => {
        button.blur();
        this.do(button.dataset.do);
      });
    }
  }

  // ------------------------------------------------------------------ images to come

  /** Get more images, unless there are enough. */
  async refill() {
    if (this.isRefilling || this.queue.length >= REFILL * this.size) return;
    this.isRefilling = true;
    clearTimeout(this.again);
    try {
      const leased = await post("/api/lease", { ...this.page.signature, count: this.size });
      this.#take(leased.items);
      this.held = leased.num_held;
      this.freesAt = leased.frees_at;
    } catch {
      // the header shows that the server is away
    } finally {
      this.isRefilling = false;
    }
    if (!this.queue.length) {
      if (!this.current) this.#explain();
      this.again = setTimeout(() => this.refill(), PAUSE);
    } else if (!this.current) this.next();
  }

  #take(items) {
    const known = new Set([...this.queue, ...this.history.map((entry) => entry.item)].map((item) => item.id));
    if (this.current) known.add(this.current.id);
    for (const action of this.page.outbox.actions) known.add(action.item);
    this.queue.push(...items.filter((item) => !known.has(item.id)));
    this.ahead.prepare(this.queue);
  }

  /** The images that this tab believes to hold. */
  heldIds() {
    return [this.current, ...this.queue].filter((item) => item && !item.is_repeat).map((item) => item.id);
  }

  /** Let go of images that it does not hold any more, of those it believed to. */
  release(known, held) {
    const lost = new Set(known.filter((id) => !held.has(id)));
    if (!lost.size) return;
    this.queue = this.queue.filter((item) => !lost.has(item.id));
    toast("You were away for a while; images that somebody else has by now are gone from here.");
    if (this.current && lost.has(this.current.id)) this.next();
    else this.refill();
  }

  next() {
    this.show(this.queue.shift() ?? null);
    this.refill();
  }

  // ----------------------------------------------------------------------- one image

  show(item) {
    this.current = item;
    this.#setZoom();
    byId("view-label").classList.toggle("away", !item);
    if (item) {
      const image = this.ahead.of(item);
      image.alt = `Image ${item.number} of ${item.of} in round ${item.round + 1}`;
      image.onerror = () => toast("This image cannot be read any more. Skip it with Space.");
      fill(this.frame, image);
      byId("message").hidden = true;
      byId("why").textContent = item.why;
      byId("file").textContent = item.file;
      this.shownAt = performance.now();
      this.#suggest();
      this.ahead.prepare(this.queue);
    } else {
      fill(this.frame);
      byId("why").textContent = byId("file").textContent = "";
      this.#explain();
    }
    this.drawRound();
  }

  /** Say why there is no image, and for how long. */
  #explain() {
    const [title, text, ...more] = this.#reason(this.page.state);
    const box = byId("message");
    const buttons = more.map((button) => button.textContent).join("\n");
    if (box.hidden || buttons !== this.buttons) {
      this.buttons = buttons;
      fill(box, h("h2"), h("p"), h("div", { class: more.length ? "row" : "spinner" }, more));
      box.hidden = false;
    }
    const [head, words] = box.children; // a button keeps its focus
    if (head.textContent !== title) head.textContent = title;
    if (words.textContent !== text) words.textContent = text;
  }

  /** Title, text and buttons that say why there is no image. */
  #reason(state) {
    if (!state) return ["Opening the project …", ""];
    const { round, features } = state.jobs;
    const main = { class: "button main" };
    if (state.spent >= state.budget || round.status === "finished") {
      return [
        state.spent >= state.budget ? "The budget is spent" : "Every image was asked about",
        `${state.spent} of ${state.budget} labels are given. In Review you confirm or correct what the model predicts, many images at a glance: the quickest way to a better model now.`,
        button(`${MORE} more labels`, () => this.planMore()),
        button(["Review ", kbd("⇧R")], () => this.page.go("review")),
        button(["Results ", kbd("⇧S")], () => this.page.go("results")),
        button(["Export ", kbd("⇧E")], () => this.page.start("export"), main),
      ];
    }
    if (round.status === "failed") {
      return ["The next images could not be chosen", round.error, button("Try again", () => this.page.start("round"), main)];
    }
    if (round.status === "running") {
      const what = round.total ? `${progressOf(round)}.` : timeLeft(round);
      return ["Choosing the next images …", what || "That takes a few seconds; the first time, up to half a minute."];
    }
    if (state.open && !this.held) return ["Fetching images …", ""];
    if (state.open && state.spent + state.waiting >= state.budget) {
      const when = this.freesAt ? ` If nobody goes on with them, the first comes free at ${new Date(this.freesAt).toLocaleTimeString()}.` : "";
      return ["Others have the last images of the budget", `${this.held} images are with other people or tabs.${when}`, button("Look again", () => this.refill())];
    }
    if (state.round && features.status !== "done") {
      const random = button(`Label ${Math.min(this.page.project.query, state.budget - state.spent)} random images meanwhile`, () => this.page.start("random-round"));
      const why = "The next images are chosen by what they show, and for that the program has to look at all images once.";
      if (features.status === "running") {
        return [
          ["Looking at all images", timeLeft(features)].filter((part) => part).join(", "),
          `${why} ${featuresStatus(features)} When that is done, labeling goes on by itself. Random images cost the same budget and teach the model less.`,
          random,
        ];
      }
      return ["The images were not all looked at", `${why} ${features.error ?? "It was stopped."}`, button("Go on with it", () => this.page.start("features"), main), random];
    }
    return ["Choosing the next images …", ""];
  }

  update(state) {
    const names = JSON.stringify(state.classes.map(({ count: _, ...look }) => look));
    if (names !== this.names) {
      if (this.numClasses > state.classes.length) this.history = []; // a merge changed labels
      this.numClasses = state.classes.length;
      this.names = names;
      this.keys = assignKeys(state.classes);
    }
    this.drawClasses();
    this.drawRound();
    if (!this.current) {
      this.#explain();
      this.refill();
    }
  }

  // --------------------------------------------------------------------------- doing

  answer(verb, name) {
    if (!this.current) return;
    const item = this.current;
    const lead = Math.min(86400, (performance.now() - this.shownAt) / 1000);
    // An image that was confirmed before: it costs nothing, and others are not asked.
    const again = item.is_repeat ? (verb === "label" ? "repeat" : "change") : verb;
    const action = this.page.action(again, { item: item.id, path: "/api/act" });
    if (again === "repeat") action.name = name;
    if (again === "label") {
      action.name = name;
      action.lead_time = Math.round(lead * 1000) / 1000;
      this.times = [...this.times.slice(-19), lead];
    }
    this.history.push({ item, uuid: action.uuid, verb: again, name });
    this.page.outbox.add(action);
    if (!item.is_repeat) this.page.count(verb, name, 1);
    speak(`${verb === "label" ? name : verb}. Next image.`);
    this.next();
    this.drawClasses();
  }

  undo() {
    const last = this.history.pop();
    if (last) {
      this.page.outbox.add(this.page.action("undo", { target: last.uuid }));
      if (!last.item.is_repeat) this.page.count(last.verb, last.name, -1);
      this.#back(last.item);
    } else {
      this.page.outbox.add(this.page.action("undo"), (answer) => answer?.item && this.#back(answer.item));
    }
    this.drawClasses();
  }

  #back(item) {
    if (this.current) this.queue.unshift(this.current);
    this.queue = this.queue.filter((other) => other.id !== item.id);
    this.show(item);
    speak("Undone.");
  }

  /** Forget an answer that the server did not take. */
  refuse(action) {
    const place = this.history.findIndex((entry) => entry.uuid === action.uuid);
    if (place < 0) return;
    const [last] = this.history.splice(place, 1);
    if (!last.item.is_repeat) this.page.count(last.verb, last.name, -1);
  }

  async addClass() {
    this.page.addClass(await ask("New class", note("It gets the next key. Images labeled so far stay as they are."), { add: "Add" }, ""));
  }

  help() {
    const rows = HELP.map(([key, text]) => h("tr", {}, h("td", {}, kbd(key)), h("td", {}, text)));
    return ask("Keys", h("table", {}, h("tbody", {}, rows)));
  }

  /** Show what belongs to each class: its description, and images that were labeled. */
  async examples() {
    const classes = this.#matches().slice(0, MOST_SHOWN).map((place) => this.page.state.classes[place]);
    const boxes = classes.map((entry) => h("div", { class: "examples" }));
    const parts = classes.map((entry, place) => h("section", {}, h("h3", {}, dot(entry), " ", entry.name), entry.description ? note(entry.description) : null, boxes[place]));
    const asked = ask("What belongs to each class", h("div", { class: "classes-shown", tabindex: "0" }, parts));
    for (const [place, { name, count }] of classes.entries()) {
      const wish = { ...this.page.signature, label: name, order: "newest", count: NUM_EXAMPLES };
      const seen = count ? await wait(boxes[place], "Reading labeled images …", post("/api/browse", wish)).catch(() => null) : null;
      fill(boxes[place], seen?.tiles.length ? seen.tiles.map((tile) => thumbnail(tile)) : note("No image has this label yet."));
    }
    return asked;
  }

  do(what) {
    const actions = { undo: () => this.undo(), add: () => this.addClass(), help: () => this.help(), zoom: () => this.#toggleZoom(), examples: () => this.examples() };
    (actions[what] ?? (() => this.answer(what)))(); // skip or unsure
  }

  // ---------------------------------------------------------------------------- keys

  /** What a key does; null: nothing. A key that is held down repeats only an undo and a move. */
  actionOf(event) {
    const { key } = event;
    const step = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] }[key];
    if (step && this.zoom.scale !== 1) return () => this.#setZoom({ ...this.zoom, x: this.zoom.x + step[0], y: this.zoom.y + step[1] });
    if (key === "Backspace") return () => (this.typed ? this.#type(this.typed.slice(0, -1)) : this.undo());
    const act = this.#actionOnce(event);
    return act && event.repeat ? () => {} : act;
  }

  #actionOnce(event) {
    const { key } = event;
    const isMany = this.keys.length > 20; // then names are typed
    if (key === " ") return () => this.answer("skip");
    if (key === "+" || key === "=") return () => this.#zoomBy(1.5);
    if (key === "-") return () => this.#zoomBy(1 / 1.5);
    if (key === "Escape") return () => (this.isTyping ? this.#type("") : this.#setZoom());
    if (isMany && key === "Enter" && this.typed) return () => this.#pick();
    if (isMany && key === "/" && !this.typed) return () => this.#type("", true);
    const place = classOfKey(event, this.keys);
    if (place >= 0 && !this.isTyping) return () => this.label(place);
    return isMany && key.length === 1 && !event.shiftKey ? () => this.#type(this.typed + key.toLowerCase()) : null;
  }

  label(place) {
    const shown = byId("classes").children[place];
    shown?.classList.add("hit");
    setTimeout(() => shown?.classList.remove("hit"), 130);
    this.answer("label", this.page.state.classes[place].name);
  }

  #type(text, isTyping = text !== "") {
    this.typed = text;
    this.isTyping = isTyping;
    byId("filter").hidden = !isTyping;
    byId("typed").textContent = text;
    this.drawClasses();
  }

  #matches() {
    const classes = this.page.state?.classes ?? [];
    const places = classes.map((_, place) => place);
    if (!this.typed) return places;
    const name = (place) => classes[place].name.toLowerCase();
    const first = places.filter((place) => name(place).startsWith(this.typed));
    return [...first, ...places.filter((place) => !first.includes(place) && name(place).includes(this.typed))];
  }

  #pick() {
    const [place] = this.#matches();
    this.#type("");
    if (place !== undefined) this.label(place);
  }

  // ---------------------------------------------------------------------------- drawing

  drawClasses() {
    const state = this.page.state;
    if (!state) return;
    const box = byId("classes");
    const places = this.#matches();
    const content = JSON.stringify([places, this.names, state.classes.map((entry) => entry.count)]);
    if (content === this.drawn) return;
    this.drawn = content;
    const shape = JSON.stringify([places, this.names]);
    if (shape !== this.shape) {
      this.shape = shape;
      fill(
        box,
        places.map((place) => {
          const { digit, letter } = this.keys[place];
          return h(
            "button",
            { type: "button", title: state.classes[place].description, onclick: (event) => (event.currentTarget.blur(), this.label(place)), "aria-keyshortcuts": [digit.replace("⇧", "Shift+"), letter].filter((key) => key).join(" ") || undefined },
            h("kbd", { class: "key" }, digit || "…"),
            letter ? h("kbd", { class: "key" }, letter) : h("span"),
            dot(state.classes[place]),
            h("span", { class: "name" }, state.classes[place].name, state.classes[place].description ? h("small", {}, state.classes[place].description) : null),
            h("span", { class: "count", title: "Labels so far" }),
          );
        }),
      );
    }
    places.forEach((place, row) => {
      box.children[row].lastChild.textContent = state.classes[place].count || "";
    });
  }

  drawRound() {
    const item = this.current;
    const round = this.page.state?.round;
    byId("round").textContent = item && item.of ? `Round ${item.round + 1} · ${item.number} of ${item.of}` : round ? `Round ${round.number + 1}` : "";
    byId("round-bar").max = item?.of || round?.size || 1; // the next round may be there already
    byId("round-bar").value = item?.of ? item.number - 1 : round ? round.size - round.open : 0;
    const left = this.page.state ? this.page.state.budget - this.page.state.spent : 0;
    if (this.times.length >= 3) {
      const pace = [...this.times].sort((a, b) => a - b)[Math.floor(this.times.length / 2)];
      const minutes = Math.ceil((pace * left) / 60);
      byId("pace").textContent = `${pace.toFixed(1)} s each${left > 0 ? `, ${minutes} min to go` : ""}`;
    }
  }

  // ------------------------------------------------------------------------------ zoom

  /** How many pixels of the screen show a pixel of the image, without zoom. */
  get #fit() {
    const { clientWidth, clientHeight } = this.frame.firstChild;
    return Math.min(clientWidth / this.current.width, clientHeight / this.current.height);
  }

  #setZoom({ scale, x, y } = { scale: 1, x: 0, y: 0 }) {
    this.zoom = { scale, x, y };
    const image = this.frame.firstChild;
    byId("scale").hidden = scale === 1;
    if (!image) return;
    image.style.transform = scale === 1 ? "" : `translate(${x}px, ${y}px) scale(${scale})`;
    if (scale === 1 || !this.current) return;
    const large = address(this.current.id, FULL);
    if (scale > 1 && Math.max(this.current.width, this.current.height) > 1280 && !image.src.endsWith(large)) image.src = large;
    byId("scale").textContent = `${Math.round(100 * scale * this.#fit)} % of the original size`;
  }

  /** Zoom by a factor; the point of the stage, from its middle, stays where it is. */
  #zoomBy(factor, [x, y] = [0, 0]) {
    if (!this.current) return;
    const scale = Math.min(MOST_ZOOM, Math.max(1, this.zoom.scale * factor));
    const ratio = scale / this.zoom.scale;
    if (scale === 1) this.#setZoom();
    else this.#setZoom({ scale, x: x + (this.zoom.x - x) * ratio, y: y + (this.zoom.y - y) * ratio });
  }

  /** Show the original pixels, or twice the size of an image that is larger already; and back. */
  #toggleZoom(point) {
    if (!this.current) return;
    if (this.zoom.scale !== 1) this.#setZoom();
    else this.#zoomBy(Math.max(2, 1 / this.#fit), point);
  }

  #listenToPointer() {
    const stage = byId("stage");
    let from = null; // where a drag began, and where the image was
    const fingers = new Map(); // where they are
    let spread = 0; // pixels between two
    const point = (event) => {
      const box = stage.getBoundingClientRect();
      return [event.clientX - box.left - box.width / 2, event.clientY - box.top - box.height / 2];
    };
    const release = (event) => {
      fingers.delete(event.pointerId);
      from = null; // a finger that is left moves nothing
    };
    stage.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.#zoomBy(event.deltaY < 0 ? 1.2 : 1 / 1.2, point(event));
    }, { passive: false });
    stage.addEventListener("pointerdown", (event) => {
      if (event.target.closest("button") || !this.current) return;
      fingers.set(event.pointerId, point(event));
      spread = 0;
      from = { x: event.clientX, y: event.clientY, zoom: this.zoom, isDrag: fingers.size > 1 };
      stage.setPointerCapture(event.pointerId);
    });
    stage.addEventListener("pointermove", (event) => {
      if (!from) return;
      fingers.set(event.pointerId, point(event));
      if (fingers.size === 2) {
        const [[left, top], [right, bottom]] = fingers.values();
        const apart = Math.hypot(left - right, top - bottom);
        if (spread && this.current) this.#zoomBy(apart / spread, [(left + right) / 2, (top + bottom) / 2]);
        spread = apart;
        return;
      }
      const [x, y] = [event.clientX - from.x, event.clientY - from.y];
      from.isDrag ||= Math.hypot(x, y) > 4;
      if (from.isDrag && from.zoom.scale !== 1) this.#setZoom({ ...from.zoom, x: from.zoom.x + x, y: from.zoom.y + y });
    });
    stage.addEventListener("pointerup", (event) => {
      if (from && !from.isDrag) this.#toggleZoom(point(event));
      release(event);
    });
    stage.addEventListener("pointercancel", (event) => release(event));
  }

  // --------------------------------------------------------------------------- display

  /** Let people choose how images look; this browser remembers it. */
  #rememberDisplay() {
    const slide = (id, act) => {
      const slider = byId(id);
      const set = (value) => {
        if (value) localStorage.setItem(id, value);
        else localStorage.removeItem(id);
        slider.value = value || 100;
        this.frame.style.setProperty(`--${id}`, `${slider.value}%`);
        act(!!value);
      };
      set(localStorage.getItem(id));
      slider.addEventListener("input", () => set(slider.value));
      byId("usual-display").addEventListener("click", () => set(null));
    };
    slide("image-size", (isOn) => {
      this.#setZoom();
      this.frame.classList.toggle("sized", isOn);
    });
    for (const id of ["brightness", "contrast"]) slide(id, () => this.frame.classList.toggle("toned", ["brightness", "contrast"].some((name) => localStorage.getItem(name))));
    const check = (id, act) => {
      const box = byId(id);
      box.checked = localStorage.getItem(id) === "yes";
      act(box.checked);
      box.addEventListener("change", () => {
        localStorage.setItem(id, box.checked ? "yes" : "no");
        act(box.checked);
        box.blur();
      });
    };
    check("pixels", (isOn) => document.body.classList.toggle("pixels", isOn));
    check("thinks", (isOn) => {
      this.suggests = isOn;
      this.#suggest();
    });
  }

  /** Show what the model predicts for the image, if somebody wants that and it does not measure. */
  async #suggest() {
    const box = byId("thought");
    box.hidden = true;
    const item = this.current;
    if (!this.suggests || !item || item.is_repeat) return;
    if (!this.suggestions.has(item.id)) {
      const items = [item, ...this.queue].slice(0, 20).map((next) => next.id);
      const answer = await post("/api/browse", { ...this.page.signature, items }).catch(() => null);
      if (!answer) return;
      this.suggestions = new Map(answer.tiles.map((tile) => [tile.id, tile]));
    }
    const suggestion = this.suggestions.get(item.id);
    if (!suggestion?.predicted || item !== this.current) return;
    box.hidden = false;
    box.textContent = `The model thinks: ${suggestion.predicted}, ${percent(suggestion.sure)} sure`;
  }

  /** Plan more labels. */
  async planMore() {
    byId("more").blur();
    const budget = this.page.state.budget + MORE;
    const done = await post("/api/budget", { ...this.page.signature, budget }).catch((error) => toast(error.message));
    if (done) toast(`${budget} labels are planned now.`, 4);
  }
}
