"""A run's folder of files: safe to kill at any moment, resumed by the same command."""

from fewlabels.runs.diagnosis import Conditioning, diagnose
from fewlabels.runs.environment import environment
from fewlabels.runs.execute import check_choices, execute, source_of
from fewlabels.runs.folder import RunFolder
from fewlabels.runs.lines import RoundLine, has_ended
from fewlabels.runs.settings import Choice, RunSettings, SeedOptions, faults, settled

__all__ = [
    "Choice",
    "Conditioning",
    "RoundLine",
    "RunFolder",
    "RunSettings",
    "SeedOptions",
    "check_choices",
    "diagnose",
    "environment",
    "execute",
    "faults",
    "has_ended",
    "settled",
    "source_of",
]
