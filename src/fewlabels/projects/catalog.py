"""Images as the index finds them, and as the label store keeps them."""

from base64 import b64decode, b64encode
from collections.abc import Mapping

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


def _fingerprint(details: object) -> bytes:
    """Return what is kept of a picture; nothing if that is damaged: it is read anew."""
    taken = details.get(_FINGERPRINT) if isinstance(details, Mapping) else None
    try:
        return b64decode(taken, validate=True) if isinstance(taken, str) else b""
    except ValueError:
        return b""
