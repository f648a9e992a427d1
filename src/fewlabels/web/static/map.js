// Images as points in the plane, like ones near each other. All points are written into
// one picture: a hundred thousand of them take milliseconds.

import { h } from "./dom.js";

const NONE = 65535;
const MOST_CORNERS = 100;
const NEAR = 12; // pixels from the pointer to a point that it means

const decode = (text) => new Uint16Array(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);

const rgb = (hex) => [1, 3, 5].map((start) => parseInt(hex.slice(start, start + 2), 16));
const packed = ([red, green, blue]) => (255 << 24) | (blue << 16) | (green << 8) | red;

export class PointMap {
  constructor({ onRegion, onPoint }) {
    this.onRegion = onRegion;
    this.onPoint = onPoint;
    this.color = "label"; // or predicted, or sure
    this.points = null;
    this.lasso = null; // corners while one is drawn
    this.pointers = new Map(); // those that are down
    this.canvas = h("canvas", { class: "map-canvas", tabindex: "0", role: "img", onpointerdown: (event) => this.#down(event), onpointermove: (event) => this.#move(event), onpointerup: (event) => this.#up(event), onpointercancel: (event) => this.pointers.delete(event.pointerId), onwheel: (event) => this.#wheel(event) });
    this.legend = h("ul", { class: "map-legend", "aria-label": "Colors" });
    this.box = h("div", { class: "browse-map" }, this.canvas, this.legend);
    new ResizeObserver(() => this.#fit()).observe(this.canvas);
    this.reset();
  }

  reset() {
    [this.scale, this.left, this.top] = [0.94, 0.03, 0.03]; // of the square that is shown
    this.draw();
  }

  /** Show points; `classes` are the names and colors of all classes by number. */
  show({ classes, total, ...columns }) {
    this.classes = classes;
    this.total = total;
    this.points = Object.fromEntries(["x", "y", "label", "predicted", "sure"].map((name) => [name, decode(columns[name])]));
    this.paint();
  }

  /** Choose the color of each point. */
  paint(color = this.color) {
    this.color = color;
    if (!this.points) return;
    const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
    const quiet = packed(isDark ? [82, 90, 104] : [178, 184, 196]);
    const values = this.points[color];
    const palette = this.classes.map(([, color]) => packed(rgb(color)));
    const ofDoubt = (share) => packed([Math.round(40 + 200 * (1 - share)), Math.round(110 + 20 * share), Math.round(60 + 150 * share)]);
    const steps = Array.from({ length: 256 }, (_, step) => ofDoubt(step / 255));
    this.colors = Uint32Array.from(values, (value) => (value === NONE ? quiet : color === "sure" ? steps[value >> 8] : palette[value]));
    // Points without a value are drawn first, below the others.
    const places = [...values.keys()];
    const below = places.filter((place) => values[place] === NONE);
    this.order = Uint32Array.from([...below, ...places.filter((place) => values[place] !== NONE)]);
    const css = (value) => `rgb(${value & 255} ${(value >> 8) & 255} ${(value >> 16) & 255})`;
    const entry = (value, text) => {
      const dot = h("span", { class: "map-dot" });
      dot.style.background = css(value);
      return h("li", {}, dot, text);
    };
    const named = color === "sure" ? [entry(steps[0], "not sure"), entry(steps[255], "sure")] : this.classes.map(([name], place) => entry(palette[place], name));
    this.legend.replaceChildren(...named, entry(quiet, color === "label" ? "no label" : "no prediction"));
    this.canvas.setAttribute("aria-label", `Map of ${this.total} images. The filters and the grid show the same images without it.`);
    this.draw();
  }

  #fit() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (!width || !height) return;
    [this.canvas.width, this.canvas.height] = [width, height];
    this.picture = this.canvas.getContext("2d").createImageData(width, height);
    this.pixels = new Uint32Array(this.picture.data.buffer);
    this.draw();
  }

  /** Draw at the next frame. */
  draw() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.drawNow();
    });
  }

  drawNow() {
    if (!this.picture || !this.colors) return;
    const { width, height } = this.picture;
    const { x, y } = this.points;
    const size = (Math.min(width, height) * this.scale) / 65535;
    const [left, top] = this.#origin();
    const dot = this.total > 20000 ? 2 : this.total > 2000 ? 3 : 6;
    this.pixels.fill(0);
    for (const place of this.order) {
      const column = (left + x[place] * size) | 0;
      const row = (top + y[place] * size) | 0;
      if (column < 0 || row < 0 || column + dot > width || row + dot > height) continue;
      const color = this.colors[place];
      for (let line = row; line < row + dot; line += 1) {
        const start = line * width + column;
        for (let pixel = start; pixel < start + dot; pixel += 1) this.pixels[pixel] = color;
      }
    }
    const context = this.canvas.getContext("2d");
    context.putImageData(this.picture, 0, 0);
    if (!this.lasso) return;
    context.beginPath();
    for (const [column, row] of this.lasso) context.lineTo(column, row);
    context.closePath();
    context.strokeStyle = getComputedStyle(this.canvas).color;
    context.lineWidth = 2;
    context.stroke();
  }

  /** The pixel of the corner of the map. */
  #origin() {
    const { width, height } = this.canvas;
    const side = Math.min(width, height);
    return [(width - side) / 2 + this.left * side, (height - side) / 2 + this.top * side];
  }

  zoom(by, column = this.canvas.width / 2, row = this.canvas.height / 2) {
    const side = Math.min(this.canvas.width, this.canvas.height);
    const scale = Math.min(60, Math.max(0.5, this.scale * by));
    const ratio = scale / this.scale;
    const [left, top] = this.#origin();
    this.left += ((1 - ratio) * (column - left)) / side;
    this.top += ((1 - ratio) * (row - top)) / side;
    this.scale = scale;
    this.draw();
  }

  pan(columns, rows) {
    const side = Math.min(this.canvas.width, this.canvas.height);
    this.left += columns / side;
    this.top += rows / side;
    this.draw();
  }

  #wheel(event) {
    event.preventDefault();
    this.zoom(Math.exp(-event.deltaY / 400), event.offsetX, event.offsetY);
  }

  #down(event) {
    this.canvas.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
    this.start = [event.offsetX, event.offsetY];
    if (event.shiftKey || this.isLasso) this.lasso = [this.start];
  }

  #move(event) {
    const before = this.pointers.get(event.pointerId);
    if (!before) return;
    const now = [event.offsetX, event.offsetY];
    this.pointers.set(event.pointerId, now);
    if (this.pointers.size === 2) {
      const [first, second] = [...this.pointers.values()];
      const away = Math.hypot(first[0] - second[0], first[1] - second[1]);
      if (this.away) this.zoom(away / this.away, (first[0] + second[0]) / 2, (first[1] + second[1]) / 2);
      this.away = away;
      this.lasso = null;
    } else if (this.lasso) {
      this.lasso.push(now);
      this.draw();
    } else this.pan(now[0] - before[0], now[1] - before[1]);
  }

  #up(event) {
    const { lasso } = this;
    const isAlone = this.pointers.size === 1;
    this.pointers.delete(event.pointerId);
    this.lasso = this.away = null;
    const [column, row] = [event.offsetX, event.offsetY];
    const isClick = isAlone && Math.hypot(column - this.start[0], row - this.start[1]) < 4;
    if (isClick) this.#click(column, row);
    else if (lasso && lasso.length > 2) this.onRegion(this.#region(lasso));
    this.draw();
  }

  /** Corners of a line that was drawn, as shares of the map. */
  #region(lasso) {
    const step = Math.ceil(lasso.length / MOST_CORNERS);
    const side = Math.min(this.canvas.width, this.canvas.height) * this.scale;
    const [left, top] = this.#origin();
    const share = (value) => Math.round(1e4 * Math.min(1, Math.max(0, value))) / 1e4;
    return lasso.filter((_, place) => place % step === 0).flatMap(([column, row]) => [share((column - left) / side), share((row - top) / side)]);
  }

  #click(column, row) {
    if (!this.points) return;
    const size = (Math.min(this.canvas.width, this.canvas.height) * this.scale) / 65535;
    const [left, top] = this.#origin();
    let [best, nearest] = [NEAR * NEAR, -1];
    for (let place = 0; place < this.total; place += 1) {
      const far = (left + this.points.x[place] * size - column) ** 2 + (top + this.points.y[place] * size - row) ** 2;
      if (far < best) [best, nearest] = [far, place];
    }
    if (nearest >= 0) this.onPoint(nearest);
  }

  actionOf({ key }) {
    const step = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] }[key];
    if (step) return () => this.pan(...step);
    const [closer, reset] = [() => this.zoom(1.3), () => this.reset()];
    return { "+": closer, "=": closer, "-": () => this.zoom(1 / 1.3), 0: reset, Home: reset }[key];
  }
}
