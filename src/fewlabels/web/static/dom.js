// Elements without markup: every text is only ever text.

export const byId = (id) => document.getElementById(id);

const present = (children) => children.flat().filter((child) => child !== null && child !== undefined);

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
  element.append(...present(children));
  return element;
}

export function fill(element, ...children) {
  element.replaceChildren(...present(children));
}

export function button(content, onclick, props = {}) {
  return h("button", { type: "button", class: "button", onclick, ...props }, content);
}

/** Offers to ask once more for what did not come. */
export const again = (act) => button("Try again", act, { class: "link" });

export const kbd = (text) => h("kbd", {}, text);

/** Which keys do what, in short. */
export const hints = (...pairs) => h("span", { class: "keys quiet" }, pairs.flatMap(([key, text]) => [kbd(key), ` ${text} `]));

/** Whether people most likely touch the screen. */
export const isTouch = () => matchMedia("(pointer: coarse)").matches;

export const option = (value, text, selected = false) => h("option", { value, selected }, text);

/** A paragraph of small print. */
export const note = (...content) => h("p", { class: "quiet wrap" }, ...content);

/** A table: titles of columns, and rows of cells, which are text or elements; with roles, since a phone lays rows out anew. */
export function table(titles, rows) {
  const cell = (content) => (content instanceof Element && /^T[DH]$/.test(content.tagName) ? content : h("td", { role: "cell" }, content));
  const head = h("tr", { role: "row" }, titles.map((text) => h("th", { scope: "col", role: "columnheader" }, text)));
  return h("table", { class: "balance", role: "table" }, h("thead", { role: "rowgroup" }, head), h("tbody", { role: "rowgroup" }, rows.map((cells) => h("tr", { role: "row" }, cells.map(cell)))));
}

/** Show a message for some seconds; `action` is the text and the function of a button. One about a `topic` takes the place of the one before. */
export function toast(text, seconds = 6, action = null, topic = "") {
  const act = () => {
    shown.remove();
    action[1]();
  };
  const shown = h("div", { class: "toast" }, text, action && [" ", button(action[0], act)]);
  if (topic) byId("toasts").querySelector(`[data-topic="${topic}"]`)?.remove();
  shown.dataset.topic = topic;
  byId("toasts").append(shown);
  setTimeout(() => shown.remove(), seconds * 1000);
}

const usual = new Map(); // seconds that each wait took the last time, by its words

/** Say what is waited for and, after a second, for how long already; a promise of what comes. */
export async function wait(box, words, promise) {
  const time = h("span", { "aria-hidden": "true" }); // nobody wants to hear every second
  const shown = h("span", { class: "wait" }, words, time);
  const begun = performance.now();
  const passed = () => Math.round((performance.now() - begun) / 1000);
  const show = () => fill(box, shown);
  const soon = setTimeout(show, box.textContent ? 300 : 0); // else it would flicker
  const timer = setInterval(() => {
    time.textContent = ` ${passed()} s${usual.has(words) ? `; it took ${usual.get(words)} s the last time` : ""}`;
  }, 1000);
  try {
    return await promise;
  } finally {
    clearTimeout(soon);
    clearInterval(timer);
    shown.classList.remove("wait");
    if (passed()) usual.set(words, passed());
  }
}

/** Announce something to screen readers. */
export function speak(text) {
  byId("spoken").textContent = text;
}

/** Show a dialog with a button for each choice, or only one to close it; a promise of what was typed into the input, if there is one, or else of the chosen name, or null. */
export function ask(title, content, choices = null, input = null) {
  const dialog = byId("dialog");
  return new Promise((resolve) => {
    let answer = null;
    const field = input === null ? null : h("input", { "aria-label": title, maxlength: 80, value: input });
    const close = (name) => {
      answer = field ? field.value.trim() : name;
      dialog.close();
    };
    const offered = choices ?? { close: "Close" };
    const names = Object.keys(offered);
    const kind = names.length === 1 ? "button main" : "button";
    const onsubmit = (event) => {
      event.preventDefault();
      close(names[0]);
    };
    const buttons = names.map((name) => button(offered[name], () => close(name), { class: kind, autofocus: !choices }));
    const cancel = choices ? button("Cancel", () => dialog.close()) : null;
    fill(dialog, h("form", { onsubmit }, h("h2", { id: "dialog-title" }, title), content, field, h("div", { class: "row" }, cancel, buttons)));
    dialog.onclose = () => dialog.open || resolve(answer); // open: another one by now
    dialog.showModal();
    field?.select();
  });
}

export const isAsking = () => byId("dialog").open;
