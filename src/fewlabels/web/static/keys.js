// Which key means which class.

const ALPHABET = "abcdefghijklmnopqrstuvwxyz";

/** Digits for the first ten classes, with Shift (⇧) for the next ten; the letter that somebody chose, or one of the name that is free. */
export function assignKeys(classes) {
  const taken = new Set(classes.map((entry) => entry.letter));
  const hasLetters = classes.length <= 20;
  return classes.map(({ name, letter: own }, place) => {
    const digit = place < 20 ? `${place >= 10 ? "⇧" : ""}${(place + 1) % 10}` : "";
    let letter = own;
    if (!own && hasLetters) {
      letter = [...name.toLowerCase()].find((character) => ALPHABET.includes(character) && !taken.has(character)) ?? "";
      taken.add(letter);
    }
    return { digit, letter };
  });
}

/** The position of the class that a key stands for, or -1. */
export function classOfKey(event, keys) {
  const digit = /^(?:Digit|Numpad)(\d)$/.exec(event.code)?.[1];
  if (digit !== undefined) {
    const place = ((Number(digit) + 9) % 10) + (event.shiftKey ? 10 : 0);
    return place < keys.length ? place : -1;
  }
  if (event.shiftKey) return -1;
  return keys.findIndex((key) => key.letter && key.letter === event.key);
}

export const HELP = [
  ["1 … 9, 0", "label with class 1 to 10, and go on"],
  ["⇧1 … ⇧0", "label with class 11 to 20"],
  ["a letter", "label with the class that shows it; with more than 20 classes, type a name (after / if its first letter is taken) and press Enter"],
  ["Space", "skip: not worth a label"],
  ["⇧U", "unsure: somebody else may know"],
  ["⌫ or Ctrl Z", "undo, as far back as you like"],
  ["⇧N", "add a class"],
  ["⇧X", "what belongs to each class: descriptions and labeled images"],
  ["+  −  Esc", "zoom in, out, and back; a click shows the original pixels, drag or arrows move the image"],
  ["in Review", "point at an image, by pointer or arrows, and press the key of its class; Space leaves it out, Shift and arrows a range, Enter confirms the rest, M shows more like it, PageUp and PageDown change the class"],
  ["in Browse", "arrows, Home, End, PageUp and PageDown move, with Shift they select a range; Space selects, Ctrl A selects all, Enter opens, the key of a class labels, Delete removes the label, X excludes, / finds a file, ⌫ undoes"],
  ["⇧L  ⇧R  ⇧B  ⇧S  ⇧C", "Label, Review, Browse, Results, Classes"],
  ["⇧T  ⇧E", "train, export"],
  ["?", "show this list"],
];
