"""Your own images as a sequence of tasks: from arrays to an audited run.

    python examples/own_dataset.py [FOLDER]

Here the images are noisy discs, squares, crosses and bars; put your own arrays in the place of ``shapes``: images
(N, H, W), (N, H, W, C) or (N, C, H, W) with one label each, or a torch Dataset of such pairs.
"""

import sys

import numpy as np

import lockgate

NAMES = ("bar", "cross", "disc", "square")


def shapes(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """``count`` grey images (N, 12, 12) uint8, and what they show."""
    rng = np.random.default_rng(seed)
    row, column = np.mgrid[-5.5:6, -5.5:6]
    drawn = {
        "bar": abs(row) < 2,
        "cross": (abs(row) < 1.5) | (abs(column) < 1.5),
        "disc": row**2 + column**2 < 18,
        "square": np.maximum(abs(row), abs(column)) < 4,
    }
    labels = rng.choice(NAMES, count)
    clean = np.stack([drawn[name] for name in labels]) * 160
    return np.clip(clean + rng.normal(40, 30, clean.shape), 0, 255).astype(np.uint8), labels


def main(out: str | None = None) -> lockgate.Result:
    """Two tasks of two shapes each, learnt one after the other; nobody says which task an image is from."""
    scenario = lockgate.split_tasks(*shapes(800, seed=0), tasks=2, test=shapes(200, seed=1))
    experiment = {
        "method": "ccgn-episodic",
        "epochs": 8,
        "model": {"width": 32},
        "optim": {"batch_size": 32},
        "options": {"buffer": 80},  # images kept of past tasks, to tell the tasks apart
    }
    result = lockgate.run(experiment, out, scenario=scenario, quiet=True)
    print(result)
    new, wanted = shapes(10, seed=2)
    print("shown:", *wanted)
    print("found:", *result.predict(new))
    print(lockgate.audit(result.path, scenario=scenario).text())
    return result


if __name__ == "__main__":
    main(*sys.argv[1:])
