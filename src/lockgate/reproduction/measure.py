"""What a table needs of a trained model beyond what its run noted; measured once and kept in the run folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from lockgate.errors import CheckpointError, DataError, LockgateError
from lockgate.evaluation.gates import firing_probabilities, strips
from lockgate.evaluation.macs import macs_by_stage
from lockgate.methods.protocols import HasGates
from lockgate.runs.directory import RunFolder, write_atomically
from lockgate.runs.loading import load

MILLION = 1e6


def measure(run: Path, what: Literal["macs", "gates"]) -> dict[str, Any]:
    """The measurement ``what`` of a finished run, made now or read from where it was written."""
    kept = run / f"{what}.json"
    of = hashlib.sha256((run / "summary.json").read_bytes()).hexdigest()  # the run may have been made anew
    found: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8")) if kept.is_file() else {}
    if found.get("of") != of:
        found = {"of": of, **{"macs": _macs, "gates": _gates}[what](run)}
        write_atomically(kept, json.dumps(found) + "\n")
    return found


def measurable(run: Path, what: Literal["macs", "gates"], log: Callable[[str], None]) -> bool:
    """Whether ``what`` can be measured; if not, why is said: a model of another version, or data that are not here."""
    try:
        measure(run, what)
    except (CheckpointError, DataError) as error:
        log(f"{run} is left out, its {what} cannot be measured: {error}")
        return False
    return True


def _macs(run: Path) -> dict[str, Any]:
    learner, scenario, _ = load(run)
    counts = macs_by_stage(learner, scenario.tasks)
    return {key: [value / MILLION for value in values] for key, values in counts.items()}


def _gates(run: Path) -> dict[str, Any]:
    """Firing probabilities of every gate, and a picture of images that trigger one of them or do not."""
    learner, scenario, _ = load(run)
    if not isinstance(learner, HasGates):
        raise LockgateError(f"{run} has no gates to look at: its method is not a gated one.")
    firing = firing_probabilities(learner, scenario.tasks)
    layer = next(iter(firing)) if len(firing) <= 3 else _fifth_block(list(firing))
    chosen = strips(learner, scenario.tasks, layer)
    RunFolder(run).write_picture("gates", chosen.picture)
    return {"firing": firing, "layer": layer, "gate": chosen.gate}


def _fifth_block(layers: list[str]) -> str:
    """The gates after the fifth residual block, where the paper looks on Imagenet-50."""
    ends = [name for name in layers if name.endswith("conv2")]
    return ends[min(4, len(ends) - 1)]
