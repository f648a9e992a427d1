"""Who labels, how far people agree, and on which images they do not."""

from collections import Counter, defaultdict
from typing import Any

from fewlabels.projects import Project
from fewlabels.projects.store import Kind, agreement, consensus
from fewlabels.projects.store.records import LABELS

MOST_DISPUTED = 60
"""Images that are shown to be talked about."""


def people(project: Project) -> dict[str, Any]:
    """Return what the page tells about several people.

    Args:
        project: The project.

    Returns:
        How much each said, how far each two agree, and images with different labels
        that have as many as were wanted: nobody is still to be asked about them.
    """
    with project.store.reading() as moment:
        verdicts = moment.verdicts()
        names = {one.number: one.name for one in moment.classes()}
    # What a model suggested, or a file said, says little about agreement.
    given = [one for one in verdicts if one.is_asked]
    labels = [one for one in given if one.kind in LABELS]
    said: dict[str, dict[str, int | None]] = defaultdict(dict)
    for one in labels:
        said[one.annotator][one.item] = one.class_number
    found = agreement(labels)
    pairs = []
    for (first, other), kappa in sorted(found.cohen.items()):
        shared = said[first].keys() & said[other].keys()
        same = sum(said[first][item] == said[other][item] for item in shared)
        facts: dict[str, Any] = {"one": first, "other": other, "shared": len(shared)}
        pairs.append(facts | {"same": same, "kappa": kappa})
    kinds = Counter((one.annotator, one.kind) for one in given)
    votes = consensus(labels, project.settings.overlap)
    apart = [one.item for one in votes if one.is_complete and len(one.votes) > 1]
    shown = set(apart[:MOST_DISPUTED])
    answers: dict[str, list[dict[str, str]]] = defaultdict(list)
    for one in labels:
        if one.item in shown:
            told = {"annotator": one.annotator, "label": names[one.class_number or 0]}
            answers[one.item].append(told)
    return {
        "people": [
            {
                "name": name,
                "labels": len(said[name]),
                "skipped": kinds[name, Kind.SKIP],
                "unsure": kinds[name, Kind.UNSURE],
            }
            for name in sorted({one.annotator for one in given})
        ],
        "pairs": pairs,
        "kappa": found.fleiss,
        "num_apart": len(apart),
        "apart": [{"item": item, "answers": answers[item]} for item in sorted(shown)],
    }
