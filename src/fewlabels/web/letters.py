"""Letters that people gave to classes, kept with the project for all who label."""

import json
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from fewlabels.errors import UnknownNameError, UsageError
from fewlabels.files import parse_json, read_regular, replace_text
from fewlabels.projects import Project

FILE = "page-letters.json"
"""Letters by the numbers of classes, which stay when a class is renamed."""

_MOST_BYTES = 64 * 1024


def letters_of(folder: Path) -> dict[int, str]:
    """Return the letter of each class that was given one; a damaged file gives none."""
    with suppress(OSError, ValueError):
        found = parse_json(read_regular(folder / FILE, _MOST_BYTES))
        if isinstance(found, dict):
            return {
                int(number): letter
                for number, letter in found.items()
                if isinstance(letter, str) and is_letter(letter)
            }
    return {}


def is_letter(text: str) -> bool:
    """Whether a text is what one key types without Shift."""
    return len(text) == 1 and text.isascii() and text.islower()


def keep(project: Project, wanted: Mapping[str, str]) -> None:
    """Give letters to classes by their names; all others have none of their own.

    Args:
        project: The project.
        wanted: A letter from a to z for each class, no two the same.
    """
    number_of = {one.name: one.number for one in project.store.classes()}
    for name, letter in wanted.items():
        if name not in number_of:
            raise UnknownNameError("class", name, number_of)
        if not is_letter(letter):
            msg = f"'{name}' cannot have the letter '{letter}'; give one from a to z."
            raise UsageError(msg)
    for letter, count in Counter(wanted.values()).items():
        if count > 1:
            raise UsageError(
                f"{count} classes have the letter '{letter}', and a key can mean one "
                "only; nothing was changed."
            )
    numbered = {str(number_of[name]): letter for name, letter in wanted.items()}
    replace_text(project.folder / FILE, json.dumps(numbered, indent=1) + "\n")
