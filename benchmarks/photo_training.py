"""What training adds on photos: streams of a pretrained network; beside them a copy of the whole network fine-tuned for
each task (which cannot answer without it), one network fine-tuned in sequence, one from scratch. And what gates in the
last eighth of the layers save and cost: streams that are told the task, with gates (``gates``) and without (``rows``).

    python benchmarks/photo_training.py DATA [--sets trashnet6] [--rows streams scratch] [--orders 0 1 2] [--held-out]
                                             [--size 128] [--epochs 8]

DATA is as for ``photos.py``. ``--size`` and ``--epochs`` are of the rows that begin with given weights. What stands in
``--out`` already is not run again. With ``--held-out`` test images are not read: half of 30 % of the training images,
held out, are tested on, to choose settings; ``slda-ridge`` is then the row to compare with. Each run is a line of JSON,
appended to ``--out``. One thread; an hour and more, for all of it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

import lockgate
from lockgate.inference.compile import compile_learner
from photos import TASKS

SIZE, EPOCHS = 128, 8
TRAINED = ("streams", "copies", "rows", "gates", "sequence")
"""Rows that train given weights."""

OWN = {"private": 0.5, "private_depth": 0.125}
STREAMS = {"options": {"inference": "joint", "targets": "class", "rehearsal": 8, "buffer": 500}}
LITE0 = {"backbone": "efficientnet_lite0", "optim": {"batch_size": 16, "lr": 0.001, "selection": "last"}}
WHOLE = {**LITE0, "augment": {"random_flip": True}}
GATED = {"method": "ccgn", **LITE0, "runtime": {"feature_cache": "runs/photos/prefix"}}
ROWS: dict[str, dict[str, Any]] = {
    "slda-ridge": {"method": "slda-ridge", **LITE0, "augment": {"random_flip": True}},
    "streams": {
        "method": "ccgn-episodic",
        **LITE0,
        **STREAMS,
        "model": OWN,
        "runtime": {"feature_cache": "runs/photos/prefix"},
    },
    "copies": {
        "method": "ccgn",
        **WHOLE,
        "model": {"private": 1.0, "private_depth": 1.0},
    },
    "rows": GATED | {"model": OWN},
    "gates": GATED | {"model": {**OWN, "gates": True}},
    "sequence": {"method": "finetune", **WHOLE},
    "scratch": {"preset": "short", "method": "ccgn-episodic", "backbone": "simple_cnn", "data": {"image_size": 32}},
}


def key(name: str, row: str, order: int, given: argparse.Namespace) -> dict[str, Any]:
    """What a run is: a line with the same need not be run again."""
    said: dict[str, Any] = {"set": name, "row": row, "order": order, "held out": given.held_out, **given.over}
    if row != "scratch":
        said["size"] = given.size
    if row in TRAINED:
        said["epochs"] = given.epochs
    return said


def stream_costs(run: Path, summary: dict[str, Any]) -> dict[str, float]:
    """Of an image, the task given: share of the network's multiplications; CPU ms of a stream, whole and compiled."""
    torch.set_num_threads(1)
    learner = lockgate.load(run).method.eval()
    compiled = compile_learner(learner)
    x = torch.randint(0, 256, (16, *learner.image_shape), dtype=torch.uint8)
    took: dict[str, list[float]] = {"whole ms": [], "compiled ms": []}
    with torch.inference_mode():
        for _ in range(9):
            for task in range(len(learner.heads)):
                for name, ask in (("whole ms", learner.predict), ("compiled ms", compiled.predict)):
                    began = time.process_time()
                    ask(x, task)
                    took[name].append((time.process_time() - began) * 1000 / len(x))
    macs = summary["macs"]
    medians = {name: round(statistics.median(values), 2) for name, values in took.items()}
    return {"macs of dense": round(macs["task_incremental"][-1] / macs["dense"], 3), **medians}


def measure(data: Path, run: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Accuracy after the last task, without and with the task, and CPU seconds of all that was done for it."""
    name, row, order, held_out = (run[word] for word in ("set", "row", "order", "held out"))
    scenario: dict[str, Any] = {"class_order": "random", "order_seed": order}
    if held_out:
        scenario |= {"held_out": 0.3, "evaluate": "held_out"}
    described = {
        "dataset": "folder",
        "data_dir": str(data / name),
        "tasks": TASKS[name],
        "seed": order,
        "scenario": scenario,
        "data": {"image_size": run.get("size", SIZE), "resize": "crop"},
        **({"epochs": run["epochs"]} if "epochs" in run else {}),
        **ROWS[row],
    }
    described["runtime"] = {"threads": 1, "accelerator": "cpu", **ROWS[row].get("runtime", {})}
    described |= over
    began = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        summary = lockgate.run(described, Path(folder) / "run", quiet=True).summary
        took = time.process_time() - began
        cost = stream_costs(Path(folder) / "run", summary) if row in ("rows", "gates") else {}
    found = summary["class_incremental"]
    return {
        **run,
        "without": found and found["average"],
        "given": summary["task_incremental"]["average"],
        "cpu seconds": round(took, 1),
        **cost,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--sets", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--orders", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--held-out", action="store_true", help="to choose settings: test images are not read")
    parser.add_argument("--size", type=int, default=SIZE)
    parser.add_argument("--epochs", type=int, default=EPOCHS, help="of rows that train given weights")
    parser.add_argument("--over", type=json.loads, default={}, help="JSON, in the place of a row's own groups")
    parser.add_argument("--out", type=Path, default=Path("runs/photos/training.jsonl"))
    given = parser.parse_args()
    given.out.parent.mkdir(parents=True, exist_ok=True)
    known = [json.loads(line) for line in given.out.read_text().splitlines()] if given.out.exists() else []
    for name in given.sets:
        for order in given.orders:
            for row in given.rows:
                run = key(name, row, order, given)
                if any(run.items() <= line.items() for line in known):
                    continue
                line = json.dumps(measure(given.data, run, given.over))
                print(line, flush=True)
                with given.out.open("a") as file:
                    file.write(line + "\n")


if __name__ == "__main__":
    main()
