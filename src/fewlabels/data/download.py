"""Fetching a file: whole, unchanged, or not at all."""

from dataclasses import dataclass
from hashlib import md5
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import IO
from urllib import request
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from fewlabels.errors import DownloadError, StorageError
from fewlabels.files import make_folder, replacing
from fewlabels.progress import track

TIMEOUT = 30.0
"""Seconds without a byte after which a server is given up."""

_MOST_BYTES = 2**30
_CHUNK = 2**18


@dataclass(frozen=True)
class Source:
    """A file and where it comes from."""

    url: str
    file_name: str
    md5: str
    """What the official page or torchvision gives; it identifies, no more."""


def fetch(source: Source, folder: Path, *, timeout: float = TIMEOUT) -> Path:
    """Return where a file is in a folder, after downloading it unless it is there.

    Only when all bytes have come and their hash is right does the file get its name, so
    that a half file is never taken for a whole one. A server that sends nothing for so
    many seconds is given up.
    """
    goal = folder / source.file_name
    if goal.is_file():
        return goal
    if urlsplit(source.url).scheme not in {"http", "https"}:
        raise DownloadError(f"{source.url} is neither an http nor an https address.")
    try:
        make_folder(folder)
        with replacing(goal) as partial, partial.open("wb") as file:
            seen = _received(source, file, timeout)
            if seen != source.md5:
                what = f"the file that came has the MD5 {seen}, the official one "
                raise _failed(source, what + source.md5)
    except StorageError as error:
        raise DownloadError(
            f"The cache of downloads cannot be written to. {error} Set FEWLABELS_CACHE "
            "to use another folder."
        ) from error
    return goal


def _received(source: Source, file: IO[bytes], timeout: float) -> str:
    """Write what the server sends; return its hash."""
    try:
        with _opener().open(source.url, timeout=timeout) as response:
            return _copied(source, response, file)
    except HTTPError as error:
        with error:
            seen = f"the server answered {error.code} {error.reason}"
        raise _failed(source, seen) from error
    except TimeoutError as error:
        seen = f"the server said nothing for {timeout:g} seconds"
        raise _failed(source, seen) from error
    except URLError as error:
        seen = f"the server cannot be reached ({error.reason})"
        raise _failed(source, seen) from error
    except (HTTPException, OSError) as error:
        raise _failed(source, f"the connection broke ({error!r})") from error


def _copied(source: Source, response: HTTPResponse, file: IO[bytes]) -> str:
    """Copy a response chunk by chunk; return the hash of all of it."""
    announced = response.headers.get("Content-Length", "")
    total = int(announced) if announced.isdecimal() else 0
    digest, num_bytes = md5(usedforsecurity=False), 0
    with track(f"Downloading {source.file_name}", total) as advance:
        while chunk := response.read(_CHUNK):
            num_bytes += len(chunk)
            if num_bytes > _MOST_BYTES:
                raise _failed(
                    source, f"the server sent more than {_MOST_BYTES:,} bytes"
                )
            digest.update(chunk)
            file.write(chunk)
            advance(len(chunk))
    if total and num_bytes < total:
        raise _failed(source, f"only {num_bytes:,} of {total:,} bytes came")
    return digest.hexdigest()


def _failed(source: Source, seen: str) -> DownloadError:
    return DownloadError(
        f"{source.url} could not be downloaded: {seen}. Nothing was kept. Try again, "
        f"or put {source.file_name} into the folder that FEWLABELS_DATA names."
    )


def _opener() -> request.OpenerDirector:
    """Return an opener that speaks http and https only, redirected or not."""
    opener = request.OpenerDirector()
    for handler in (
        request.ProxyHandler(),
        request.HTTPHandler(),
        request.HTTPSHandler(),
        request.HTTPDefaultErrorHandler(),
        request.HTTPRedirectHandler(),
        request.HTTPErrorProcessor(),
        request.UnknownHandler(),
    ):
        opener.add_handler(handler)
    return opener
