"""What each option of the `short` preset brings: the printed method, then one option after another.

    python benchmarks/ablation.py --root RUNS [--dataset NAME] [--seeds N] [--jobs N] [--per-class N] [--buffer C]
                                  [--precision P] [--no-run]

Class-incremental, episodic memory, by the protocol of `lockgate select`: judged by held-out images of the training
set, on the seeds and class orders kept for choosing; no test image is opened. Every row has all options of the rows
above it; the last one is the preset. Optimiser, rate, epochs and the first sparsity are the preset's in all rows, and a
warm-up of one epoch stands for the paper's twenty of four hundred. A row takes half a minute of one core on digits, a
few on 500 images of each class of MNIST. Finished runs under RUNS are kept and used, stopped ones go on where they
were. Data are looked for under LOCKGATE_DATA.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import sys
from pathlib import Path
from typing import Any, get_args

from lockgate.config import Experiment, Precision
from lockgate.reproduction.paper_table import preset
from lockgate.reproduction.plan import Job, computed_in, folder_name
from lockgate.reproduction.runners.local import run_jobs
from lockgate.reproduction.select.trials import FIRST_SEED
from lockgate.runs.directory import RunFolder
from timing import table

HELD_OUT = 0.3
"""Share of the training images that is not learnt from: a half of it is the method's, the other half judges."""

Change = tuple[str, str]
"""A section of the configuration and a name in it."""

PRINTED: dict[Change, Any] = {
    ("options", "seal"): False,
    ("options", "open_bias"): 0.0,
    ("options", "gate_lr"): 1.0,
    ("augment", "random_translate"): 0,
    ("augment", "random_affine"): 0.0,
    ("options", "sparsity_warmup"): 1,
    ("options", "budget"): 0.0,
    ("options", "prune"): 0.0,
    ("options", "anneal"): 0.0,
    ("optim", "selection"): "objective",
    ("options", "targets"): "task",
    ("options", "hidden"): 64,
    ("options", "rehearsal"): 0,
    ("options", "readout"): "mlp",
    ("options", "inference"): "argmax",
    ("options", "companion"): 0.0,
}
"""What the paper says, or is silent about, where the preset says something else."""

STEPS: dict[str, tuple[Change, ...]] = {
    "the printed method": (),
    "+ seal": (("options", "seal"),),
    "+ open_bias: gates start open": (("options", "open_bias"),),
    "+ gate_lr: gates learn faster": (("options", "gate_lr"),),
    "+ sparsity_warmup: gates close as the class loss falls": (("options", "sparsity_warmup"),),
    "+ budget: prices instead of a coefficient, the first task with two parts": (("options", "budget"),),
    "+ random_translate: images are moved": (("augment", "random_translate"),),
    "+ random_affine: and turned, stretched, sheared": (("augment", "random_affine"),),
    "+ prune: what is silent is not computed": (("options", "prune"),),
    "+ anneal: no noise, no sparsity at the end; the last epoch is kept": (
        ("options", "anneal"),
        ("optim", "selection"),
    ),
    "+ targets: class": (("options", "targets"),),
    "+ hidden: 256 units in the task classifier, 32 rehearsed images a step": (
        ("options", "hidden"),
        ("options", "rehearsal"),
    ),
    "+ read-out: all gated layers, in closed form, on held-out images": (("options", "readout"),),
    "+ joint: the most likely class, not the head of the likeliest task": (("options", "inference"),),
    "+ companion: what streams begin as, asked where the read-out is unsure": (("options", "companion"),),
}


def rows(dataset: str, per_class: int, buffer: int) -> dict[str, Experiment]:
    """The experiment of every row."""
    scenario = {"per_class": per_class, "evaluate": "held_out", "class_order": "random", "held_out": HELD_OUT}
    base = preset("short", "ccgn-episodic", dataset, options={"buffer": buffer}, scenario=scenario)
    printed, made = dict(PRINTED), dict[str, Experiment]()
    for name, steps in STEPS.items():
        for step in steps:
            del printed[step]
        made[name] = with_changes(base, printed)
    return made


def with_changes(base: Experiment, changes: dict[Change, Any]) -> Experiment:
    """``base`` with other values in its sections."""
    sections: dict[str, dict[str, Any]] = {"options": {}, "optim": {}, "augment": {}}
    for (section, key), value in changes.items():
        sections[section][key] = value
    return dataclasses.replace(
        base,
        options={**base.options, **sections["options"]},
        optim=dataclasses.replace(base.optim, **sections["optim"]),
        augment=dataclasses.replace(base.augment, **sections["augment"]),
    )


def job(experiment: Experiment, seed: int, root: Path, precision: Precision) -> Job:
    """The run of a row with one of the seeds kept for choosing, which is that of its class order too."""
    scenario = dataclasses.replace(experiment.scenario, order_seed=seed)
    chosen = computed_in(dataclasses.replace(experiment, seed=seed, scenario=scenario), precision)
    return Job(chosen, root / folder_name(chosen), "short")


def cells(found: list[Job]) -> list[object]:
    """Of the finished seeds of a row: accuracies, filters, minutes."""
    summaries = [json.loads((job.folder / "summary.json").read_text()) for job in found if job.finished]
    if not summaries:
        return ["not run"] * 6

    def mean(values: list[float]) -> str:
        spread = f" ± {statistics.stdev(values):.4f}" if len(values) > 1 else ""
        return f"{statistics.fmean(values):.4f}{spread}"

    filters = [[layer["used_after"][-1] for layer in s["capacity"]["layers"]] for s in summaries]
    return [
        mean([s["class_incremental"]["average"] for s in summaries]),
        mean([s["task_incremental"]["average"] for s in summaries]),
        "; ".join(", ".join(map(str, used)) for used in filters),
        f"{statistics.fmean(s['seconds'] for s in summaries) / 60:.1f}",
        ", ".join(sorted({RunFolder(job.folder).experiment().runtime.precision for job in found if job.finished})),
        "bit-equal" if all(s["audit"]["ok"] for s in summaries) else "changed",
    ]


def main() -> int:
    """Run what is missing and print the table; 1 if a run failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--dataset", default="mnist")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--per-class", type=int, default=500, help="0: all images")
    parser.add_argument("--buffer", type=int, default=500)
    parser.add_argument("--precision", choices=get_args(Precision), default="32-true", help="of new runs")
    parser.add_argument("--no-run", action="store_true", help="only write the table of what is finished")
    given = parser.parse_args()
    wanted = {
        name: [job(experiment, FIRST_SEED + seed, given.root, given.precision) for seed in range(given.seeds)]
        for name, experiment in rows(given.dataset, given.per_class, given.buffer).items()
    }
    failed = []
    if not given.no_run:
        every = [job for found in wanted.values() for job in found]
        failed = run_jobs(every, given.jobs, lambda text: print(text, flush=True))
    columns = (
        "",
        "no task given",
        "task given",
        "filters (conv1, conv2, conv3)",
        "minutes",
        "precision",
        "past answers",
    )
    size = f", {given.per_class} images a class" if given.per_class else ""
    title = f"Ablation, Split {given.dataset}{size}, C = {given.buffer}, held-out images, {given.seeds} seeds"
    table(title, columns, ([name, *cells(found)] for name, found in wanted.items()))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
