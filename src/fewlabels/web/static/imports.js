// Labels that exist already: a file is dropped or chosen, looked at, imported, undone.

import { post, upload } from "./api.js";
import { byId, choose, h, isAsking, speak, toast } from "./dom.js";

const MOST_BYTES = 20 * 1024 * 1024;

const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

/** What an import would do, in words. */
function described(found) {
  const parts = [`${plural(found.num_new, "new label")}.`];
  if (found.num_same) parts.push(`${found.num_same} known already.`);
  if (found.num_blank) parts.push(`${plural(found.num_blank, "row")} without a class.`);
  if (found.columns.label) parts.push(`File names are in the column ${found.columns.file_name}, classes in ${found.columns.label}.`);
  const list = (title, lines, total) =>
    total ? h("div", {}, h("p", {}, `${title}: ${total}`), h("ul", { class: "faults" }, lines.map((line) => h("li", {}, line)), total > lines.length ? h("li", {}, `and ${total - lines.length} more`) : null)) : null;
  const counts = Object.entries(found.class_counts).map(([name, count]) => `${name} ${count}`);
  return h(
    "div",
    { class: "import" },
    h("p", {}, parts.join(" ")),
    counts.length ? h("p", { class: "quiet wrap" }, counts.join(", ")) : null,
    found.new_classes.length ? h("p", {}, `New classes: ${found.new_classes.join(", ")}`) : null,
    list("Not imported", found.faults, found.num_faults),
    list("Left out, because they measure", found.left_out, found.num_left_out),
  );
}

function choices(found) {
  const offered = {};
  if (found.num_new) offered.import = found.num_faults ? `Import the ${plural(found.num_new, "good label")}` : `Import ${plural(found.num_new, "label")}`;
  if (found.unknown_classes.length) offered.add = `Also add ${plural(found.unknown_classes.length, "class").replace("classs", "classes")}`;
  return offered;
}

export class Imports {
  constructor(desk) {
    this.desk = desk;
    this.input = byId("import-file");
    byId("import").addEventListener("click", () => this.open());
    this.input.addEventListener("change", () => {
      const [file] = this.input.files;
      if (file) this.look(file);
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
      if (!isAsking()) this.look(file);
    });
  }

  /** Say what can be imported; choose a file, or undo the last import. */
  async open() {
    const count = this.desk.state?.imported ?? 0;
    const offered = { file: "Choose a file" };
    if (count) offered.undo = "Undo the last import";
    const text = "Labels that you have already: a table (.csv, .jsonl, .parquet) with a file name and a class in each row, or an export of Label Studio (.json). Choose the file, or drop it on this page.";
    const answer = await choose("Import labels", h("div", { class: "import" }, h("p", {}, text), count ? h("p", { class: "quiet" }, `${plural(count, "label")} imported so far.`) : null), offered);
    if (answer === "file") this.input.click();
    if (answer === "undo") await this.undo(null);
  }

  /** Show what a file would bring, and import it if that is wanted. */
  async look(file, addClasses = false) {
    if (file.size > MOST_BYTES) return toast(`${file.name} has more than 20 MB; import it with the command fewlabels import.`);
    const wish = { ...this.desk.signature, name: file.name.slice(-200), add_classes: addClasses, uuid: crypto.randomUUID() };
    try {
      const found = await upload("/api/import", { ...wish, dry_run: true }, file);
      const answer = await choose(`Import ${file.name}`, described(found), choices(found));
      if (answer === "add") return this.look(file, true);
      if (answer !== "import") return;
      const done = await upload("/api/import", { ...wish, partial: found.num_faults > 0 }, file);
      this.tell(done);
      this.desk.beat(); // what this tab showed may have its label now
    } catch (error) {
      toast(error.message, 12);
    }
  }

  tell(done) {
    const text = `${plural(done.num_new, "label")} imported.`;
    speak(text);
    const undo = h("button", { type: "button", class: "button", onclick: () => (shown.remove(), this.undo(done.uuid)) }, "Undo");
    const shown = h("div", { class: "toast" }, text, " ", undo);
    byId("toasts").append(shown);
    setTimeout(() => shown.remove(), 30000);
  }

  async undo(uuid) {
    try {
      const undone = await post("/api/import/undo", { ...this.desk.signature, ...(uuid ? { uuid } : {}) });
      toast(`${plural(undone.num_labels, "imported label")} taken back.`);
    } catch (error) {
      toast(error.message);
    }
  }
}
