"""What people said about the images: an event log in SQL, safe to kill at any moment.

This is the only package that speaks SQL. Labels are not stored as such: every action
is an event that is added and never changed, and the current labels are a view of them.
"""

from fewlabels.projects.store.agreement import (
    Agreement,
    Consensus,
    agreement,
    cohen_kappa,
    consensus,
    fleiss_kappa,
)
from fewlabels.projects.store.items import candidates_digest
from fewlabels.projects.store.records import (
    Annotation,
    Asking,
    Event,
    Indexed,
    Item,
    Kind,
    LabelClass,
    Lease,
    Leased,
    ListedFile,
    RoundItem,
    StoredEvent,
    StoredRound,
    new_uuid,
)
from fewlabels.projects.store.store import Store

__all__ = [
    "Agreement",
    "Annotation",
    "Asking",
    "Consensus",
    "Event",
    "Indexed",
    "Item",
    "Kind",
    "LabelClass",
    "Lease",
    "Leased",
    "ListedFile",
    "RoundItem",
    "Store",
    "StoredEvent",
    "StoredRound",
    "agreement",
    "candidates_digest",
    "cohen_kappa",
    "consensus",
    "fleiss_kappa",
    "new_uuid",
]
