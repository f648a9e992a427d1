"""Why an image is asked about, in words that give nothing away about its class."""

from fewlabels.projects.store import StoredRound
from fewlabels.strategies.registry import family


def why(asked: StoredRound) -> str:
    """Return why a round asks about its images.

    Those that measure are in between and get the same words: whoever knew which they
    are might look at them differently.

    Args:
        asked: The round.

    Returns:
        A sentence or two.
    """
    measures = any(one.role == "audit" for one in asked.items)
    parts = [_chosen(asked)]
    if measures:
        parts.append("Some images of this round only measure how good the model is.")
    return " ".join(parts)


def _chosen(asked: StoredRound) -> str:
    others = sum(one.role == "query" for one in asked.items) - 1
    by = asked.model or "an untrained network"
    told = f"Chosen by the strategy {asked.strategy}, looking at {by}."
    if asked.strategy == "random":
        told = "Drawn at random."
    elif asked.strategy == "npc":
        told = (
            f"Chosen together with {others} others: as a set, they tell {by} most that "
            "its labels do not tell yet."
        )
    elif family(asked.strategy) == "explanation":
        told = (
            f"Chosen together with {others} others: as a set, they explain most of "
            f"what {by} cannot tell about the rest yet."
        )
    elif family(asked.strategy) == "uncertainty":
        told = f"Chosen because {by} is least sure about such images."
    elif family(asked.strategy) == "coverage":
        told = f"Chosen with {others} others because together they stand for the rest."
    return told
