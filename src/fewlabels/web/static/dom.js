// Elements without markup: every text is only ever text.

export const byId = (id) => document.getElementById(id);

/** Make an element: properties by name, listeners as on..., children as text or nodes. */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

export function fill(element, ...children) {
  element.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined));
}

/** Tell something that passes. */
export function toast(text, seconds = 6) {
  const shown = h("div", { class: "toast" }, text);
  byId("toasts").append(shown);
  setTimeout(() => shown.remove(), seconds * 1000);
}

/** Say something to whoever hears the page. */
export function speak(text) {
  byId("spoken").textContent = text;
}

/** Show a dialog until it is closed; a promise of what the form holds, or null. */
export function ask(title, content, { input = false, action = "OK", canCancel = input !== false } = {}) {
  const dialog = byId("dialog");
  return new Promise((resolve) => {
    let answer = null;
    const field = input === false ? null : h("input", { "aria-label": title, maxlength: 80, value: input });
    const form = h(
      "form",
      {
        onsubmit: (event) => {
          event.preventDefault();
          answer = field ? field.value.trim() : true;
          dialog.close();
        },
      },
      h("h2", { id: "dialog-title" }, title),
      content,
      field,
      h(
        "div",
        { class: "row" },
        canCancel ? h("button", { type: "button", class: "button", onclick: () => dialog.close() }, "Cancel") : null,
        h("button", { class: "button main" }, action),
      ),
    );
    fill(dialog, form);
    dialog.onclose = () => resolve(answer);
    dialog.showModal();
    if (field) field.select();
  });
}

/** Show a dialog with a button for each choice; a promise of the chosen name, or null. */
export function choose(title, content, choices) {
  const dialog = byId("dialog");
  return new Promise((resolve) => {
    let answer = null;
    const pick = (name) => () => {
      answer = name;
      dialog.close();
    };
    const buttons = Object.entries(choices).map(([name, words]) => h("button", { type: "button", class: "button", onclick: pick(name) }, words));
    fill(dialog, h("form", {}, h("h2", { id: "dialog-title" }, title), content, h("div", { class: "row" }, h("button", { type: "button", class: "button", onclick: () => dialog.close() }, "Cancel"), ...buttons)));
    dialog.onclose = () => resolve(answer);
    dialog.showModal();
  });
}

export const isAsking = () => byId("dialog").open;
