// The classes: their names, order, keys, colors and descriptions; merging and deleting.

import { get, post } from "./api.js";
import { colorOf } from "./colors.js";
import { ask, button, byId, fill, h, kbd, note, speak, toast } from "./dom.js";
import { plural } from "./words.js";

export class ClassesView {
  constructor(page) {
    this.page = page;
    this.list = h("ol", { class: "class-list" });
    this.removed = h("div", { class: "card", hidden: true });
    this.name = h("input", { id: "new-class", maxlength: 80, placeholder: "Name of a new class", "aria-label": "Name of a new class" });
    const add = (event) => {
      event.preventDefault();
      page.addClass(this.name.value.trim());
      this.name.value = "";
    };
    fill(
      byId("view-classes"),
      h(
        "div",
        { class: "card" },
        h("h2", {}, "Classes"),
        note("The first ten have the digits as keys, in this order. A letter of your own and the description are for all who label; the description is shown beside the images. Changes are kept at once."),
        this.list,
        h("form", { class: "row", onsubmit: add }, this.name, h("button", { class: "button main" }, "Add")),
      ),
      this.removed,
    );
  }

  get classes() {
    return this.page.state?.classes ?? [];
  }

  enter() {
    this.update();
    this.#showRemoved();
  }

  update() {
    if (this.page.view !== "classes") return;
    const shape = JSON.stringify(this.classes.map(({ count: _, ...look }) => look));
    if (shape !== this.shape) {
      this.shape = shape;
      this.draw();
      this.#showRemoved();
    }
    this.classes.forEach((entry, place) => {
      this.list.children[place].querySelector(".count").textContent = plural(entry.count, "label");
    });
  }

  // ----------------------------------------------------------------------------- doing

  /** Keep how classes are shown, in this order. */
  async keep(classes) {
    const looks = classes.map(({ name, letter, color, description }) => ({ name, letter, color, description }));
    try {
      await post("/api/classes", { ...this.page.signature, classes: looks });
    } catch (error) {
      toast(error.message);
      this.draw();
    }
  }

  set(place, facts) {
    this.keep(this.classes.map((entry, other) => (other === place ? { ...entry, ...facts } : entry)));
  }

  move(place, step) {
    const classes = [...this.classes];
    const [entry] = classes.splice(place, 1);
    classes.splice(place + step, 0, entry);
    this.focused = `${entry.name} ${step < 0 ? "up" : "down"}`;
    this.keep(classes);
    speak(`${entry.name} is number ${place + step + 1} now.`);
  }

  /** Rename, merge, delete or restore a class; `words` says what came of it. */
  change(verb, name, other, words) {
    const change = { ...this.page.signature, uuid: crypto.randomUUID(), verb, name, path: "/api/classes/change" };
    if (other) change.other = other;
    this.page.outbox.add(change, (answer) => {
      if (!answer) return this.draw();
      toast(words(answer.num_labels), 8);
      this.#showRemoved();
    });
  }

  rename(place, name) {
    const { name: old } = this.classes[place];
    if (name && name !== old) this.change("rename", old, name, () => `${old} is called ${name} now.`);
    else this.draw();
  }

  async merge(place) {
    const { name, count } = this.classes[place];
    const others = this.classes.filter((entry) => entry.name !== name);
    const select = h("select", { "aria-label": `Merge ${name} into` }, others.map((entry) => h("option", {}, entry.name)));
    const text = h("p", { class: "wrap" }, `All labels of ${name} (${count}) get the class that you choose, also random checks of the model, and ${name} is not in use any more. You can bring it back with its labels.`);
    if (!(await ask(`Merge ${name} into`, h("div", { class: "import" }, select, text), { merge: "Merge" }))) return;
    const into = select.value;
    this.change("merge", name, into, (number) => `${plural(number, "label")} of ${name} ${number === 1 ? "is" : "are"} ${into} now. Below the classes you can bring it back.`);
  }

  async delete(place) {
    const { name, count } = this.classes[place];
    const text = count ? `${plural(count, "image")} labeled ${name} will have no label: they count as skipped, and nobody is asked about them again. To give them another class, merge ${name} into it instead.` : `No image is labeled ${name}.`;
    if (!(await ask(`Delete ${name}?`, h("p", { class: "wrap" }, `${text} You can bring the class back with its labels.`), { delete: "Delete" }))) return;
    this.change("delete", name, null, () => `${name} is deleted. Below the classes you can bring it back.`);
  }

  // --------------------------------------------------------------------------- drawing

  draw() {
    const focused = this.focused ?? document.activeElement?.dataset?.key;
    this.focused = null;
    const keys = this.page.views.label.keys;
    fill(this.list, this.classes.map((entry, place) => this.#row(entry, place, keys[place])));
    if (focused) this.list.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
  }

  #row(entry, place, key) {
    const { name, letter, description } = entry;
    const field = (what, props) => h("input", { ...props, "data-key": `${name} ${what}`, "aria-label": `${what} of ${name}`, title: what });
    const action = (what, text, act, props = {}) => button(text, act, { "data-key": `${name} ${what}`, "aria-label": `${what} ${name}`, ...props });
    return h(
      "li",
      {},
      field("Color", { type: "color", value: colorOf(entry), onchange: (event) => this.set(place, { color: event.target.value }) }),
      kbd(key?.digit || "…"),
      field("Letter", { class: "letter", maxlength: 1, value: letter, placeholder: key?.letter ?? "", onchange: (event) => this.set(place, { letter: event.target.value.trim().toLowerCase() }) }),
      field("Name", { class: "name", maxlength: 80, value: name, onchange: (event) => this.rename(place, event.target.value.trim()) }),
      field("Description", { class: "description", maxlength: 500, value: description, placeholder: "What belongs to it", onchange: (event) => this.set(place, { description: event.target.value.trim() }) }),
      h("span", { class: "count quiet" }),
      h(
        "span",
        { class: "buttons" },
        action("up", "↑", () => this.move(place, -1), { disabled: place === 0 }),
        action("down", "↓", () => this.move(place, 1), { disabled: place === this.classes.length - 1 }),
        action("Merge", "Merge …", () => this.merge(place)),
        action("Delete", "Delete …", () => this.delete(place)),
      ),
    );
  }

  async #showRemoved() {
    const { removed } = await get("/api/classes/removed").catch(() => ({ removed: [] }));
    const content = JSON.stringify(removed);
    if (content === this.content) return; // a button keeps its focus
    this.content = content;
    this.removed.hidden = !removed.length;
    const rows = removed.map(({ name, into, num_labels: number }) => {
      const was = into ? `merged into ${into}` : "deleted";
      const back = () => this.change("restore", name, null, (restored) => `${name} is back with ${plural(restored, "label")}.`);
      return h("li", {}, h("span", { class: "wrap" }, h("b", {}, name), `, ${was}, ${plural(number, "label")} `), button("Bring back", back, { "aria-label": `Bring back ${name}` }));
    });
    fill(this.removed, h("h2", {}, "Merged and deleted classes"), note("A class comes back with the labels that nobody has changed since."), h("ul", { class: "removed-list" }, rows));
  }
}
