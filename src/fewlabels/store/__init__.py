"""What people said about the images: an event log in SQL, safe to kill at any moment.

This is the only package that speaks SQL. Labels are not stored as such: every action
is an event that is added and never changed, and the current labels are a view of them.
"""

from fewlabels.store.agreement import (
    Agreement,
    Consensus,
    agreement,
    cohen_kappa,
    consensus,
    fleiss_kappa,
)
from fewlabels.store.records import (
    Event,
    Found,
    Indexed,
    Item,
    Kind,
    LabelClass,
    Lease,
    Leased,
    RoundItem,
    StoredEvent,
    StoredRound,
    Verdict,
    new_uuid,
)
from fewlabels.store.rounding import candidates_digest
from fewlabels.store.store import Store

__all__ = [
    "Agreement",
    "Consensus",
    "Event",
    "Found",
    "Indexed",
    "Item",
    "Kind",
    "LabelClass",
    "Lease",
    "Leased",
    "RoundItem",
    "Store",
    "StoredEvent",
    "StoredRound",
    "Verdict",
    "agreement",
    "candidates_digest",
    "cohen_kappa",
    "consensus",
    "fleiss_kappa",
    "new_uuid",
]
