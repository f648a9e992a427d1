"""Where models are on this machine; nothing heavy is imported to know."""

from hashlib import blake2b, file_digest
from importlib.util import find_spec
from pathlib import Path

from fewlabels.errors import UsageError


def onnx_file(place: str) -> Path:
    """Return the file of a network that ``onnx:FILE`` names."""
    path = Path(place).expanduser()
    if path.suffix != ".onnx":
        raise UsageError(f"'{place}' does not end in .onnx; name an ONNX file.")
    if not path.is_file():
        raise UsageError(f"There is no file '{path}'; give the path of an ONNX file.")
    _check_installed("onnxruntime", "onnxruntime", f"'{path.name}' is read by")
    return path


def rows_file(place: str) -> Path:
    """Return the file of rows that ``vectors:FILE`` names."""
    path = Path(place).expanduser()
    if not path.is_file():
        raise UsageError(f"There is no file '{path}' with rows; give its path.")
    return path


def no_encoder(path: Path, **options: object) -> None:
    """Raise: rows in a file belong to items, and none can be made of another image."""
    del options
    raise UsageError(
        f"'{path}' holds rows of items that are known, and makes none of images. Give "
        "it where items are named: data.load(..., vectors=FILE), the encoder of a run "
        "or of a new project."
    )


def _check_installed(module: str, extra: str, why: str) -> None:
    """Raise unless a package is there; it is not imported."""
    if find_spec(module) is None:
        raise UsageError(
            f"{why} the package {module}, which is not installed. Run: pip install "
            f"'fewlabels[{extra}]'"
        )


def hash_of_files(paths: list[Path], besides: str) -> str:
    """Return a hash of what files hold and of what else decides: 16 digits."""
    found = blake2b(besides.encode(), digest_size=8)
    for path in paths:
        with path.open("rb") as file:
            found.update(file_digest(file, "sha256").digest())
    return found.hexdigest()
