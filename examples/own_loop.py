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
def accuracy(method: lockgate.Method, task) -> float:
    """Share of the task's test images that are answered right, the task given."""
    method.eval()
    return float((method.predict(task.test.x, task.id).argmax(1) == task.test.y).float().mean())


def main(name: str = "ccgn") -> list[list[float]]:
    """Five tasks of two digits; a row of accuracies after each."""
    digits = load_digits()
    scenario = lockgate.split_tasks(digits.images / 16, digits.target, tasks=5)
    method = lockgate.make_method(name, scenario.image_shape)
    matrix = []
    for task in scenario.tasks:
        print(f"task {task.id}: {' '.join(scenario.names(task))}")
        lockgate.train_task(method, task, epochs=EPOCHS, optim={"batch_size": 32}, callbacks=[Printer()])
        matrix.append([accuracy(method, seen) for seen in scenario.tasks[: task.id + 1]])
        print("  test accuracy:", *(f"{value:.3f}" for value in matrix[-1]))
    forgotten = max(before[t] - matrix[-1][t] for before in matrix for t in range(len(before)))
    print(f"largest accuracy lost on a past task: {forgotten:.3f}")
    return matrix


if __name__ == "__main__":
    main(*sys.argv[1:])
