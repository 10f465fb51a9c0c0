"""A method in a loop of your own: no run folder, and you decide what happens between tasks.

    python examples/own_loop.py [METHOD]

``train_task`` does what a run does with one task, to the bit; what to measure, keep or skip is yours.
"""

import sys

import torch
from sklearn.datasets import load_digits

import lockgate

EPOCHS = 10


class Printer(lockgate.Callback):
    """Hears of every epoch; nothing it does can change what is learnt."""

    def on_epoch_end(self, record):
        print(f"  epoch {record['epoch']}: held-out accuracy {record.get('val_accuracy', float('nan')):.3f}")


@torch.no_grad()
def answers(method: lockgate.Method, task) -> torch.Tensor:
    """Logits (N, classes) of the task's test images, the task given."""
    return method.eval().predict(task.test.x, task.id)


def main(name: str = "ccgn") -> float:
    """Five tasks of two digits; returns by how much an answer has changed since its task was learnt."""
    digits = load_digits()
    scenario = lockgate.split_tasks(digits.images / 16, digits.target, tasks=5)
    method = lockgate.make_method(name, scenario.image_shape)
    before = []
    for task in scenario.tasks:
        print(f"task {task.id}: {' '.join(scenario.names(task))}")
        lockgate.train_task(method, task, epochs=EPOCHS, optim={"batch_size": 32}, callbacks=[Printer()])
        before.append(answers(method, task))
        right = (before[-1].argmax(1) == task.test.y).float().mean()
        print(f"  test accuracy {right:.3f}")
    changes = [(answers(method, task) - then).abs().max() for task, then in zip(scenario.tasks, before, strict=True)]
    print(f"largest change of a past answer: {max(changes):g}")
    return float(max(changes))


if __name__ == "__main__":
    main(*sys.argv[1:])
