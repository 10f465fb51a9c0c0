"""What photos cost from the pretrained start: the first answer about a new class, and an answer for a photo.

    python benchmarks/photo_costs.py MODEL PHOTOS [--name NAME]

MODEL was made by `lockgate learn` from the pretrained start; PHOTOS is a folder of photos of one new class. A copy of
the model learns it in a new process, from arrays, and answers about one of them; then frozen network, task given and
task not given are asked in turn about 16 random images. Seconds are of the processor, on one thread: of a busy machine
they count the work and not the waiting. Of the first answer, seconds of the clock are beside them.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from lockgate.app.trained import open_trained
from timing import interleaved, table

FIRST = """
import sys, time
from pathlib import Path
import numpy as np
import torch
from PIL import Image
from lockgate import ContinualClassifier
torch.set_num_threads(1)
model, photos, name = sys.argv[1:]
x = np.stack([np.asarray(Image.open(f).convert("RGB").resize((160, 160))) for f in sorted(Path(photos).iterdir())])
known = ContinualClassifier(model)
known.learn(x, [name] * len(x), name=name)
known.predict(x[:1])
print(time.process_time(), time.time())
"""
IMAGES, ROUNDS = 16, 9


def first_answer(model: Path, photos: Path, name: str) -> tuple[float, float]:
    """From the start of Python to the first answer about a class that the model did not know: CPU seconds, seconds."""
    with tempfile.TemporaryDirectory() as place:
        copy = shutil.copytree(model, Path(place) / "model")
        words = [sys.executable, "-c", FIRST, str(copy), str(photos), name]
        began = time.time()
        done = subprocess.run(words, capture_output=True, text=True, check=True)
    busy, now = (float(word) for word in done.stdout.split()[-2:])
    return busy, now - began


def an_answer(model: Path) -> dict[str, float]:
    """Milliseconds an image: the frozen network alone, with the task given, without it."""
    torch.set_num_threads(1)
    learner = open_trained(model).learner.eval()
    x = torch.randint(0, 256, (IMAGES, *learner.image_shape), dtype=torch.uint8)
    asked = {
        "the frozen network alone": lambda: learner.backbone.read_given(learner.input(x)),
        "task given": lambda: learner.predict(x, 0),
        "task not given": lambda: learner.predict(x, None),
    }
    with torch.inference_mode():
        took = interleaved(asked, ROUNDS)
    return {name: 1000 * seconds / IMAGES for name, seconds in took.items()}


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("photos", type=Path)
    parser.add_argument("--name", default="new")
    given = parser.parse_args()
    busy, waited = first_answer(given.model, given.photos, given.name)
    row = ["from the start of Python to its first answer", f"{busy:.1f}", f"{waited:.1f}"]
    table("A new class", ("", "CPU seconds", "seconds of the clock"), [row])
    rows = ([name, f"{value:.1f}"] for name, value in an_answer(given.model).items())
    table("An answer, in batches of 16", ("", "CPU ms an image"), rows)


if __name__ == "__main__":
    main()
