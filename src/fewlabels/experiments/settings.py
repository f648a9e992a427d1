"""The settings of a run: typed, saved with it, compared when it is resumed.

Settings files are YAML and may be untrusted, so they are read within bounds.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from pydantic import BaseModel, ValidationError, model_serializer, model_validator

from fewlabels import data, errors, names, training
from fewlabels.files import read_regular

_LIKE = "Give a YAML file with one 'name: value' per line."
_MOST_THREADS = 1024
_MOST_BYTES = 2**20
_MOST_VALUES = 100_000
_DEEPEST = 50
_Model = TypeVar("_Model", bound=BaseModel)


class FrozenModel(BaseModel):
    """A model that cannot change and refuses unknown fields."""

    model_config = {"extra": "forbid", "frozen": True, "use_attribute_docstrings": True}

    def copy_with(self, **changes: Any) -> Self:
        """Return a copy with other values in some fields, unchecked."""
        return self.model_copy(update=changes)


class Choice(FrozenModel):
    """Something chosen by name, with its options."""

    name: str
    """A built-in name, an import path, or for data also a path."""
    options: dict[str, Any] = {}
    """Its options, by name."""
    made: names.Identity | None = None
    """Identity of the resolved object when the work was planned: a default may change
    in a later version, and people edit their own code. None: not resolved yet."""

    @property
    def label(self) -> str:
        """Its name, with the options that it was given.

        Example:
            >>> Choice(name="npc", options={"draws": 100}).label
            'npc (draws = 100)'
        """
        options = [
            f"{key} = {v if isinstance(v, str) else json.dumps(v, ensure_ascii=False)}"
            for key, v in self.options.items()
        ]
        return f"{self.name} ({', '.join(options)})" if options else self.name

    def over(self, encoder: str) -> "Choice":
        """Return the same trainer over the features of another encoder."""
        options = training.over_encoder(self.name, self.options, encoder)
        return self.copy_with(options=options, made=None)

    @property
    def code(self) -> list[Any]:
        """All of it that may be import paths, for ``naming.check_code``."""
        return [self.name, self.options]

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, given: Any) -> Any:
        """Accept a bare name, or the options beside the name."""
        json.dumps(given, default=_refuse_object)
        if isinstance(given, str):
            return {"name": given}
        if isinstance(given, dict) and "options" not in given:
            options = dict(given)
            named = {"name": options.pop("name")} if "name" in given else {}
            return named | {"options": options}
        return given

    @model_serializer(mode="wrap")
    def _as_given(self, dump: Callable[[Self], dict[str, Any]]) -> dict[str, Any]:
        """Write the identity only where it is known."""
        return {k: v for k, v in dump(self).items() if k != "made" or self.made}


def _refuse_object(value: object) -> None:
    """Raise for what no other process could import, in the course of ``json.dumps``."""
    if not isinstance(value, BaseModel):
        fix = "give a name, or an import path such as 'my_module:Name'"
        raise errors.UsageError(f"no other process can get {value!r:.60}; {fix}")


class DataOptions(FrozenModel):
    """Options of data in a settings file; see :func:`fewlabels.data.load`."""

    labels: Literal["none"] | None = None
    vectors: str | None = None
    size: int | None = None
    counts: list[int] | dict[str | int, int] | None = None
    times: int | None = None
    noise: float | None = None
    test_share: float = 0.2
    tests: int | None = None
    part: int = 0
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Seeds:
    """Seeds of a run; usually all the same.

    Runs that share ``start`` and ``first`` begin with one and the same model, as the
    trials of the NPC paper do (Sec. 5.1). Runs that share ``start`` alone show what the
    chance of training does to one set of labels.
    """

    start: int
    """Decides the starting set."""
    first: int
    """Decides the first training, and those that choose among starting sets."""
    train: int
    """Decides the later trainings."""
    query: int
    """Decides what a strategy draws."""

    @classmethod
    def of(cls, seed: "int | Seeds") -> "Seeds":
        """Return one seed for every purpose; seeds come back as they are."""
        if isinstance(seed, cls):
            return seed
        number = errors.whole_number("seed", seed)
        return cls(start=number, first=number, train=number, query=number)

    def training(self, step: int) -> int:
        """Return the seed of the training of a round."""
        return self.train if step else self.first


class SeedOptions(FrozenModel):
    """Seeds of single purposes, where they differ; see :class:`Seeds`.

    A purpose without one takes that of the run.
    """

    start: int | None = None
    first: int | None = None
    train: int | None = None
    query: int | None = None


class RunSettings(FrozenModel):
    """Everything that decides what a run does."""

    data: Choice
    """The data set: a name or a path."""
    strategy: Choice = Choice(name=names.DEFAULT_STRATEGY)
    """The query strategy: a name or module:Class."""
    trainer: Choice = Choice(name="fixmatch-darp")
    """The trainer: a name or module:Class."""
    start: int = 10
    """Labels at the beginning."""
    query: int | list[int] = 20
    """Labels asked for in each round; in a file also a list, one for each of the
    first rounds, the last of them from then on."""
    budget: int = 50
    """Labels at the end."""
    seed: int = 0
    """Seed of everything random."""
    seeds: SeedOptions = SeedOptions()
    """Seeds of single purposes, where they differ from ``seed``."""
    initial_models: int = 1
    """Start with the median of this many models."""
    zero_shot: bool = False
    """Keep the starting labels back until the untrained network has made the first
    query (one reading of the NPC paper's Table 3)."""
    threads: int = 1
    """Threads of one process; results depend on them."""

    @property
    def all_seeds(self) -> Seeds:
        """The seed of each purpose."""
        return replace(Seeds.of(self.seed), **self.seeds.model_dump(exclude_none=True))

    @property
    def bare(self) -> Self:
        """The settings without identities of strategy and trainer."""
        return self.with_identities({})

    def with_identities(self, made: Mapping[str, names.Identity]) -> Self:
        """Return the settings with these identities of strategy and trainer alone."""
        return self.copy_with(
            strategy=self.strategy.copy_with(made=made.get("strategy")),
            trainer=self.trainer.copy_with(made=made.get("trainer")),
        )

    @property
    def made(self) -> dict[str, names.Identity]:
        """Identities of strategy and trainer, where they are known."""
        chosen = {"strategy": self.strategy.made, "trainer": self.trainer.made}
        return {part: made for part, made in chosen.items() if made is not None}

    @property
    def code(self) -> list[Any]:
        """All of data, strategy and trainer that may be import paths."""
        return [self.data_code, self.strategy.code, self.trainer.code]

    @property
    def data_code(self) -> list[str]:
        """The name of the data if it is an import path, and no file is called so."""
        return [self.data.name] if names.is_code_path(self.data.name) else []

    def changes(self, now: "RunSettings") -> list[str]:
        """Return what is different in other settings, a few words each.

        If all settings are equal, identities are compared where both have them.
        """
        before, after = (s.bare.model_dump(mode="json") for s in (self, now))
        return [
            f"{name} was {before[name]!r} and is now {after[name]!r}"
            for name in before
            if before[name] != after[name]
        ] or [
            f"{part}: {change}"
            for part, made in self.made.items()
            if part in now.made
            for change in made.changes(now.made[part])
        ]

    @classmethod
    def merged(
        cls,
        file: Path | None,
        given: dict[str, Any],
        *,
        encoder: str | None = None,
        allow_code: names.AllowCode = False,
    ) -> "RunSettings":
        """Return the settled settings of a YAML file, overruled by what was given.

        What was given as None counts as left out. An encoder is that of the trainer; if
        none is named, of the default one over features. A :class:`UsageError` names a
        setting that is unknown or of a wrong type, or code in the file that is not
        allowed.
        """
        merged = read_mapping(file, kind="settings file", like=_LIKE) if file else {}
        own = {key: value for key, value in given.items() if value is not None}
        if file:
            named = ("strategy", "trainer")  # those that may be import paths
            left = [merged[key] for key in named if key in merged and key not in own]
            names.check_code(file, left, allow_code)
        merged |= own
        settings = validated(cls, merged, kind="setting")
        if "data" not in own:
            names.check_code(file or "", settings.data_code, allow_code)
        if encoder is not None:
            from fewlabels.models.encoders import rows_file

            if "trainer" not in merged and not rows_file(encoder):
                frozen = Choice(name=f"frozen-{settings.trainer.name}")
                settings = settings.copy_with(trainer=frozen)
            settings = settings.over(encoder)
        return settled(settings)

    def over(self, encoder: str) -> Self:
        """Return the settings with features of another encoder, or rows of a file."""
        from fewlabels.models.encoders import rows_file

        file = rows_file(encoder)
        if file is None:
            return self.copy_with(trainer=self.trainer.over(encoder))
        rows = self.data.copy_with(options=self.data.options | {"vectors": str(file)})
        bare = training.variant(self.trainer.name, inputs="") or self.trainer.name
        trainer = self.trainer.copy_with(name=bare, made=None)
        return self.copy_with(data=rows, trainer=trainer)


def settled(settings: RunSettings) -> RunSettings:
    """Return settings whose numbers fit each other, with the data's place in full.

    A relative path would stand for something else in another working folder. What
    cannot be right raises :class:`UsageError`.
    """
    s = settings
    check_numbers(start=s.start, query=s.query, budget=s.budget)
    errors.check_range("threads", s.threads, at_least=1, at_most=_MOST_THREADS)
    errors.check_range("initial_models", s.initial_models, at_least=1)
    name, options = s.data.name, s.data.options
    validated(DataOptions, options, kind=f"option of '{name}'")
    if not name:
        raise errors.UsageError(
            "The data have an empty name; name a data set or a path."
        )
    if name not in data.names() and os.path.exists(name):  # noqa: PTH110 - never raises
        name = str(Path(name).resolve())
    if rows := options.get("vectors"):
        options = options | {"vectors": str(Path(rows).expanduser().resolve())}
    return s.copy_with(data=s.data.copy_with(name=name, options=options))


def check_numbers(*, start: int, query: int | Sequence[int], budget: int) -> None:
    """Raise unless start, query size and budget fit each other, in whatever pool.

    A wrong number raises :class:`fewlabels.errors.BudgetError`.
    """
    sizes, left = [query] if isinstance(query, int) else list(query), budget - start
    is_possible = start >= 0 and budget >= 1 and min(sizes, default=0) >= 1
    if not is_possible or left < 0 or 0 < left < sizes[0]:
        raise errors.BudgetError(
            f"start is {start}, query {query} and budget {budget}; start with 0 or "
            "more, ask for 1 or more, and give start + query or more as budget."
        )


def validated(model: type[_Model], content: Any, *, kind: str = "") -> _Model:
    """Return the content as a model; a :class:`UsageError` says what is wrong.

    If it says what ``kind`` of thing a field is, known ones are named beside an unknown
    one.
    """
    for name in content if kind else ():
        if name not in model.model_fields:
            raise errors.UnknownNameError(kind, str(name), model.model_fields)
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise errors.UsageError(errors.faults(error)) from error


def read_mapping(file: Path, *, kind: str, like: str) -> dict[str, Any]:
    """Return names and values of a YAML file; none where it is empty.

    One that cannot be read, or holds something else or too much, raises
    :class:`UsageError`, which calls it a ``kind`` and says what to write into it.
    """
    try:
        content = read_value(read_regular(file, _MOST_BYTES).decode("utf-8"))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error).rstrip(".")
        msg = f"The {kind} '{file}' could not be read: {reason}. {like}"
        raise errors.UsageError(msg) from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        msg = f"The {kind} '{file}' holds a {type(content).__name__}. {like}"
        raise errors.UsageError(msg)
    return content


def read_value(text: str) -> Any:
    """Return what YAML says; a ValueError where it is none, or far too much."""
    import yaml

    try:
        content = yaml.safe_load(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
    # Each value counts as often as it is used: few lines can stand for too many.
    waiting, seen = [(content, 0)], 0
    while waiting:
        value, depth = waiting.pop()
        seen += 1
        if depth > _DEEPEST or seen > _MOST_VALUES:
            limits = f"{_MOST_VALUES:,} values, or is nested deeper than {_DEEPEST}"
            raise ValueError(f"it holds more than {limits} levels")
        if isinstance(value, dict):
            waiting += [(inner, depth + 1) for pair in value.items() for inner in pair]
        elif isinstance(value, list | tuple | set):
            waiting += [(inner, depth + 1) for inner in value]
    return content
