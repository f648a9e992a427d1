// The page: who labels, the state that the server sends, which view is shown.

import { get, listen, post } from "./api.js";
import { BrowseView } from "./browse.js";
import { ClassesView } from "./classes.js";
import { ask, button, byId, fill, h, isAsking, kbd, note, speak, toast } from "./dom.js";
import { Imports } from "./imports.js";
import { LabelView } from "./label.js";
import { Outbox } from "./outbox.js";
import { ResultsView } from "./results.js";
import { ReviewView } from "./review.js";
import { progressOf, timeLeft } from "./words.js";

/** The views in the order of their tabs: name, title, key with Shift, class. */
const VIEWS = [
  ["label", "Label", "L", LabelView],
  ["review", "Review", "R", ReviewView],
  ["browse", "Browse", "B", BrowseView],
  ["results", "Results", "S", ResultsView],
  ["classes", "Classes", "C", ClassesView],
];

const HEARTBEAT = 30000; // milliseconds; leases last four times as long

/** Titles of the jobs that are shown, and which of them can be stopped. */
const JOBS = {
  features: "Looking at all images",
  round: "Learning, and choosing images",
  training: "Training",
  export: "Exporting",
  estimate: "Measuring how long the final training takes",
  final: "Final training",
};
const CAN_STOP = ["features", "training", "final"];

/** What starts a job once more that has failed. */
const AGAIN = { training: "train", export: "export", estimate: "estimate", final: "final" };

class Page {
  constructor(project) {
    this.project = project;
    this.state = null;
    this.views = {};
    this.view = "label";
    this.tab = crypto.randomUUID(); // stored, a duplicated tab would have it, too
    this.annotator = localStorage.getItem("annotator") || null;
    this.outbox = new Outbox(
      project.identity,
      this.tab,
      () => this.drawSaved(),
      (action, error) => this.refuse(action, error),
    );
    this.statusBefore = {};
    this.begun = {}; // when this tab first saw each job run
    this.closed = {}; // errors of jobs that were read and closed
    this.started = new Set(); // jobs that this tab started: only it shows what came of them
  }

  get signature() {
    return this.annotator ? { tab: this.tab, annotator: this.annotator } : { tab: this.tab };
  }

  action(verb, more = {}) {
    return { ...this.signature, uuid: crypto.randomUUID(), verb, ...more };
  }

  /** Send a change of the answers about some images until it is taken; a promise of the answer, null: it was refused. */
  change(change) {
    return new Promise((resolve) => this.outbox.add({ ...this.signature, uuid: crypto.randomUUID(), ...change, path: "/api/change" }, resolve));
  }

  addClass(name) {
    if (name) this.outbox.add(this.action("add_class", { name }), (answer) => answer && speak(`Class ${name} added.`));
  }

  /** Count at once what the server will confirm. */
  count(verb, name, step) {
    if (!this.state) return;
    const entry = this.state.classes.find((known) => known.name === name);
    if (verb === "label" && entry) {
      if (this.project.overlap === 1) entry.count += step; // else others have to agree
      this.state.spent += step;
    }
    if (this.state.round) this.state.round.open = Math.max(0, this.state.round.open - step);
    this.drawMeters();
  }

  /** Keep what this tab holds, and learn what others took over while it slept. */
  async heartbeat() {
    if (this.outbox.size) return; // the server does not know yet what is taken back
    const known = this.views.label.heldIds();
    const answer = await post("/api/stay", this.signature).catch(() => null);
    if (answer && !this.outbox.size) this.views.label.release(known, new Set(answer.items));
  }

  update(state) {
    if (this.isAway) this.heartbeat();
    this.isAway = false;
    this.drawJobs(state.jobs);
    // What is older than the last acknowledged answer would count backwards.
    if (this.state && (this.outbox?.size || state.sequence < this.outbox.sequence)) {
      this.state.jobs = state.jobs;
    } else {
      this.state = state;
    }
    document.body.classList.remove("opening");
    this.drawMeters();
    this.drawSaved();
    for (const view of Object.values(this.views)) view.update?.(this.state);
  }

  disconnect() {
    this.isAway = true;
    this.drawSaved();
  }

  refuse(action, error) {
    this.views.label.refuse(action);
    toast(error.message);
  }

  /** Make the views with their tabs and sections. */
  build() {
    for (const [name, title, key, View] of VIEWS) {
      if (!byId(`view-${name}`)) {
        document.querySelector("main").append(h("section", { id: `view-${name}`, class: `${name}-view`, "aria-label": title, hidden: true }));
      }
      byId("tabs").append(button([`${title} `, kbd(`⇧${key}`)], () => this.go(name), { class: "", "data-view": name }));
      this.views[name] = new View(this);
    }
    addEventListener("popstate", () => this.open(location.hash));
  }

  /** Show a view, and a part of it such as `/cat` or `?label=cat`; its address can be shared. */
  go(name, part = "") {
    const hash = `#${name}${part}`;
    if (location.hash !== hash) history.pushState(null, "", hash);
    this.#show(name, part);
  }

  /** Show the view of an address. */
  open(hash) {
    const [, name, part] = /^#?([^/?]*)(.*)$/s.exec(hash);
    this.#show(this.views[name] ? name : "label", part);
  }

  /** Let a view say which part of it is shown. */
  setAddress(part) {
    history.replaceState(null, "", `#${this.view}${part}`);
  }

  #show(name, part) {
    if (name !== this.view) this.views[this.view].leave?.();
    this.view = name;
    for (const [other] of VIEWS) byId(`view-${other}`).hidden = other !== name;
    for (const button of document.querySelectorAll("[data-view]")) {
      if (button.dataset.view === name) button.setAttribute("aria-current", "page");
      else button.removeAttribute("aria-current");
    }
    this.views[name].enter?.(part);
  }

  /** Start a job: train, export, round, features ...; or cancel/... */
  start(job) {
    this.started.add(job.replace("-as-is", ""));
    return post(`/api/${job}`).catch((error) => toast(error.message));
  }

  // ------------------------------------------------------------------------- drawing

  drawMeters() {
    const { spent, budget } = this.state;
    byId("spent").textContent = spent;
    byId("of").textContent = budget;
    byId("budget").max = budget;
    byId("budget").value = spent;
    byId("who").textContent = this.annotator || "you";
  }

  drawSaved() {
    const box = byId("saved");
    const size = this.outbox?.size ?? 0;
    let [kind, text] = ["good", "Saved"];
    if (this.outbox?.isStuck || this.isAway) {
      const status = this.outbox?.lastError?.status;
      const signedOut = size && (status === 401 || status === 403);
      [kind, text] = signedOut ? ["bad", "Sign in again"] : ["warn", size ? `${size} unsent, trying` : "Connecting"];
    } else if (size > 3) {
      [kind, text] = ["warn", `${size} unsent`];
    } else if (size) {
      text = "Saving";
    }
    box.className = `pill ${kind}`;
    box.title = size ? "Kept in this browser until the server has them" : "All answers are on the server's disk";
    box.dataset.unsent = size;
    if (box.textContent !== text) box.textContent = text;
  }

  drawJobs(jobs) {
    const rows = [];
    for (const [name, title] of Object.entries(JOBS)) {
      const job = jobs[name];
      const action = (text, path) => button(text, () => this.start(path), { class: "" });
      if (job.status === "running") {
        const bar = job.total ? h("progress", { max: job.total, value: job.done, "aria-label": title }) : null;
        const stop = CAN_STOP.includes(name) ? action("Stop", `cancel/${name}`) : null;
        if (this.statusBefore[name] !== "running") this.begun[name] = performance.now();
        const expected = name === "final" && !job.total ? ` ${jobs.estimate.result?.expected ?? ""}` : "";
        const clock = timeLeft(job) ? null : h("span", { class: "clock", "aria-hidden": "true", "data-begun": this.begun[name] });
        rows.push(h("span", { class: "job" }, h("span", {}, progressOf(job, `${title} …`), expected, clock), bar, stop));
      } else if (job.status === "failed" && name !== "round" && this.closed[name] !== job.error) {
        const close = button("Close", () => {
          this.closed[name] = job.error;
          this.drawJobs(jobs);
        }, { class: "", "aria-label": `Close the message: ${title}` });
        rows.push(h("span", { class: "job bad" }, `${title}: ${job.error}`, AGAIN[name] ? action("Try again", AGAIN[name]) : null, name === "features" ? null : close));
      }
      if (job.status === "running") delete this.closed[name];
      if (name === "features" && (job.status === "failed" || job.status === "canceled")) {
        rows.push(h("span", { class: "job" }, "Without it the model cannot predict, or choose images.", action("Go on", "features")));
      }
      const isOver = this.statusBefore[name] === "running" && job.status !== "running";
      if (isOver && this.started.delete(name)) this.#report(name, job);
      this.statusBefore[name] = job.status;
    }
    fill(byId("jobs"), rows.length ? rows : h("span", { class: "quiet" }, "Nothing runs in the background."));
    this.drawClocks();
  }

  /** Say how long the jobs have run that do not know how long they will. */
  drawClocks() {
    for (const clock of document.querySelectorAll(".clock")) {
      const seconds = Math.round((performance.now() - clock.dataset.begun) / 1000);
      clock.textContent = seconds ? ` ${seconds} s so far` : "";
    }
  }

  /** Say what came of a job that this tab started, and ask what follows. */
  async #report(name, job) {
    let next = null;
    if (name === "export" && job.status === "done") {
      ask("Exported", h("div", {}, h("p", {}, job.result.message), h("p", { class: "quiet wrap" }, job.result.files.join(", "))));
    } else if (name === "export" && job.status === "asks") {
      next = await ask("Export", h("p", {}, job.error), { train: "Train first", "export-as-is": "Export as it is" });
    } else if (name === "estimate" && job.status === "done" && !job.result.expected) {
      ask("Final training", h("p", {}, "There is nothing to train: the latest model is such a network already, or fewer than two classes have labels to learn from."));
    } else if (name === "estimate" && job.status === "done") {
      const text = `A network is trained from scratch on all images by ${job.result.trainer}. ${job.result.expected} You can label meanwhile. It learns from the labels that are there when it begins, and becomes the latest model when it is finished.`;
      next = await ask("Final training", h("p", {}, text), { final: "Start" });
    } else if (name === "final" && job.status === "done") {
      toast(`The final training is finished: ${job.result.model} learned from ${job.result.num_labels} labels.`, 12);
    }
    if (next) this.start(next);
  }

  async rename() {
    const name = await ask("Who labels?", note("Answers are kept by name, so that several people can work on one project."), { use: "Use this name" }, this.annotator ?? "");
    if (!name) return;
    await post("/api/leave", this.signature).catch(() => {});
    this.annotator = name;
    localStorage.setItem("annotator", name);
    location.reload();
  }
}

function press(page, event) {
  if (isAsking() || event.metaKey || event.altKey) return;
  if (event.ctrlKey) {
    if (event.key === "z") {
      event.preventDefault();
      page.views[page.view].undo?.();
    }
    return;
  }
  // A dialog that was closed a moment ago may have the focus until the next frame.
  if (event.target.matches("input, select, textarea") && !event.target.closest("dialog:not([open])")) {
    if (event.key === "Escape" || (event.key === "Enter" && !event.target.form)) event.target.blur();
    return;
  }
  if (event.target instanceof HTMLButtonElement && (event.key === "Enter" || event.key === "Tab")) return;
  const everywhere = {
    "?": () => page.views.label.help(),
    ...Object.fromEntries(VIEWS.map(([name, , key]) => [key, () => page.go(name)])),
    T: () => page.start("train"),
    E: () => page.start("export"),
    N: () => page.views.label.addClass(),
    ...(page.view === "label" ? { X: () => page.views.label.examples() } : {}), // else it excludes
    U: () => page.view === "label" && page.views.label.answer("unsure"),
  };
  const isEverywhere = event.key in everywhere && (event.shiftKey || event.key === "?");
  const act = isEverywhere ? everywhere[event.key] : page.views[page.view].actionOf?.(event);
  if (!act) return;
  event.preventDefault();
  act();
}

/** Show what is being done until there is a project. */
function drawCreation(job) {
  let [title, text, more] = [job ? "Opening the project …" : "Waiting for the server …", "", h("div", { class: "spinner" })];
  if (job?.status === "failed") {
    [title, text, more] = ["The project could not be created", `${job.error} Correct that and run the command again.`, null];
  } else if (job?.status === "running") {
    title = "Creating the project …";
    text = job.total
      ? `${progressOf(job)}. Then the first images to label appear here.`
      : "The program starts and looks at the images. The first ones to label appear here, most often within half a minute.";
  }
  const box = byId("message");
  if (box.textContent !== title + text) fill(box, h("h2", {}, title), h("p", {}, text), more);
}

/** Wait for the project, which may be created only now; null: that failed. */
async function waitForProject() {
  for (;;) {
    const jobs = await get("/api/jobs").catch(() => null);
    const isThere = jobs && !["running", "failed"].includes(jobs.creation.status);
    const project = isThere ? await get("/api/project").catch(() => null) : null;
    if (project) return project;
    drawCreation(jobs?.creation);
    if (jobs?.creation.status === "failed") return null;
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
}

async function main() {
  history.replaceState(null, "", `/${location.hash}`); // the token is a cookie now
  const project = await waitForProject();
  if (!project) return;
  document.title = `${project.name} · fewlabels`;
  byId("name").textContent = project.name;
  const page = new Page(project);
  page.build();
  new Imports(page);
  byId("who").addEventListener("click", () => page.rename());
  document.addEventListener("keydown", (event) => press(page, event));
  listen((state) => page.update(state), () => page.disconnect());
  setInterval(() => page.heartbeat(), HEARTBEAT);
  setInterval(() => page.drawClocks(), 1000);
  document.addEventListener("visibilitychange", () => document.hidden || page.heartbeat());
  window.addEventListener("pagehide", () => {
    post("/api/leave", page.signature, { keepalive: true }).catch(() => {});
  });
  page.views.label.show(null);
  page.open(location.hash);
}

main();
