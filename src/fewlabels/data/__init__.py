"""Image sets: by name, from folders, manifests and arrays; never copied."""

from fewlabels.data.derived import repeated, subset
from fewlabels.data.load import load
from fewlabels.data.named import names
from fewlabels.errors import UnreadableFile

__all__ = [
    "UnreadableFile",
    "load",
    "names",
    "repeated",
    "subset",
]
