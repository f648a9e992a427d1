"""The model card: what a stranger should know before using an exported model."""

import re
from dataclasses import dataclass

from fewlabels.data.text import printable
from fewlabels.experiments.evaluation import AuditedAccuracy
from fewlabels.projects.export.config import ModelConfig

_FRONT = """\
---
library_name: fewlabels
pipeline_tag: image-classification
tags:
- image-classification
- active-learning
- semi-supervised-learning
---
"""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What is known about the making of a model."""

    trainer: str
    """How it was trained, such as ``"fixmatch-darp, 600 steps"``."""
    label_counts: tuple[int, ...]
    """Labels of each class that it was trained on."""
    num_images: int
    """Images it was trained on, labeled or not."""
    strategy: str | None = None
    """What chose the images that people labeled."""
    audited: AuditedAccuracy | None = None
    """Accuracy on a random slice that no decision used; None: not measured."""
    num_unanswered: int = 0
    """Images of that slice that have no label, such as skipped ones."""
    name: str = "Image classifier"
    """Title of the card."""


def card(config: ModelConfig, facts: Facts) -> str:
    """Return the card in Markdown; names that people chose are escaped."""
    counts = zip(config.classes, facts.label_counts, strict=True)
    rows = [f"| {_plain(name)} | {count} |" for name, count in counts]
    source = "ROWS.parquet" if len(config.input_shape) == 1 else "FOLDER_OF_IMAGES"
    return "\n".join(
        [
            _FRONT,
            f"# {_plain(facts.name)}",
            "",
            f"Tells {len(config.classes)} classes of images apart. Made with "
            "fewlabels.",
            "",
            "## Accuracy",
            "",
            _measured(facts.audited, facts.num_unanswered),
            "",
            "## Training",
            "",
            f"Trained by {_plain(facts.trainer)} on {facts.num_images:,} images, "
            f"{sum(facts.label_counts):,} of them labeled by people. "
            f"{_chosen(facts.strategy)} {_network(config)}",
            "",
            "| class | labels |",
            "|---|---|",
            *rows,
            "",
            "## Use",
            "",
            _input(config),
            "",
            "```",
            f"fewlabels predict THIS_FOLDER {source} --out predictions.csv",
            "```",
            "",
            "## Limits",
            "",
            "- It knows the classes above and no other: every image gets one of them, "
            "whatever it shows.",
            "- It is meant for images like those it was trained on, made in the same "
            "way. On others the accuracy above says nothing.",
            "- Confidences are not calibrated: 0.9 does not mean right nine times in "
            "ten.",
            "- Few labels make few chances to find wrong ones. Do not use it where a "
            "mistake harms somebody without a person who looks.",
            "",
        ]
    )


def _measured(audited: AuditedAccuracy | None, num_unanswered: int) -> str:
    if audited is None or audited.accuracy is None:
        why = (
            f"none of the {num_unanswered} images drawn for an audit has a label"
            if num_unanswered
            else "no random slice of images was set aside for an audit"
        )
        return (
            f"Not measured: {why}, and images that a strategy chose cannot tell the "
            "accuracy on others."
        )
    told = (
        f"{audited}. These images were drawn at random, labeled by people, and used "
        "neither for training nor for choosing or stopping. The interval is exact "
        "(Clopper and Pearson)."
    )
    if num_unanswered:
        told += (
            f" {num_unanswered} more were drawn and have no label; if they were left "
            "out for being hard, the accuracy is lower than this."
        )
    return told


def _chosen(strategy: str | None) -> str:
    if strategy is None:
        return "How they were chosen is not known."
    return f"They were chosen by the strategy {_plain(strategy)}."


def _network(config: ModelConfig) -> str:
    if config.encoder is None:
        return f"The network is {config.network}."
    return (
        f"The network is the head {config.network} over the frozen encoder "
        f"{_plain(config.encoder.identity)}."
    )


def _input(config: ModelConfig) -> str:
    if len(config.input_shape) == 1:
        return f"The input is a row of {config.input_shape[0]} numbers."
    channels, height, width = config.input_shape
    kind = "grey" if channels == 1 else "color"
    return (
        f"Images are brought to {width} × {height} pixels, {kind}, values from 0 to "
        "255 to -1 to 1; `config.json` says so too. The weights are in "
        "`model.safetensors`, which holds numbers and no program."
    )


def _plain(text: str) -> str:
    """Return words that people chose so that Markdown takes them as they are."""
    return re.sub(r"([\\`*_{}\[\]<>()#+!|~-])", r"\\\1", printable(text))
