"""From images, however many, to shards of embeddings.

A source is cut into portions, each becomes one Parquet file with the columns ``id`` and
``embedding``, and who does that, this machine or a cluster, changes no bit of it.
"""

from fewlabels.embedding.cost import Cost, estimated
from fewlabels.embedding.embedding import Embedded, Work, planned
from fewlabels.embedding.engines import Engine, Local, OnRay

__all__ = [
    "Cost",
    "Embedded",
    "Engine",
    "Local",
    "OnRay",
    "Work",
    "estimated",
    "planned",
]
