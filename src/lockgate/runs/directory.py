"""The run folder: config.yaml, records.jsonl, summary.json, checkpoints/, pictures/. One process at a time writes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import BaseFileLock, FileLock, Timeout

from lockgate.config import Experiment, build, read_yaml
from lockgate.errors import ConfigError, LockgateError, RunFolderError
from lockgate.runs.legacy import upgraded

if TYPE_CHECKING:
    from torch import Tensor


OBJECTS = "objects"
"""The key of ``config.yaml`` under which stands what the run was given as objects."""


MODEL_CONFIG = "model.yaml"
"""What stands in a model in the place of ``config.yaml``."""


class RunFolder:
    """Paths inside a run folder, and the rules for writing there."""

    config_name = "config.yaml"
    what = "run folder"
    beginning = "lockgate run"

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / self.config_name
        self.records = path / "records.jsonl"
        self.summary = path / "summary.json"
        self.checkpoints = path / "checkpoints"
        self.pictures = path / "pictures"

    def create(self, experiment: Experiment, command: str, objects: Mapping[str, str] | None = None) -> None:
        """Make the folder for a new run; refuse one that holds a run already. ``objects``: see ``write_config``."""
        self._refuse(experiment)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with self.lock():
                self._refuse(experiment)  # once more: another process may have been faster
                self.write_config(experiment, command, objects)
        except OSError as error:
            raise RunFolderError(
                f"Cannot write to {self.path}: {error.strerror}. Choose a folder you own as --out."
            ) from error

    def _refuse(self, experiment: Experiment) -> None:
        """Raise if a new run cannot have this folder."""
        if self.config.exists():
            same = read_experiment(self.config) == experiment
            what = "this experiment" if same else "another experiment"
            remedy = f"continue it with {self.remedy}" if same else "choose another --out"
            raise RunFolderError(f"{self.path} already holds {what}; {remedy}. Nothing was changed.")
        if self.path.exists() and not empty(self.path):
            raise RunFolderError(f"{self.path} is not empty and not a run folder; choose another --out.")

    def write_config(self, experiment: Experiment, command: str, objects: Mapping[str, str] | None = None) -> None:
        """Write the experiment whole, below the command that made it; and what it was given as ``objects``, by name."""
        import yaml

        values = {**experiment.to_dict(), **({OBJECTS: dict(objects)} if objects else {})}
        config = yaml.safe_dump(values, sort_keys=False)
        write_atomically(self.config, f"# {' '.join(command.splitlines())}\n{config}")

    def experiment(self) -> Experiment:
        """The experiment the folder holds."""
        if not self.config.is_file():
            if (self.path / MODEL_CONFIG).is_file():
                raise RunFolderError(
                    f"{self.path} is a model, and this is for runs. A model goes on with `lockgate learn`, and is "
                    "asked with `lockgate predict`, `inspect` and `audit`."
                )
            raise RunFolderError(
                f"{self.path} is not a {self.what}: it has no {self.config_name}. Start one with `{self.beginning}`."
            )
        try:
            return read_experiment(self.config)
        except ConfigError as error:
            raise RunFolderError(
                f"{self.config} cannot be used. {error}\nPut it back as it was, from a copy: nothing else was changed."
            ) from error

    def objects(self) -> dict[str, str]:
        """The names of what the run was given as objects; empty: ``config.yaml`` says all."""
        given: dict[str, str] = read_yaml(self.config).get(OBJECTS, {}) if self.config.is_file() else {}
        return given

    @property
    def remedy(self) -> str:
        """How to go on after work in the folder has been stopped."""
        again = "".join(f", {name}=..." for name in self.objects())
        return f"`lockgate.resume({str(self.path)!r}{again})`" if again else f"`lockgate resume {self.path}`"

    @property
    def advice(self) -> str:
        """What to do when training has diverged."""
        return "Lower `optim.lr`, keep `optim.clip` on, or look for broken images; then start a new run."

    def command(self) -> str:
        """The command that made the run."""
        return self.config.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")

    @contextmanager
    def lock(self) -> Iterator[BaseFileLock]:
        """Hold the folder for this process; refuse if another process is at work in it.

        By ``filelock``, which knows the locks of every system: a killed process lets go of them.
        """
        held = FileLock(self.path / ".lock", timeout=0, thread_local=False)
        try:
            held.acquire()
        except Timeout as error:
            raise RunFolderError(f"{self.path} is in use by another process; wait for it or stop it.") from error
        except (OSError, NotImplementedError) as error:
            why = getattr(error, "strerror", None) or error
            raise RunFolderError(
                f"Cannot write to {self.path}: {why}. Run as a user who can, on a file system that knows locks."
            ) from error
        try:
            yield held
        finally:
            held.release()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Say in words that something cannot be written."""
        try:
            yield
        except ConnectionError:  # of a pipe or another rank: no file is to blame
            raise
        except OSError as error:
            there = self.checkpoints.is_dir() and any(self.checkpoints.glob("[0-9]*"))
            kept = "The newest checkpoint is intact" if there else "There was no checkpoint yet, so nothing is kept"
            raise LockgateError(
                f"Cannot write to {self.path}: {error.strerror or error}. {kept}: make room or mend permissions, then "
                f"{self.remedy}."
            ) from error

    def read_summary(self) -> dict[str, Any]:
        """The summary of a finished run."""
        if not self.summary.is_file():
            raise RunFolderError(
                f"{self.path} has no summary.json: the run has not finished. `lockgate resume {self.path}`."
            )
        summary: dict[str, Any] = json.loads(self.summary.read_text(encoding="utf-8"))
        return summary

    def write_summary(self, summary: dict[str, Any]) -> None:
        """Write summary.json whole."""
        write_atomically(self.summary, json.dumps(summary, indent=1) + "\n")

    def write_picture(self, name: str, image: Tensor) -> None:
        """Write pictures/``name``.png from an image (C, H, W) uint8, grey or colour."""
        from PIL import Image

        self.pictures.mkdir(exist_ok=True)
        array = image.squeeze(0).numpy() if len(image) == 1 else image.permute(1, 2, 0).numpy()
        partial = self.pictures / f".{name}.partial"
        Image.fromarray(array).save(partial, format="png")
        os.replace(partial, self.pictures / f"{name}.png")


def read_experiment(config: Path) -> Experiment:
    """The experiment that a ``config.yaml`` or ``model.yaml`` holds, written by this version or by 0.1."""
    values = read_yaml(config)
    values.pop(OBJECTS, None)
    return build(Experiment, upgraded(values))


def empty(path: Path) -> bool:
    """Whether a folder holds nothing but what a killed process may have left before there was anything."""
    return path.is_dir() and all(item.name.startswith(".") for item in path.iterdir())


def write_atomically(path: Path, text: str) -> None:
    """Write a text file so that it is there whole or not at all."""
    partial = path.with_name(f".{path.name}.partial")
    with partial.open("w", encoding="utf-8", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)
