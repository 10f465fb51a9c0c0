"""A model that grows, on photographs: CIFAR-10 and Imagenet-50 as folders of image files, a few classes a task.

    python benchmarks/learn.py --data-dir DIR [--images N] [--epochs N] [--width N]

Few images, few epochs and a narrow network: it shows that everything works from files to answers, and what a task
costs. It is no measure of accuracy.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from lockgate.app.audit import audit_run
from lockgate.app.inspect import inspect_model
from lockgate.app.learn import learn
from lockgate.app.predict import look, sources
from lockgate.app.trained import open_trained
from lockgate.app.user_settings import UserSettings
from lockgate.config import DataConfig
from lockgate.data import DATASETS
from lockgate.data.images import class_folders, image_files
from lockgate.data.task_images import FolderImages

TASKS, CLASSES = 3, 3


def place(out: Path, label: int, name: str) -> Path:
    """The folder of a class, in the task it belongs to."""
    folder = out / f"task {label // CLASSES + 1}" / name
    folder.mkdir(parents=True)
    return folder


def write_cifar10(data: Path, out: Path, images: int) -> None:
    """Arrays to files, PNG and JPEG in turn."""
    dataset = DATASETS["cifar10"](data, DataConfig())
    for label in range(TASKS * CLASSES):
        folder = place(out, label, dataset.classes[label])
        for i, index in enumerate(np.flatnonzero(dataset.train.y == label)[:images]):
            picture = Image.fromarray(dataset.train.x[index].transpose(1, 2, 0))
            picture.save(folder / f"{i:04d}.{'png' if i % 2 else 'jpg'}")


def write_imagenet50(data: Path, out: Path, images: int) -> None:
    """The files as they are."""
    train = data / "imagenet50" / "train"
    for label, name in enumerate(class_folders(train)[: TASKS * CLASSES]):
        folder = place(out, label, name)
        for file in image_files(train / name)[:images]:
            shutil.copy(file, folder)


WRITERS = {"cifar10": write_cifar10, "imagenet50": write_imagenet50}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--images", type=int, default=60)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--width", type=int, default=24)
    given = parser.parse_args()
    torch.set_num_threads(1)
    for name, write in WRITERS.items():
        with tempfile.TemporaryDirectory() as folder:
            out, model = Path(folder) / "images", Path(folder) / "model"
            write(given.data_dir, out, given.images)
            before: dict[str, list[object]] = {}
            for task_images in sorted(out.iterdir()):
                start = time.process_time()
                settings = UserSettings(width=given.width, epochs=given.epochs)
                learn(model, FolderImages(task_images), task_images.name, settings, log=lambda _: None, quiet=True)
                seconds = time.process_time() - start
                trained = open_trained(model)
                for task in trained.tasks:
                    answers = [seen.answers for seen in look(trained, sources([out / task])[0], task, 3)]
                    assert before.setdefault(task, answers) == answers, f"answers of {task} have changed"
                found = inspect_model(model)
                new = found["tasks"][-1]
                print(
                    f"{name}  {task_images.name}: {', '.join(new['classes'])}; {new['images']} images, "
                    f"{seconds:.1f} CPU s, "
                    f"held-out accuracy {new['accuracy']:.3f}, without task {new['class_incremental']:.3f}",
                    flush=True,
                )
            print(f"{name}  {audit_run(model).text()}; model {found['bytes']['network']:,} bytes", flush=True)


if __name__ == "__main__":
    main()
