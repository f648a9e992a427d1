"""A run's folder of files: safe to kill at any moment, resumed by the same command."""

from typing import TYPE_CHECKING

from fewlabels.deferred import imported_when_used

if TYPE_CHECKING:
    from fewlabels.runs.diagnosis import Conditioning, diagnose
    from fewlabels.runs.executing import are_same_data, check_choices, execute
    from fewlabels.runs.folder import RunFolder
    from fewlabels.runs.lines import RoundLine, has_ended
    from fewlabels.runs.made import as_made, made_changes, made_of, with_made
    from fewlabels.runs.settings import (
        Choice,
        RunSettings,
        SeedOptions,
        faults,
        settled,
    )
    from fewlabels.runs.surroundings import environment
else:
    __getattr__ = imported_when_used(__name__)

__all__ = [
    "Choice",
    "Conditioning",
    "RoundLine",
    "RunFolder",
    "RunSettings",
    "SeedOptions",
    "are_same_data",
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
