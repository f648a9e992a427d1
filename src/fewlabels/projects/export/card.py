"""The model card: what a reader should know before using an exported model."""

import re
from dataclasses import dataclass

from fewlabels.data.untrusted import printable
from fewlabels.experiments.evaluation import AuditedAccuracy

_CARD = """\
---
library_name: fewlabels
pipeline_tag: image-classification
tags:
- image-classification
- active-learning
- semi-supervised-learning
---

# {title}

Tells {num_classes} classes of images apart. Made with fewlabels.

## Accuracy

{accuracy}

## Training

Trained by {trainer} on {num_images:,} images, {num_labels:,} of them labeled by \
people. {selection} {network}

| class | labels |
|---|---|
{rows}

## Use

{usage}

```
fewlabels predict THIS_FOLDER {source} --out predictions.csv
```

## Limits

- It knows the classes above and no other: every image gets one of them, whatever it \
shows.
- It is meant for images like those it was trained on, made in the same way. On others \
the accuracy above says nothing.
- Confidences are not calibrated: 0.9 does not mean right nine times in ten.
- Few labels make few chances to find wrong ones. Do not use it where a mistake harms \
somebody without a person who looks.
"""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """How a model was trained and measured."""

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


def model_card(
    facts: Facts,
    classes: tuple[str, ...],
    input_shape: tuple[int, ...],
    network: str,
    encoder: str | None,
) -> str:
    """Return the card in Markdown; names that people chose are escaped."""
    selection = "How they were chosen is not known."
    if facts.strategy is not None:
        selection = f"They were chosen by the strategy {_escaped(facts.strategy)}."
    if encoder is not None:
        network = f"the head {network} over the frozen encoder {_escaped(encoder)}"
    source, usage = "ROWS.parquet", f"The input is a row of {input_shape[0]} numbers."
    if len(input_shape) > 1:
        channels, height, width = input_shape
        kind = "grey" if channels == 1 else "color"
        source = "FOLDER_OF_IMAGES"
        usage = (
            f"Images are brought to {width} × {height} pixels, {kind}, values from 0 "
            "to 255 to -1 to 1; `config.json` says so too. The weights are in "
            "`model.safetensors`, which holds numbers and no program."
        )
    counts = zip(classes, facts.label_counts, strict=True)
    return _CARD.format(
        title=_escaped(facts.name),
        num_classes=len(classes),
        accuracy=_accuracy(facts.audited, facts.num_unanswered),
        trainer=_escaped(facts.trainer),
        num_images=facts.num_images,
        num_labels=sum(facts.label_counts),
        selection=selection,
        network=f"The network is {network}.",
        rows="\n".join(f"| {_escaped(name)} | {number} |" for name, number in counts),
        usage=usage,
        source=source,
    )


def _accuracy(audited: AuditedAccuracy | None, num_unanswered: int) -> str:
    """Return the sentences about the measured accuracy."""
    if audited is None or audited.accuracy is None:
        why = "no random slice of images was set aside for an audit"
        if num_unanswered:
            why = f"none of the {num_unanswered} images drawn for an audit has a label"
        return (
            f"Not measured: {why}, and images that a strategy chose cannot tell the "
            "accuracy on others."
        )
    text = (
        f"{audited}. These images were drawn at random, labeled by people, and used "
        "neither for training nor for choosing or stopping. The interval is exact "
        "(Clopper and Pearson)."
    )
    if num_unanswered:
        text += (
            f" {num_unanswered} more were drawn and have no label; if they were left "
            "out for being hard, the accuracy is lower than this."
        )
    return text


def _escaped(text: str) -> str:
    """Return text that Markdown shows as it is."""
    return re.sub(r"([\\`*_{}\[\]<>()#+!|~-])", r"\\\1", printable(text))
