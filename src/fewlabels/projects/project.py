"""A project: a person's images and labels, and what was learned from them."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from fewlabels import files
from fewlabels.errors import ProjectError, UnreadableFile, UnreadableFilesWarning
from fewlabels.experiments.settings import Choice, validated
from fewlabels.jobs import Job, start, startable
from fewlabels.names import AllowCode, check_code
from fewlabels.projects import answers, image_index, imports, labels
from fewlabels.projects import folder as folders
from fewlabels.projects.answers import Asked
from fewlabels.projects.folder import ModelRecord
from fewlabels.projects.image_index import Index, image_file
from fewlabels.projects.settings import (
    FILE,
    NewProject,
    ProjectSettings,
    without_stale_shares,
)
from fewlabels.projects.snapshot import Snapshot
from fewlabels.projects.status import project_status
from fewlabels.projects.store import ListedFile, Store
from fewlabels.projects.store.database import check_address, check_trusted

if TYPE_CHECKING:
    from fewlabels.data.decode import ImageFile
    from fewlabels.pool import Images, Pool
    from fewlabels.projects.export import Exported
    from fewlabels.projects.model_training import Trained
    from fewlabels.protocols import Classifier, Trainer

_TRAINING_LOCK = ".training.lock"  # takes longer, and keeps nobody from choosing
_OTHER_TRAINING_LOCK = ".other-training.lock"  # by another trainer, meanwhile
_INDEX_LOCK = ".index.lock"
_UNUSABLE = "unusable.txt"


@dataclass(frozen=True, eq=False)
class Project:
    """A project in a folder: each command of the command line is a method.

    All methods can be interrupted at any moment and called again. Each call that writes
    labels is one transaction, on the disk when it returns; see
    :mod:`fewlabels.projects.labels`.
    """

    folder: Path
    settings: ProjectSettings
    store: Store
    allow_code: AllowCode = False
    """Which import paths ``project.json`` may name."""

    # Verbs that are functions of a project, each in the module that it belongs to.
    label = labels.label
    skip = labels.skip
    unsure = labels.unsure
    change = labels.change
    undo = labels.undo
    lease = labels.lease
    revise = labels.revise
    restore = labels.restore
    add_classes = labels.add_classes
    rename_class = labels.rename_class
    merge_classes = labels.merge_classes
    restore_class = labels.restore_class
    questions = answers.questions
    write_query = answers.write_query
    tell = answers.tell
    import_labels = imports.import_labels
    undo_import = imports.undo_import
    status = project_status

    # ------------------------------------------------------------- begin and open

    @classmethod
    def create(
        cls,
        folder: str | PathLike[str],
        images: str | PathLike[str] | None,
        classes: Sequence[str],
        *,
        first: int | None = None,
        **options: Any,
    ) -> Self:
        """Create a project.

        Args:
            folder: Folder of the project; new or empty.
            images: Folder of the images, which stay there and are not changed; None
                to label the rows that the encoder ``vectors:FILE`` names.
            classes: Names of the classes.
            first: Index so many of the images, drawn at random, so that labeling can
                begin at once; :meth:`index` adds the others. None for all.
            **options: ``budget``, the number of labels in all, and further fields of
                :class:`fewlabels.projects.settings.NewProject`; None for the default.

        Returns:
            The project, with its images indexed.
        """
        from fewlabels import strategies
        from fewlabels.projects.training_plan import plan_project

        place, names = Path(folder), labels.check_class_names(classes)
        new = NewProject.of(options)
        pictures = None if images is None else Path(images).expanduser()
        folders.check_empty(place)
        index, rows, planned = plan_project(place, pictures, new, names, first)
        settings = new.settings(
            len(set(index.representative.values())),
            images=None if pictures is None else folders.reference(pictures, place),
            vectors=rows,
            **vars(planned),
        )
        check_address(settings.store)
        strategies.resolve(settings.strategy.name, settings.strategy.options)
        with folders.new_project_folder(place) as partial:
            with Store.open(folders.store_place(partial, settings)) as opened:
                identity = opened.begin(names, annotator=labels.OWNER)
                index.write(opened)
            settings.model_copy(update={"store_identity": identity}).write(partial)
        # The caller named it all.
        project = cls.open(place, allow_code=True, trust_store=True)
        project._warn_of_new(index.unreadable)
        return project

    @classmethod
    def open(
        cls,
        folder: str | PathLike[str],
        *,
        allow_code: AllowCode = False,
        trust_store: bool = False,
    ) -> Self:
        """Open the project in a folder.

        Args:
            folder: The folder of the project.
            allow_code: Which import paths ``project.json`` may name as strategy,
                trainer or encoder: any (True), these, or none. Without it, a project
                can still be labeled and its status be read.
            trust_store: Confirm the PostgreSQL server that ``project.json`` names, for
                good. Without it, only a server that was confirmed is connected to.

        Returns:
            The project; close it, or use it in a ``with`` block.

        Raises:
            ProjectError: If there is none, its label store is another project's, or
                its server was not confirmed on this machine.
        """
        place = Path(folder)
        settings = ProjectSettings.read(place)
        check_trusted(place, settings.store, confirm=trust_store)
        store = Store.open(folders.store_place(place, settings), create=False)
        if settings.store_identity not in {None, store.identity}:
            store.close()
            raise ProjectError(
                f"'{place}' began with another label store; correct 'store' in {FILE}."
            )
        settings.warn_of_changes(place)
        return cls(place, settings, store, allow_code)

    def close(self) -> None:
        """Close the label store."""
        self.store.close()

    def __enter__(self) -> Self:
        """Return the project."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the project."""
        self.close()

    @property
    def settings_file(self) -> Path:
        """Where the settings are, for people who want to change them."""
        return self.folder / FILE

    @property
    def images_folder(self) -> Path:
        """Where the images are; if items are rows, the folder of the file of rows."""
        if self.settings.images is None:
            return self.vectors_file.parent
        return self.folder / self.settings.images

    @property
    def vectors_file(self) -> Path:
        """Where the rows are that are learned from in the place of images."""
        assert self.settings.vectors is not None
        return self.folder / self.settings.vectors

    @property
    def models_folder(self) -> Path:
        """Where the models are, each in a folder of its own."""
        return self.folder / "models"

    @contextmanager
    def alone(self, lock: str, doing: str, *, timeout: float = 0) -> Iterator[None]:
        """Keep other processes from doing the same while the block runs.

        Everything else can go on: people label while a process trains. If another
        process holds the lock, a :class:`ProjectError` says so.

        Yields:
            Nothing.
        """
        in_use = ProjectError(
            f"Another process is {doing} in '{self.folder}'; wait until it is done. "
            "Everything else can go on meanwhile."
        )
        with files.hold_lock(self.folder / lock, in_use, timeout=timeout):
            yield

    def index(self) -> Index:
        """Return all images that are there now, after updating the store.

        Known files are not read again. One warning names new files that cannot be
        read. If the folder or all images are gone, it is a :class:`ProjectError`.
        """
        known: dict[str, ListedFile] = {item.path: item for item in self.store.items()}
        index = self._scan(known, len(known))
        if index.num_read or len(index.files) != len(known):
            # Again, one process at a time, so that an older scan is never written last.
            # What was read just now is not read again.
            read = {file.path: file for file in index.files}
            with self.alone(_INDEX_LOCK, "listing the images", timeout=-1):
                known = {item.path: item for item in self.store.items()}
                index = self._scan(known | read, len(known))
                index.write(self.store)
        if self.settings.images is not None:
            self._warn_of_new(index.unreadable)
        return index

    def _scan(self, known: Mapping[str, ListedFile], num_expected: int) -> Index:
        """Return the images or rows there are now; there must be some if expected."""
        if self.settings.images is None:
            from fewlabels.projects.rows import rows_in, scan_rows

            return scan_rows(rows_in(self.vectors_file), known)
        folder, index = self.images_folder, None
        if folder.is_dir():
            own = image_index.inside(self.folder, folder)
            index = image_index.scan(folder, known, without=own)
        if index is None or (num_expected and not index.files):  # such as a lost drive
            raise ProjectError(
                f"None of the {num_expected} images is in '{folder.resolve()}'. Put "
                f"them back or correct 'images' in {FILE}. The labels are safe."
            )
        return index

    def _warn_of_new(self, unreadable: Sequence[UnreadableFile]) -> None:
        """Warn about unreadable files that are not in the list of earlier ones."""
        path, text = self.folder / _UNUSABLE, "".join(f"{f}\n" for f in unreadable)
        with files.wrap_os_errors(path):
            known = path.read_text("utf-8") if path.exists() else ""
        if text != known:
            files.replace_text(path, text)
        earlier = set(known.splitlines())
        new = [file for file in unreadable if str(file) not in earlier]
        if new:
            unusable = UnreadableFilesWarning(self.images_folder, new)
            warnings.warn(unusable, stacklevel=2)

    def snapshot(self) -> Snapshot:
        """Read the label store, as of one moment."""
        return Snapshot.of(self.store, self.settings.overlap)

    def images(self, snapshot: Snapshot) -> "Images":
        """Return what is learned from: images, read when they are needed, or rows."""
        shape = self.settings.shape
        if len(shape) > 1:
            from fewlabels.data.files import FileImages

            return FileImages(self.image_files(snapshot), shape)
        from fewlabels.pool import ArrayImages
        from fewlabels.projects.rows import row_names, rows_in

        vectors = rows_in(self.vectors_file)
        if self.settings.images is None:  # the rows are the items themselves
            vectors = replace(vectors, names=row_names(vectors))
        rows = ArrayImages(vectors.of([item.path for item in snapshot.items]))
        if rows.shape != shape:
            raise ProjectError(
                f"'{self.vectors_file}' has rows of shape {rows.shape}, not {shape}."
            )
        return rows

    def image_files(self, snapshot: Snapshot) -> "tuple[ImageFile, ...]":
        """Return the files of images, without opening them; none if items are rows."""
        if self.settings.images is None:
            return ()
        folder = self.images_folder
        return tuple(image_file(item, folder) for item in snapshot.items)

    def records(self) -> tuple[ModelRecord, ...]:
        """Return what is known of every model, in the order of training."""
        return folders.read_records(self.models_folder)

    def with_budget(self, budget: int, audit: int | None = None) -> Self:
        """Change the number of labels to give in all, and return the project.

        Args:
            budget: The number.
            audit: How many of them only measure; None: as many as before.

        Returns:
            The project. Images that measure are drawn with the next ones to label.
        """
        known = ProjectSettings.read(self.folder).model_dump()
        new = {"budget": budget, "audit": known["audit"] if audit is None else audit}
        settings = validated(ProjectSettings, known | new)
        settings.write(self.folder)
        with warnings.catch_warnings(action="ignore"):
            settings.warn_of_changes(self.folder)  # it was changed on purpose
        return replace(self, settings=settings)

    def trainer(self) -> "Trainer":
        """Return the trainer of the project."""
        from fewlabels import training

        chosen = self.chosen_trainer()
        return training.resolve(chosen.name, chosen.options)

    def chosen_trainer(self) -> Choice:
        """Return the trainer's name and options, without shares of fewer classes."""
        chosen = self.allowed(self.settings.trainer)
        return without_stale_shares(chosen, len(self.store.classes()))

    def allowed(self, chosen: Choice) -> Choice:
        """Return what ``project.json`` chose, unless it is code nobody has allowed."""
        check_code(self.settings_file, chosen.code, self.allow_code)
        return chosen

    def classifier(self, record: ModelRecord, pool: "Pool") -> "Classifier":
        """Return a trained model, with the features of the pool that are kept."""
        from fewlabels.projects import model_training

        return model_training.load_classifier(self, record, pool)

    # -------------------------------------------------------------- ask and tell

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
        with self.alone(folders.LOCK, "choosing images"):
            if scan:
                self.index()
            snapshot = self.snapshot()
            is_new = anew or ahead or not snapshot.open
            if is_new:
                from fewlabels.projects.selection import new_round

                current = new_round(self, snapshot, size, chosen, ahead=ahead)
            else:
                current = snapshot.rounds[-1]
            items = current.items if is_new else snapshot.open
            return Asked(current.step, current.strategy, current.model, items, is_new)

    def backup(self, path: str | PathLike[str]) -> int:
        """Copy all labels, as of one moment, to a new file; return how many events."""
        return self.store.backup(Path(path))

    # ----------------------------------------------------------- train and export

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
        from fewlabels.projects import model_training

        other = None if trainer is None else model_training.other_trainer(self, trainer)
        lock = _TRAINING_LOCK if other is None else _OTHER_TRAINING_LOCK
        with self.alone(lock, "training"):
            if scan:
                self.index()
            return model_training.train_model(self, other)

    def start_training(self) -> Job:
        """Begin :meth:`train` in a process of its own.

        Returns:
            The job, to watch, cancel or wait for. Its result holds the name of the
            ``model`` and whether it ``is_new``.
        """
        arguments = {"folder": self.folder.resolve()}
        call = "fewlabels.projects.project:train"
        return start(call, arguments, allow_code=self.allow_code)

    def expectation(self, trainer: str | Choice | None = None) -> str:
        """Say how the next training will be done, and how long it will take here.

        A few steps are done and timed, which takes some seconds by itself.

        Args:
            trainer: Another trainer than the project's, as of :meth:`train`.

        Returns:
            A sentence; empty where nothing is to be trained.
        """
        from fewlabels.projects import model_training

        self.index()
        return model_training.expectation(self, trainer)

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
        from fewlabels.projects import export

        self.index()
        export.check_replaceable(Path(folder))
        if not as_is and export.needs_training(self):
            self.train()
        return export.export_project(self, Path(folder), onnx=onnx, also=also)


@startable
def train(folder: str, *, allow_code: AllowCode) -> dict[str, Any]:
    """Train in a process of its own; return the model's name and whether it is new."""
    with Project.open(folder, allow_code=allow_code) as project:
        trained = project.train()
    return {"model": trained.record.name, "is_new": trained.is_new}
