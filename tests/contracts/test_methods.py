"""What every registered method must do, on every backbone. Registering a method enrols it here."""

from __future__ import annotations

import pytest
from tests.support import tiny

from lockgate.methods import METHODS
from lockgate.runs.run import run
from lockgate.testing import method_contract

for method in METHODS:
    name = "".join(part.title() for part in method.split("-"))
    globals()[f"Test{name}"] = method_contract(method, tiny.BACKBONES, experiment=tiny.experiment)


# How much of what it was shown last a method must know, and what the tiny GANs need for it. C-Gen learns from generated
# images alone, so it knows what its GANs can show, and they take a while.
ENOUGH = {"cgen": 0.7}
TRAINED_GAN = {
    "dgm": {"gan": {"iterations": 20, "width": 0.05, "lr": 5e-3, "batch_size": 32}},
    "cgen": {"gan": {"iterations": 60, "width": 0.1, "lr": 3e-3, "batch_size": 32}},
}


@pytest.mark.parametrize("method", [pytest.param(m, marks=pytest.mark.slow) if m == "cgen" else m for m in METHODS])
def test_training_learns_real_digits(method, tmp_path):
    optim = {"optimiser": "adamw", "lr": 5e-3, "schedule": "one_cycle", "batch_size": 32}
    gates = {"open_bias": 1.5, "sparsity_warmup": 3, "gate_lr": 5.0} if method in tiny.GATED else {}
    options = {**gates, **TRAINED_GAN.get(method, {})}
    model, epochs = {"width": 32}, 10 if method in tiny.AUDITED else 5  # gates and masks take their time
    experiment = tiny.experiment(
        method, dataset="digits", tasks=5, epochs=epochs, optim=optim, model=model, options=options
    )
    matrix = run(experiment, tmp_path / "run")["task_incremental"]["matrix"]
    when_learnt = [row[-1] for row in matrix] if len(matrix) > 1 else matrix[-1]
    assert sum(when_learnt) / len(when_learnt) > ENOUGH.get(method, 0.9)
