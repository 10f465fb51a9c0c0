"""``lockgate export``: the compiled network of a run or a model as a file that needs no Lockgate.

Images go in as uint8, one or more at a time; names of tasks and classes are in the file's metadata. The file gets its
name only after it has answered a run's whole test set, or a model's probes, as the original does.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from lockgate.app.trained import Trained, open_trained
from lockgate.errors import ConfigError, ExactnessError, LockgateError
from lockgate.evaluation.accuracy import inference_of
from lockgate.inference.check import Agreement, compare
from lockgate.inference.compile import compile_learner
from lockgate.version import __version__

Format = Literal["onnx", "torch"]
ENDINGS: dict[Format, str] = {"onnx": ".onnx", "torch": ".pt2"}
INPUT, OUTPUT = "images", "scores"
SCORES: dict[str, str] = {
    "logits": "logits, not normalised: their softmax are probabilities",
    "joint": "log-probabilities of all classes of all tasks: their exponentials are probabilities",
    "argmax": "log p(class | image, task) for the task that was found, minus infinity for the classes of others: their "
    "exponentials are probabilities within that task",
}
"""What the numbers are, by the kind of inference."""
METADATA = "lockgate.json"
"""Name of the metadata inside a ``torch.export`` file; ONNX has a place for it."""


def export_run(
    run: Path, task: int | str | None, format: Format = "onnx", out: Path | None = None
) -> tuple[Path, Agreement]:
    """Write the network of ``task`` (number or name), or of all if None, and say how well it was found to agree."""
    if format == "onnx":
        require_onnx()
    trained = open_trained(run)
    if isinstance(task, str):
        task = trained.task_id(task)
    network = answering_network(trained, task)
    tests = trained.tests if task is None else trained.tests[task : task + 1]
    images = torch.cat([test.x for test in tests])
    if not len(images):
        raise LockgateError(f"{run} keeps no images to check an exported file on. Learn tasks with --probes.")
    name = "all" if task is None else f"task{task}"
    path = out or run / f"{name}{ENDINGS[format]}"
    if path.is_dir() or path.suffix != ENDINGS[format]:
        raise ConfigError([f"'--out' must be a file whose name ends in {ENDINGS[format]}. Got {str(path)!r}."])
    partial = path.with_name(f".{path.name}.partial")
    try:
        write = write_onnx if format == "onnx" else write_torch
        traced = images[:1].repeat(2, 1, 1, 1)  # on a single one, torch takes "one" for a constant
        answer = write(network, traced, metadata(trained, task), partial)
        agreement = compare(trained.learner, answer, images, task)
        if not agreement.same_classes:
            raise ExactnessError(f"{path} was not written: {agreement.text()}. {_remedy(agreement)}")
        os.replace(partial, path)
    except OSError as error:
        raise LockgateError(f"Cannot write {path}: {error.strerror}. Choose another --out.") from error
    finally:
        with contextlib.suppress(OSError):  # a file system that is read-only refuses this as well
            partial.unlink()
    return path, agreement


def _remedy(agreement: Agreement) -> str:
    if not agreement.ok:
        return "Please report this as a bug."
    return (
        "Rounding differs between the two, and gates that close to their threshold decide by it. Try the other "
        "--format, or --task for each task alone."
    )


def answering_network(trained: Trained, task: int | None) -> nn.Module:
    """The compiled network, images to scores; refused where the learner has no such answer."""
    count = len(trained.learner.heads)
    if task is not None and not 0 <= task < count:
        raise ConfigError([f"'--task' must be from 0 to {count - 1}: {count} tasks have been learnt. Got {task}."])
    if task is None and not trained.learner.class_incremental:
        raise ConfigError(["The method needs the task. Choose one with --task."])
    compiled = compile_learner(trained.learner)
    network = compiled.together if task is None else compiled.tasks[task]
    assert network is not None
    return network.eval()


def metadata(trained: Trained, task: int | None) -> dict[str, str]:
    """What a file says about itself, so that it can be used without us; lists are JSON."""
    classes = trained.class_names if task is None else trained.classes[task]
    task_of_class = [t for t in trained.task_of_class if task in (None, t)]
    inference = "logits" if task is not None else inference_of(trained.learner)
    channels, height, width = trained.learner.image_shape
    return {
        "lockgate": __version__,
        "input": f"{INPUT}: uint8 (batch >= 1, {channels}, {height}, {width}), pixels 0 to 255 as they are: they are "
        "standardised inside",
        "channels": json.dumps(["grey"] if channels == 1 else ["red", "green", "blue"]),
        "resize": trained.preprocessing.in_words(),
        "output": f"{OUTPUT}: float32 (batch, {len(classes)}), one a class in the order of `classes`; the largest is "
        "the answer",
        "scores": SCORES.get(inference, inference),
        "inference": inference,
        "classes": json.dumps(list(classes)),
        "task_of_class": json.dumps(task_of_class),
        "tasks": json.dumps(list(trained.tasks)),
        "task": "found by the network" if task is None else trained.tasks[task],
        "promise": "agrees with its network up to rounding; what never changes by a bit are that network's answers",
    }


def require_onnx() -> None:
    """Refuse early where the extra is not installed."""
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise LockgateError(
            f"Exporting to ONNX needs {error.name}. `pip install 'lockgate[onnx]'` brings it; or use --format torch."
        ) from error


def session(model: Path | bytes, threads: int = 0) -> Callable[[Tensor], Tensor]:
    """An ONNX file as a function of images, in ONNX Runtime on CPU; 0 threads: as it chooses."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    source = str(model) if isinstance(model, Path) else model
    running = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    return lambda x: torch.from_numpy(running.run([OUTPUT], {INPUT: x.numpy()})[0])


def write_onnx(network: nn.Module, images: Tensor, about: dict[str, str], path: Path) -> Callable[[Tensor], Tensor]:
    """Write ``network`` as ONNX, traced on some ``images``; what the file answers."""
    with warnings.catch_warnings(), _quiet("torch.onnx", "onnxscript"):
        warnings.simplefilter("ignore")
        program: Any = torch.onnx.export(
            network,
            (images,),
            input_names=[INPUT],
            output_names=[OUTPUT],
            dynamic_shapes=({0: torch.export.Dim("batch")},),
            dynamo=True,
            verbose=False,
        )
    program.model.metadata_props.update(about)
    program.save(str(path))
    return session(path)


def write_torch(network: nn.Module, images: Tensor, about: dict[str, str], path: Path) -> Callable[[Tensor], Tensor]:
    """Write ``network`` by ``torch.export``, traced on some ``images``; what the file answers."""
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of copies in channels-last layout; what was written is read back and checked
        shapes = ({0: torch.export.Dim("batch")},)
        # Not strict: older versions would by default read our code by dynamo, which refuses context managers.
        program = torch.export.export(network, (images,), dynamic_shapes=shapes, strict=False)
        with path.open("wb") as file:
            torch.export.save(program, file, extra_files={METADATA: json.dumps(about)})
    with path.open("rb") as file:
        loaded: Callable[[Tensor], Tensor] = torch.export.load(file).module()
    return loaded


class _quiet:
    """Loggers that speak up only when something fails."""

    def __init__(self, *names: str) -> None:
        self.loggers = [logging.getLogger(name) for name in names]

    def __enter__(self) -> None:
        self.levels = [logger.level for logger in self.loggers]
        for logger in self.loggers:
            logger.setLevel(logging.ERROR)

    def __exit__(self, *_: object) -> None:
        for logger, level in zip(self.loggers, self.levels, strict=True):
            logger.setLevel(level)
