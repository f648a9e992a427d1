"""Image sets: by name, from folders, manifests and arrays; never copied."""

from typing import TYPE_CHECKING

from fewlabels.deferred import imported_when_used

if TYPE_CHECKING:
    from fewlabels.data.derived import repeated, subset
    from fewlabels.data.loading import load
    from fewlabels.data.named import names
    from fewlabels.errors import UnreadableFile
else:
    __getattr__ = imported_when_used(__name__)

__all__ = [
    "UnreadableFile",
    "load",
    "names",
    "repeated",
    "subset",
]
