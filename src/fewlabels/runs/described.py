"""What the files of a run that are not lists of lines have to hold."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from fewlabels.identity import Identity
from fewlabels.runs.lines import Whole

_Count = Annotated[int, Field(ge=0, lt=2**31)]


class _DataFacts(BaseModel):
    model_config = ConfigDict(frozen=True)

    num_items: _Count
    num_test: _Count
    classes: list[str]
    shape: list[_Count] = []


class _Chosen(BaseModel):
    name: str
    options: dict[str, Any] = {}


class _Settings(BaseModel):
    data: _Chosen | str | None = None
    strategy: _Chosen | str | None = None
    trainer: _Chosen | str | None = None


class RunDescription(BaseModel):
    """What ``run.json`` has to hold, of any version; there may be more."""

    model_config = ConfigDict(frozen=True)

    kind: Literal["fewlabels run"]
    settings: _Settings
    data: _DataFacts
    versions: dict[str, Any] = {}
    made: dict[str, Identity] = {}
    strategy_source: dict[str, str] | None = None


class StartFile(BaseModel):
    """What ``start.json`` has to hold."""

    model_config = ConfigDict(frozen=True)

    ids: tuple[str, ...]
    labels: tuple[Whole, ...]
