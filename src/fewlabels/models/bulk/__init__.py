"""From images, however many, to shards of embeddings.

A source is cut into portions, each becomes one Parquet file with the columns ``id`` and
``embedding``, and who does that, this machine or a cluster, changes no bit of it.
"""

from fewlabels.models.bulk.embedding import Cost, EmbeddingResult, Work, planned

__all__ = ["Cost", "EmbeddingResult", "Work", "planned"]
