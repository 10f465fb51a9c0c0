"""About how long runs take: so that nobody starts a month of work by mistake.

Seconds an image, forward and backward, on one core of a current server (measured here: SimpleCNN 2.2 ms, ResNet-18 of
width 16 about 5 ms); a method's factor is that of benchmarks/methods.py. A guess within a factor of two is enough.
"""

from __future__ import annotations

from collections.abc import Iterable

from lockgate.config import Experiment
from lockgate.data.size import size_of, task_size
from lockgate.reproduction.plan import Job
from lockgate.runs.build import validated

SECONDS = {"simple_cnn": 2.2e-3, "resnet18": 5e-3, "mlp": 1e-4}
"""A training step, by image; ResNet-18 at width 16."""
FACTOR = {
    "ccgn": 1.0,
    "ccgn-episodic": 1.0,
    "ccgn-generative": 1.2,
    "lwf": 1.5,
    "icarl": 1.5,
    "agem": 2.0,
    "er": 2.0,
    "er-ace": 2.0,
    "der++": 3.0,
    "cgen": 2.0,
    "dgm": 0.0,
}
"""Gated methods train less and less of the network as gates close; DGM trains generators only."""
GROWTH = 2.5
"""A network that may widen, where it does."""
STEP = 0.02
"""Seconds that a step takes at least, however small its images."""
GAN_SECONDS = 3.3 / 784
"""One iteration at the supplement's size, by pixel; a quarter of the width is about ten times cheaper."""


def estimate(jobs: Iterable[Job]) -> float:
    """Seconds that the jobs take one after another."""
    return sum(_seconds(job.experiment) for job in jobs)


def _seconds(experiment: Experiment) -> float:
    size = size_of(experiment.dataset, experiment.data_dir, experiment.data)
    task, pixels = task_size(size, experiment.tasks, experiment.scenario), size.side**2
    cost = SECONDS.get(experiment.backbone, 5e-3)
    cost *= pixels / (784 if experiment.backbone == "simple_cnn" else 1024)
    if experiment.backbone == "resnet18":
        cost *= ((experiment.model.width or 64) / 16) ** 2
    images = task.images * experiment.tasks * (experiment.tasks / 2 if experiment.method == "full-replay" else 1)
    options = validated(experiment).options  # with its defaults
    gans = options.get("gan", {})
    cost *= GROWTH if options.get("grow") else 1.0
    cost = max(cost, STEP / experiment.optim.batch_size)
    training = cost * images * experiment.epochs * FACTOR.get(experiment.method, 1.0)
    gan = experiment.tasks * gans.get("iterations", 0) * GAN_SECONDS * pixels
    gan *= gans.get("width", 1.0) ** 1.7
    own = (experiment.tasks + 1) / 2 if experiment.method == "dgm" else 0  # steps of its classifier, in the mean
    gan *= gans.get("batch_size", 64) / 64 * (gans.get("critic_steps", 5) + 1 + own) / 6
    return float(training + gan)


def in_words(seconds: float) -> str:
    """Minutes, hours or days."""
    if seconds < 5400:
        return f"{max(1, round(seconds / 60))} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.0f} days"


def time_left(seconds: float, done: int, left: int) -> str:
    """', about N min left' when ``done`` runs took ``seconds`` and ``left`` are to do; nothing when none are."""
    return f", about {in_words(seconds / done * left)} left" if left else ""
