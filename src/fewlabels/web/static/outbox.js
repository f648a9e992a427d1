// What was done and not yet acknowledged. It is written to the browser's storage before
// it is sent, in order, each under a name of its own: sent twice, it counts once.

import { post, Refused } from "./api.js";

const WAITS = [200, 400, 800, 1500, 3000]; // milliseconds

export class Outbox {
  constructor(project, tab, onChange, onRefused) {
    this.prefix = `fewlabels:${project}:`;
    this.key = this.prefix + tab;
    this.onChange = onChange;
    this.onRefused = onRefused;
    this.actions = this.#adopted();
    this.waiting = new Map(); // what to do with the answer, by uuid
    this.sequence = 0; // of the last event that was acknowledged
    this.isSending = false;
    this.tries = 0;
    this.#keep();
    this.#send();
  }

  get size() {
    return this.actions.length;
  }

  get isStuck() {
    return this.tries > 1;
  }

  /** Do something; `then` is called with the answer, or null, if the page is still there. */
  add(action, then) {
    this.actions.push(action);
    if (then) this.waiting.set(action.uuid, then);
    this.#keep();
    this.#send();
  }

  /** Take over what other tabs have left unsent, closed or not: sent twice, it counts once. */
  #adopted() {
    const actions = [];
    for (const key of Object.keys(localStorage)) {
      if (!key.startsWith(this.prefix)) continue;
      try {
        actions.push(...JSON.parse(localStorage.getItem(key)));
      } catch {
        continue; // not ours, or cut off
      }
      if (key !== this.key) localStorage.removeItem(key);
    }
    return actions;
  }

  #keep() {
    if (this.actions.length) localStorage.setItem(this.key, JSON.stringify(this.actions));
    else localStorage.removeItem(this.key);
    this.onChange(this);
  }

  async #send() {
    if (this.isSending) return;
    this.isSending = true;
    while (this.actions.length) {
      const action = this.actions[0];
      try {
        const { path = "/api/act", ...body } = action;
        const answer = await post(path, body);
        this.tries = 0;
        this.sequence = Math.max(this.sequence, answer.saved ?? 0);
        this.#done(action, answer);
      } catch (error) {
        if (error instanceof Refused && error.status >= 400 && error.status < 500 && ![401, 403, 408, 413, 429].includes(error.status)) {
          this.tries = 0;
          this.#done(action, null);
          this.onRefused(action, error);
        } else {
          this.lastError = error;
          const wait = WAITS[Math.min(this.tries, WAITS.length - 1)];
          this.tries += 1;
          this.onChange(this);
          await new Promise((go) => setTimeout(go, wait));
        }
      }
    }
    this.isSending = false;
  }

  #done(action, answer) {
    this.actions.shift();
    this.#keep();
    const then = this.waiting.get(action.uuid);
    this.waiting.delete(action.uuid);
    if (then) then(answer);
  }
}
