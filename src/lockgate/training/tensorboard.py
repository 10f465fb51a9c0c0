"""Records as scalars for TensorBoard, for those who watch runs there; extra `[tensorboard]`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lockgate.errors import LockgateError

FOLDER = "tensorboard"


class TensorBoardLogger:
    """Writes what is appended to the records of a run, also to its folder `tensorboard`."""

    def __init__(self, run: Path, epochs: int) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise LockgateError(
                "TensorBoard is not installed. Bring it with `pip install 'lockgate[tensorboard]'`, "
                "or leave out --runtime.tensorboard."
            ) from error
        self._writer: Any = SummaryWriter(str(run / FOLDER))
        self._epochs = epochs

    def add(self, record: dict[str, Any]) -> None:
        """One record; a resumed run writes some again, and the later ones count."""
        for name, value, step in scalars(record, self._epochs):
            self._writer.add_scalar(name, value, step)
        self._writer.flush()


def scalars(record: dict[str, Any], epochs: int) -> Iterator[tuple[str, float, int]]:
    """Name, value and step of everything in a record that can be drawn over time."""
    if record["event"] == "task":
        after = record["task"] + 1
        for kind in ("task_incremental", "class_incremental"):
            row = record[kind]
            if row:
                yield f"{kind}/average", sum(row) / len(row), after
                yield from ((f"{kind}/task {j + 1}", value, after) for j, value in enumerate(row))
        for entry in record["capacity"]:
            yield f"filters used/{entry['layer']}", entry["used"], after
        return
    step = record["task"] * epochs + record["epoch"]
    where = "task" if record["event"] == "epoch" else record["event"]
    for name, value in record["losses"].items():
        yield f"{where}/loss {name}", value, step
    for name in ("val_accuracy", "val_objective", "lr"):
        if name in record:
            yield f"{where}/{name}", record[name], step
