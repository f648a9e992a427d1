// Images, decoded before they are needed.

const LONGEST_SMALL = 64;
const MOST_ENLARGED = 10;
const AHEAD = 10;

export const address = (id, side) => `/api/images/${id}/${side}`;

/** An element that shows an item. */
export function picture(item, side) {
  const image = new Image();
  image.alt = "";
  image.draggable = false;
  image.decoding = "sync";
  if (Math.max(item.width, item.height) <= LONGEST_SMALL) {
    image.className = "small";
    image.style.maxWidth = `${MOST_ENLARGED * item.width}px`;
    image.style.maxHeight = `${MOST_ENLARGED * item.height}px`;
  }
  image.src = address(item.id, side);
  return image;
}

/** A small one, with its name, that fills the place it is given. */
export function thumbnail(item, side = 160) {
  const image = picture(item, side);
  image.alt = item.file;
  image.style.maxWidth = image.style.maxHeight = "";
  return image;
}

/** Pictures of the items that come next, ready to be shown. */
export class Ahead {
  constructor(side) {
    this.side = side;
    this.images = new Map();
  }

  of(item) {
    let image = this.images.get(item.id);
    if (!image || image.dataset.failed) {
      image = picture(item, this.side);
      image.addEventListener("error", () => (image.dataset.failed = "yes"));
      this.images.set(item.id, image);
      image.decode().catch(() => {});
    }
    return image;
  }

  prepare(items) {
    const next = items.slice(0, AHEAD);
    next.forEach((item) => this.of(item));
    if (this.images.size > 4 * AHEAD) {
      const wanted = new Set(next.map((item) => item.id));
      for (const id of [...this.images.keys()].slice(0, this.images.size - 3 * AHEAD)) {
        if (!wanted.has(id)) this.images.delete(id);
      }
    }
  }
}
