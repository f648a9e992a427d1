"""A project: a person's images and labels, and what was learned from them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Self

from fewlabels import files
from fewlabels.errors import (
    FewlabelsError,
    ProjectError,
    StorageError,
)
from fewlabels.jobs import Job, start
from fewlabels.projects import answers, asking, status
from fewlabels.projects.answers import Told
from fewlabels.projects.asking import Asked
from fewlabels.projects.classes import OWNER, class_names
from fewlabels.projects.exchange import AskedItem
from fewlabels.projects.folder import (
    LOCK,
    OTHER_TRAINING_LOCK,
    TRAINING_LOCK,
    reference,
    store_place,
)
from fewlabels.projects.labeling import Labeling
from fewlabels.projects.settings import FILE, checked
from fewlabels.projects.shares import read_shares
from fewlabels.projects.status import Status
from fewlabels.runs import Choice
from fewlabels.store import Store, trust

if TYPE_CHECKING:
    from fewlabels.projects.exporting import Exported
    from fewlabels.projects.learning import Trained

_PATIENCE = 10.0  # seconds for another beginning to put its files in place
_STORE = "labels.sqlite"
_PAGE = (".page-key", "open-page.html")  # of the page, which is there first
_OPEN_STORE = (f"{_STORE}-wal", f"{_STORE}-shm")  # while it is open, or after a kill


class Project(Labeling):
    """Ask, tell, train, export: each verb of the command line is a method.

    All of them can be interrupted at any moment and called again.
    """

    @classmethod
    def create(
        cls,
        folder: str | PathLike[str],
        images: str | PathLike[str] | None,
        classes: Sequence[str],
        *,
        budget: int,
        audit: int | None = None,
        query: int | None = None,
        overlap: int | None = None,
        strategy: str | Choice | None = None,
        trainer: str | Choice | None = None,
        encoder: str | None = None,
        quality: str | None = None,
        size: int | None = None,
        seed: int | None = None,
        store: str | None = None,
        shares: str | Sequence[float] = "unknown",
        first: int | None = None,
    ) -> Self:
        """Begin a project.

        Args:
            folder: Where to keep it; new or empty.
            images: Folder of the images, which stay there and are not changed; None:
                what is labeled are the rows that the encoder ``vectors:FILE`` names.
            classes: Names of the classes.
            budget: Labels in all.
            audit: How many of them measure, at most half of the images; None: a fifth
                of the budget, or of the images where they are fewer.
            query: Labels asked for in each round; None: 20.
            overlap: Annotators who shall label each image; None: one.
            strategy: What chooses images; None: the default, ``DEFAULT_STRATEGY``.
            trainer: What learns; None: what fits the images.
            encoder: What makes the features that it learns from; None: as the trainer
                says. ``vectors:FILE`` has them in a file (.parquet, .npz or .npy).
            quality: How many pixels a pretrained network sees: ``"fast"`` (96 a side),
                ``"normal"`` (160) or ``"best"`` (224); None: normal.
            size: Side of the square that images are brought to, whatever the quality;
                None: what fits.
            seed: Seed of everything random; None: 0.
            store: Address of a PostgreSQL server; None: a file in the folder.
            shares: How frequent the classes are among the images: ``"unknown"``,
                ``"even"``, or a number for each.
            first: Index so many of the images, drawn at random, so that labeling can
                begin at once; :meth:`index` takes in the others. None: all of them.

        Returns:
            The project, with its images indexed.
        """
        from fewlabels import strategies
        from fewlabels.projects import beginning, catalog

        place, names = Path(folder), class_names(classes)
        known_shares = read_shares(shares, len(names))
        pictures = None if images is None else Path(images).expanduser()
        beginning.check_size(size)
        check_free(place)
        source = beginning.Source.of(place, pictures, encoder, first)
        planned = source.planned(trainer, encoder, size, known_shares, quality)
        index = source.index
        settings = checked(
            len(set(index.representative.values())),
            images=None if pictures is None else reference(pictures, place),
            vectors=source.reference,
            store=store,
            budget=budget,
            audit=audit,
            query=query,
            overlap=overlap,
            strategy=strategy,
            trainer=planned.trainer,
            reason=planned.reason,
            shape=planned.shape,
            seed=seed,
        )
        trust.check_address(settings.store)
        strategies.resolve(settings.strategy.name, settings.strategy.options)
        source.check(planned, names)
        with _whole(place) as partial:
            with Store.open(store_place(partial, settings)) as labels:
                identity = labels.begin(names, annotator=OWNER)
                catalog.take_in(labels, index)
            settings.model_copy(update={"store_identity": identity}).write(partial)
        # The caller named it all.
        project = cls.open(place, allow_code=True, trust_store=True)
        project.warn_once(index.unreadable)
        return project

    def ask(
        self,
        *,
        size: int | None = None,
        strategy: str | Choice | None = None,
        anew: bool = False,
        ahead: bool = False,
        scan: bool = True,
    ) -> Asked:
        """Choose the next images to label, or return those that are still open.

        Args:
            size: How many images the strategy chooses; None: as the project says.
            strategy: Another strategy than the project's, for this round.
            anew: Leave what is open of the last round and choose again.
            ahead: Choose more images while others are open, which stay open. The
                budget allows for the answers that are still to come.
            scan: Look through the folder for new images first.

        Returns:
            The images, in the order in which to label them.
        """
        chosen = None if strategy is None else Choice.model_validate(strategy)
        with self.alone(LOCK, "choosing images"):
            if scan:
                self.index()
            return asking.ask(self, size=size, strategy=chosen, anew=anew, ahead=ahead)

    def write_query(self, asked: Asked, path: str | PathLike[str]) -> Path:
        """Write a query for people: CSV, JSONL or Label Studio JSON, by its ending.

        Args:
            asked: What :meth:`ask` returned.
            path: ``.csv``, ``.jsonl`` or ``.json`` (Label Studio's tasks).

        Returns:
            The path.
        """
        return self.write_questions(self.questions(asked), path)

    def questions(self, asked: Asked) -> tuple[AskedItem, ...]:
        """Return what people are asked: numbers, names and, where fair, a guess."""
        return answers.questions(self, asked)

    def write_questions(
        self, questions: Sequence[AskedItem], path: str | PathLike[str]
    ) -> Path:
        """Write what :meth:`questions` returned; as :meth:`write_query`."""
        return answers.write_questions(self, questions, Path(path))

    def tell(
        self,
        path: str | PathLike[str],
        *,
        annotator: str | None = None,
        partial: bool = False,
    ) -> Told:
        """Take labels from a file: all of them or, where one is wrong, none.

        Args:
            path: CSV, JSONL, or an export of Label Studio (.json).
            annotator: Who labeled, where the file does not say.
            partial: Take the good rows, and list the others.

        Returns:
            What was taken.
        """
        return answers.tell(self, Path(path), annotator=annotator, partial=partial)

    def train(
        self, trainer: str | Choice | None = None, *, scan: bool = True
    ) -> "Trained":
        """Train on what is labeled, or go on with a training that was interrupted.

        It learns from what is there when it begins; people may label, and ask for more,
        while it runs.

        Args:
            trainer: Another trainer than the project's, such as ``"flexmatch"`` for a
                network from scratch at the end. It is given the project's encoder and
                class shares, where it takes them. The project's own trainer can work
                meanwhile; this one's model becomes the latest when it is finished.
            scan: Look through the folder for new images first.

        Returns:
            The model.
        """
        from fewlabels.projects import learning

        other = None if trainer is None else learning.other_trainer(self, trainer)
        lock = TRAINING_LOCK if other is None else OTHER_TRAINING_LOCK
        with self.alone(lock, "training"):
            if scan:
                self.index()
            return learning.train(self, other)

    def start_training(self) -> Job:
        """Begin :meth:`train` in a process of its own.

        Returns:
            The job, to watch, cancel or wait for. Its result holds the name of the
            ``model`` and whether it ``is_new``.
        """
        arguments = {"folder": self.folder.resolve()}
        call = "fewlabels.projects.jobs:train"
        return start(call, arguments, allow_code=self.allow_code)

    def expectation(self, trainer: str | Choice | None = None) -> str:
        """Say how the next training will be done, and how long it will take here.

        A few steps are done and timed, which takes some seconds by itself.

        Args:
            trainer: Another trainer than the project's, as of :meth:`train`.

        Returns:
            A sentence; empty where nothing is to be trained.
        """
        from fewlabels.projects import learning
        from fewlabels.projects.planning import duration, expected_seconds

        self.index()
        other = None if trainer is None else learning.other_trainer(self, trainer)
        if not learning.is_needed(self, other):
            return ""
        snapshot = self.snapshot()
        pool = snapshot.pool(self.images(snapshot))
        chosen = self.chosen_trainer() if other is None else other
        seconds = expected_seconds(chosen, pool, self.feature_cache)
        words = f"{self.settings.reason} " if other is None else ""
        if seconds is not None:
            return f"{words}Expected: {duration(seconds)}."
        return f"{words}Trainer: {chosen.name}; how long it takes is not known."

    def status(self) -> Status:
        """Return how the project stands, and how good its model is."""
        return status.status(self)

    def export(
        self,
        folder: str | PathLike[str],
        *,
        onnx: bool = False,
        as_is: bool = False,
        also: Callable[[Path], object] | None = None,
    ) -> "Exported":
        """Write labels, predictions and the latest model for other programs.

        A model that has not learned from all labels is trained first, if the project's
        trainer takes no steps.

        Args:
            folder: Where to; new, empty, or an earlier export that nobody changed,
                which is replaced as a whole.
            onnx: Also as ``model.onnx`` (extra ``onnx``).
            as_is: Train nothing, and write what there is: labels alone before there is
                a model, or a model that has not learned from all of them.
            also: Writes further files into a folder, which come with the others.

        Returns:
            The files. An :class:`UnlearnedLabelsError` says what is missing where
            training would take steps, or too little is labeled to train at all.
        """
        from fewlabels.projects import exporting

        self.index()
        exporting.check_folder(Path(folder))
        if not as_is and exporting.needs_training(self):
            self.train()
        return exporting.export(self, Path(folder), onnx=onnx, also=also)

    def backup(self, path: str | PathLike[str]) -> int:
        """Copy all labels, as of one moment, to a new file; return how many events."""
        return self.store.backup(Path(path))


@contextmanager
def _whole(place: Path) -> Iterator[Path]:
    """Hand out a folder whose content becomes that of ``place`` once it is complete.

    Of two that do so at the same time the second is refused. A folder that is there
    already is filled, the settings last: a shell may be in it, or a drive.

    Yields:
        The folder.
    """
    real = place.resolve()  # '.' has no name of its own
    if not real.exists():
        with files.building(real) as partial:
            yield partial
            try:
                files.move(partial, real)
            except StorageError:
                check_free(place)
                raise
        return
    in_use = ProjectError(f"Another process is creating a project in '{place}'.")
    with files.building(real / FILE) as partial:
        yield partial
        with files.alone(real / LOCK, in_use, patience=_PATIENCE):
            check_free(place)
            for path in sorted(partial.iterdir(), key=lambda one: one.name == FILE):
                files.move(path, real / path.name)


def check_free(folder: Path) -> None:
    """Raise unless a folder is new, empty, or that of a beginning that was killed."""
    if not folder.exists():
        return
    if folder.is_dir():
        found = files.strangers(folder, LOCK, *_OPEN_STORE, *_PAGE)
        if not found or (found == [_STORE] and _is_unused(folder / _STORE)):
            return
    raise ProjectError(
        f"'{folder}' is not empty; nothing was touched. Give a new or empty folder "
        "for the project. To go on with a project that is there, ask it."
    )


def _is_unused(store: Path) -> bool:
    """Whether a file is a label store that nobody was asked about anything from."""
    try:
        with Store.open(store, create=False) as opened:
            return not opened.rounds()
    except FewlabelsError:
        return False
