"""Images as the index finds them, and as the label store keeps them."""

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fewlabels.projects.fingerprint import SIDE, UNKNOWN, is_current, unpacked
from fewlabels.projects.indexing import Index, IndexedFile
from fewlabels.store import Indexed, Item, ListedFile, Store

_FINGERPRINT = "fingerprint"


def take_in(
    store: Store, index: Index, known: Mapping[str, IndexedFile] | None = None
) -> Indexed:
    """Return what changed in the store's list of images, now up to date."""
    before = known or {}
    return store.index(
        ListedFile(
            path=file.name,
            digest=file.digest,
            size=file.size,
            mtime_ns=file.mtime_ns,
            group=index.representative[file.digest],
            details=None if before.get(file.name) is file else _details(file),
        )
        for file in index.files
    )


def _details(file: IndexedFile) -> dict[str, str]:
    return {_FINGERPRINT: b64encode(file.fingerprint).decode("ascii")}


def as_indexed(item: Item) -> IndexedFile:
    """Return an item of the store as the index knows files."""
    return IndexedFile(
        name=item.path,
        size=item.size,
        mtime_ns=item.mtime_ns,
        digest=item.digest,
        fingerprint=_fingerprint(item.details),
    )


def thumbnails(items: Sequence[Item]) -> NDArray[np.float32]:
    """Return the lightness of 8 x 8 parts, standardized, so that products correlate.

    Args:
        items: Images; one whose picture is plain or unknown correlates with none.

    Returns:
        Shape (n, 64).
    """
    taken = [_fingerprint(item.details) for item in items]
    lightness, *_ = unpacked(one if is_current(one) else UNKNOWN for one in taken)
    half = SIDE // 2
    parts = lightness.reshape(-1, half, 2, half, 2).mean(axis=(2, 4))
    parts = parts.reshape(-1, half**2)
    parts -= parts.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(parts, axis=1, keepdims=True)
    return np.asarray(parts / np.maximum(norms, 1e-6), dtype=np.float32)


def _fingerprint(details: object) -> bytes:
    """Return what is kept of a picture; nothing if that is damaged: it is read anew."""
    taken = details.get(_FINGERPRINT) if isinstance(details, Mapping) else None
    try:
        return b64decode(taken, validate=True) if isinstance(taken, str) else b""
    except ValueError:
        return b""
