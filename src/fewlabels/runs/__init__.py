"""A run's folder of files: safe to kill at any moment, resumed by the same command."""

from fewlabels.runs.diagnosis import Conditioning, diagnose
from fewlabels.runs.environment import environment
from fewlabels.runs.execute import check_choices, execute
from fewlabels.runs.folder import RunFolder
from fewlabels.runs.lines import RoundLine, has_ended
from fewlabels.runs.made import as_made, made_changes, made_of, with_made
from fewlabels.runs.settings import Choice, RunSettings, SeedOptions, faults, settled

__all__ = [
    "Choice",
    "Conditioning",
    "RoundLine",
    "RunFolder",
    "RunSettings",
    "SeedOptions",
    "as_made",
    "check_choices",
    "diagnose",
    "environment",
    "execute",
    "faults",
    "has_ended",
    "made_changes",
    "made_of",
    "settled",
    "with_made",
]
