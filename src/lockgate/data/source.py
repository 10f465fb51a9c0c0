"""Locate, fetch, verify: from the name of a release's file to a path that can be read.

    --data-dir given    -> only there; a missing file is an error, nothing is downloaded behind the user's back
    LOCKGATE_DATA set   -> there first, then as below
    neither             -> the per-user cache of this OS, filled from mirrors and checked by SHA-256

Files a user brings are checked by structure and not by checksum (see each reader): re-compressed copies and re-derived
crops are fine. Nothing is ever deleted or overwritten.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lockgate.errors import DataError

ENVIRONMENT = "LOCKGATE_DATA"


@dataclass(frozen=True)
class Release:
    """One file of an official release: its name, checksum, and the folders on the web that serve it."""

    name: str
    sha256: str
    mirrors: tuple[str, ...]  # each ends in "/"; tried in this order
    other_names: tuple[str, ...] = ()  # names the same content goes by in a user's folder

    @property
    def names(self) -> tuple[str, ...]:
        """Every name a local copy may have, the official one first."""
        return (self.name, *self.other_names)


def base_folder(data_dir: Path | None) -> Path | None:
    """The folder to look under: ``data_dir``, else LOCKGATE_DATA, else None."""
    if data_dir is not None:
        folder = data_dir.expanduser()
        if not folder.is_dir():
            raise DataError(f"The data folder {folder} is not a folder. Create it, or correct --data-dir.")
        return folder
    value = os.environ.get(ENVIRONMENT)
    return Path(value).expanduser() if value else None


def find(names: Sequence[str], base: Path | None, folder_names: Sequence[str]) -> Path | None:
    """The first existing ``base/folder/name``, folders before names, or None."""
    if base is None:
        return None
    candidates = (base / folder / name for folder in folder_names for name in names)
    return next((path for path in candidates if path.is_file()), None)


def locate(files: Sequence[Release], data_dir: Path | None, folder_names: Sequence[str]) -> list[Path]:
    """A readable path for each file: the user's copy if there is one, else the cached or freshly fetched one."""
    base = base_folder(data_dir)
    paths = []
    for file in files:
        path = find(file.names, base, folder_names)
        if path is None and data_dir is not None and base is not None:
            raise missing(file.names, base, folder_names)
        paths.append(path or fetch(file, folder_names[0]))
    return paths


def missing(names: Sequence[str], base: Path, folder_names: Sequence[str]) -> DataError:
    """The error for a file that is in none of the folders of an explicit ``--data-dir``."""
    looked = "\n".join(f"  - {base / folder}" for folder in folder_names)
    return DataError(
        f"{' or '.join(names)} was not found. Looked in:\n{looked}\n"
        "Put the file in one of these folders, or leave --data-dir out to have it downloaded."
    )


def fetch(file: Release, folder: str) -> Path:
    """The file in the cache of this user, downloaded on first use from the first mirror that serves the right bytes."""
    import pooch  # late: pulls in requests, which most runs do not need

    cache = Path(pooch.os_cache("lockgate")) / folder
    path = cache / file.name
    # pooch would silently replace a cached file with the wrong checksum; the user may want to look at it first.
    if path.exists() and (found := pooch.file_hash(str(path))) != file.sha256:
        raise DataError(
            f"The cached file {path} has SHA-256 {found}, not the official {file.sha256}. "
            "It was left as it is: move it away and run again."
        )
    failures = []
    for mirror in file.mirrors:
        url = mirror + file.name
        try:
            downloader = pooch.HTTPDownloader(progressbar=sys.stderr.isatty())
            pooch.retrieve(url, known_hash=file.sha256, fname=file.name, path=cache, downloader=downloader)
            return path
        except (OSError, ValueError) as error:  # requests' errors are OSErrors; a wrong checksum is a ValueError
            failures.append(f"  - {url}: {error}")
    raise DataError(
        f"Cannot fetch {file.name}. Tried:\n" + "\n".join(failures) + f"\nDownload the file by other means "
        f"(SHA-256 {file.sha256}), put it in DIR/{folder}/, and pass --data-dir DIR or set {ENVIRONMENT}=DIR."
    )
