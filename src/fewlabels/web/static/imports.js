// Import existing labels: drop or choose a file, preview it, import it, undo that.

import { post, upload } from "./api.js";
import { ask, byId, h, isAsking, speak, toast, wait } from "./dom.js";
import { plural } from "./words.js";

const MOST_BYTES = 20 * 1024 * 1024;

/** Describe what an import would do. */
function summary(preview) {
  const parts = [`${plural(preview.num_new, "new label")}.`];
  if (preview.num_same) parts.push(`${preview.num_same} known already.`);
  if (preview.num_blank) parts.push(`${plural(preview.num_blank, "row")} without a class.`);
  if (preview.columns.label) parts.push(`File names are in the column ${preview.columns.file_name}, classes in ${preview.columns.label}.`);
  const list = (title, lines, total) =>
    total ? h("div", {}, h("p", {}, `${title}: ${total}`), h("ul", { class: "faults" }, lines.map((line) => h("li", {}, line)), total > lines.length ? h("li", {}, `and ${total - lines.length} more`) : null)) : null;
  const counts = Object.entries(preview.class_counts).map(([name, count]) => `${name} ${count}`);
  return h(
    "div",
    { class: "import" },
    h("p", {}, parts.join(" ")),
    counts.length ? h("p", { class: "quiet wrap" }, counts.join(", ")) : null,
    preview.new_classes.length ? h("p", {}, `New classes: ${preview.new_classes.join(", ")}`) : null,
    list("Not imported", preview.faults, preview.num_faults),
    list("Left out, because these images are random checks of the model", preview.left_out, preview.num_left_out),
  );
}

function choices(preview) {
  const offered = {};
  if (preview.num_new) offered.import = preview.num_faults ? `Import the ${plural(preview.num_new, "good label")}` : `Import ${plural(preview.num_new, "label")}`;
  if (preview.unknown_classes.length) offered.add = preview.unknown_classes.length === 1 ? `Also add the class ${preview.unknown_classes[0]}` : `Also add ${preview.unknown_classes.length} classes`;
  return offered;
}

export class Imports {
  constructor(page) {
    this.page = page;
    this.input = byId("import-file");
    this.hasImported = false; // by this tab; the state may not count that yet
    byId("import").addEventListener("click", () => this.open());
    this.input.addEventListener("change", () => {
      const [file] = this.input.files;
      if (file) this.preview(file);
      this.input.value = "";
    });
    document.addEventListener("dragover", (event) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      document.body.classList.add("dropping");
    });
    document.addEventListener("dragleave", (event) => {
      if (!event.relatedTarget) document.body.classList.remove("dropping");
    });
    document.addEventListener("drop", (event) => {
      document.body.classList.remove("dropping");
      const [file] = event.dataTransfer?.files ?? [];
      if (!file) return;
      event.preventDefault(); // else the browser would show the file in the page's place
      if (!isAsking() && !this.isSending) this.preview(file);
    });
  }

  /** Send the file, and say so until the answer is there. */
  async #send(words, wish, file) {
    const box = h("div", { class: "toast", role: "status" });
    byId("toasts").append(box);
    this.isSending = true;
    try {
      return await wait(box, words, upload("/api/import", wish, file));
    } finally {
      this.isSending = false;
      box.remove();
    }
  }

  /** Explain what can be imported; choose a file, or undo the last import. */
  async open() {
    const count = this.page.state?.imported ?? 0;
    const offered = { file: "Choose a file" };
    if (count || this.hasImported) offered.undo = "Undo the last import";
    const text = "Import existing labels from a table (.csv, .jsonl, .parquet) with a file name and a class in each row, or from a Label Studio export (.json). Choose the file, or drop it on this page.";
    const answer = await ask("Import labels", h("div", { class: "import" }, h("p", {}, text), count ? h("p", { class: "quiet" }, `${plural(count, "label")} imported so far.`) : null), offered);
    if (answer === "file") this.input.click();
    if (answer === "undo") await this.undo(null);
  }

  /** Show what importing a file would do, and import it on request. */
  async preview(file, addClasses = false) {
    if (file.size > MOST_BYTES) return toast(`${file.name} has more than 20 MB; import it with the command fewlabels import.`);
    const wish = { ...this.page.signature, name: file.name.slice(-200), add_classes: addClasses, uuid: crypto.randomUUID() };
    try {
      const preview = await this.#send(`Reading ${file.name}: comparing its rows with the images …`, { ...wish, dry_run: true }, file);
      const answer = await ask(`Import ${file.name}`, summary(preview), choices(preview));
      if (answer === "add") return this.preview(file, true);
      if (answer !== "import") return;
      const done = await this.#send(`Importing ${plural(preview.num_new, "label")} …`, { ...wish, partial: preview.num_faults > 0 }, file);
      this.announce(done);
      this.page.heartbeat(); // what this tab showed may have its label now
    } catch (error) {
      toast(error.message, 12);
    }
  }

  announce(done) {
    this.hasImported = true;
    const text = `${plural(done.num_new, "label")} imported.`;
    speak(text);
    toast(text, 30, ["Undo", () => this.undo(done.uuid)]);
  }

  async undo(uuid) {
    try {
      const undone = await post("/api/import/undo", { ...this.page.signature, ...(uuid ? { uuid } : {}) });
      this.hasImported = false;
      toast(`${plural(undone.num_labels, "imported label")} taken back.`);
    } catch (error) {
      toast(error.message);
    }
  }
}
