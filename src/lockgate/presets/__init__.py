"""Ready-made experiments, as files to be read off.

short       `short/BACKBONE.yaml`: one recipe for each network, fitted to the size of the data (``presets/recipe.py``)
paper       `paper/DATASET.yaml`: the paper's own table, so by data set
printed     `printed/DATASET.yaml`: the same, without anything of ours

A file has a group `all`, and groups named by the methods they are for, which override those of `all`. What
`lockgate select` chose for `short` is put over it: `chosen/BACKBONE/METHOD.yaml` (``presets/chosen.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from lockgate.config import Experiment, build, gather, merge
from lockgate.data.size import TaskSize, size_of, task_size
from lockgate.errors import ConfigError
from lockgate.presets import recipe
from lockgate.presets.chosen import chosen_for
from lockgate.registry import Entry, Registry

Given = Mapping[str, Any]
NOTHING: Given = {}


class Preset(Protocol):
    """From names to an experiment."""

    def __call__(
        self, method: str, dataset: str, given: Given = NOTHING, task: TaskSize | None = None, chosen: bool = True
    ) -> Experiment:
        """The experiment of ``method`` on ``dataset``.

        ``given`` is what the user sets, as nested plain values; ``task`` the size of a task, where it is not to be
        looked up by the data set's name. Without ``chosen``, what `lockgate select` chose is left out.
        """
        ...


PRESETS: Registry[Preset] = Registry(
    "preset",
    {
        "short": Entry(
            "lockgate.presets:short", "A few epochs a task, for CPUs, fitted to the network and the data (default)."
        ),
        "paper": Entry("lockgate.presets:paper", "The paper's table of hyperparameters, for GPUs, with our seal."),
        "printed": Entry(
            "lockgate.presets:printed", "The paper to the letter, without anything of ours: it may forget."
        ),
    },
)


def short(
    method: str, dataset: str, given: Given = NOTHING, task: TaskSize | None = None, chosen: bool = True
) -> Experiment:
    """The recipe of the network, fitted to the number of training images of a task and to their side.

    What is ``given`` is not in the experiment: it is put over it. But the recipe follows it: another network has
    another recipe, other tasks have another size, and another batch makes other epochs.
    """
    known = gather(Experiment, {key: value for key, value in given.items() if key != "options"}, "", [])
    backbone = known.backbone if isinstance(given.get("backbone"), str) else recipe.network_of(dataset)
    if task is None:
        task = task_size(size_of(dataset, known.data_dir, known.data), known.tasks, known.scenario)
    optim = given.get("optim")
    batch = known.optim.batch_size if isinstance(optim, Mapping) and "batch_size" in optim else None
    values = recipe.settings_for(method, backbone, task, batch)
    if chosen:
        values = merge(values, chosen_for(method, backbone, given.get("options")))
    return build(Experiment, {**values, "method": method, "dataset": dataset})


class FilePreset:
    """A table by data set, `NAME/DATASET.yaml`: it is what it is, whatever is given, and nobody chose any of it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(
        self, method: str, dataset: str, given: Given = NOTHING, task: TaskSize | None = None, chosen: bool = True
    ) -> Experiment:
        """The experiment that the file of ``dataset`` describes for ``method``."""
        file = recipe.FOLDER / self.name / f"{dataset}.yaml"
        if not file.is_file():
            known = ", ".join(files(self.name))
            raise ConfigError(
                [f"The preset {self.name!r} has no schedule for {dataset!r}; it has for {known}. Use `short`."]
            )
        values = recipe.of_method(recipe.read(file), method)
        return build(Experiment, {**values, "method": method, "dataset": dataset})


paper = FilePreset("paper")
"""The paper's schedule for one of its four data sets."""
printed = FilePreset("printed")
"""The paper to the letter: its schedule and its method, no seal."""


def files(preset: str) -> list[str]:
    """What a preset has files for: networks, or data sets."""
    return sorted(path.stem for path in (recipe.FOLDER / preset).glob("*.yaml"))
