"""The commands that change a model: learn, undo. Nothing heavy is imported before it is needed."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from lockgate.cli import flags
from lockgate.cli.common import add_command, log, number, place, show, whole
from lockgate.errors import ConfigError, LockgateError


def add(commands: Any) -> None:
    """Add the commands to the command line."""
    learn = add_command(
        commands,
        "learn",
        _learn,
        "teach a model one more task, or several, from folders of images",
        [
            "lockgate learn model photos/pets",
            "lockgate learn model photos/pets photos/tools photos/ships",
            "lockgate learn model scans --name 'scans of May' --epochs 20 --skip-bad",
            "lockgate learn model photos/pets --network none --size 48",
        ],
        description=_learn.__doc__,
    )
    learn.add_argument("model", type=place, help="model; the first task makes it")
    learn.add_argument("folder", type=place, nargs="+", help="a task: one sub-folder of images per class")
    learn.add_argument("--name", help="name of the task (default: the folder's)")
    learn.add_argument(
        "--probes",
        type=whole(0),
        default=argparse.SUPPRESS,
        metavar="N",
        help="test images of the task to keep in the model, for `lockgate audit` (default: 32; 0: none)",
    )
    learn.add_argument("--skip-bad", action="store_true", help="leave out images that cannot be read, and name them")
    learn.add_argument(
        "--most-bad",
        type=number(0, 1),
        metavar="SHARE",
        help="with --skip-bad: share of bad images above which nothing is learnt (default: 0.1)",
    )
    _add_schedule(learn.add_argument_group("how this task is learnt"))
    _add_fixed(learn.add_argument_group("fixed by the first task, as is any option of the method: --options.NAME X"))

    undo = add_command(
        commands,
        "undo",
        _undo,
        "take the last task of a model back",
        ["lockgate undo model", "lockgate undo model --yes"],
        description=_undo.__doc__,
    )
    undo.add_argument("model", type=place, help="model")
    undo.add_argument("--yes", action="store_true", help="do not ask")


def _add_schedule(learn: Any) -> None:
    learn.add_argument("--epochs", type=whole(1), metavar="N", help="times each image is shown (default: by number)")
    learn.add_argument("--batch-size", type=whole(1), metavar="N", help="images a step (default: by their number)")
    learn.add_argument("--lr", type=number(0, 10, open_below=True), metavar="X", help="learning rate (default: 0.003)")
    learn.add_argument(
        "--patience",
        type=whole(0),
        metavar="N",
        help="epochs before gates begin to close (default: a fifth, then as the task is learnt)",
    )
    learn.add_argument(
        "--augment",
        choices=("none", "move", "flip"),
        help="how images vary: not at all; moved, turned and stretched a little (default); mirrored too",
    )
    learn.add_argument("--device", help="auto, cpu, cuda or mps (default: auto)")


def _add_fixed(fixed: Any) -> None:
    fixed.add_argument(
        "--memory",
        choices=("none", "episodic", "generative"),
        help="what to keep (default: episodic; pretrained: none)",
    )
    fixed.add_argument("--keep", type=whole(), metavar="N", help="images an episodic memory keeps (default: 500)")
    fixed.add_argument(
        "--size",
        type=whole(4, 1024),
        metavar="N",
        help="side of images in pixels (default: theirs, at most 32; pretrained: 224)",
    )
    fixed.add_argument(
        "--backbone",
        "--network",
        help="network; `lockgate list backbones` shows all; none: from scratch (default: efficientnet_lite0, "
        "pretrained, for photos of 64 pixels or more, if it is installed; else simple_cnn)",
    )
    fixed.add_argument("--width", type=whole(1), metavar="N", help="filters of the first layer")
    fixed.add_argument("--seed", type=whole(0), metavar="N", help="seed of everything random (default: 0)")


def _learn(parsed: argparse.Namespace) -> int:
    """Teach a model one more task, or one after the other. A task that was stopped goes on when it is given again;
    another one drops it."""
    from lockgate.app.formatting import task_text
    from lockgate.app.inspect import inspect_model
    from lockgate.app.learn import PROBES, learn, refuse_repeated
    from lockgate.app.user_settings import settings_of

    settings = settings_of(parsed, flags.option_values(parsed.options))
    tasks = _tasks(parsed)
    refuse_repeated(tasks)  # before hours of work
    say, probes, found = log(parsed), getattr(parsed, "probes", PROBES), []
    for name, images in tasks:
        learn(parsed.model, images, name, settings, probes, parsed.typed, say, parsed.quiet)
        found.append({**inspect_model(parsed.model), "skipped": list(getattr(images, "skipped", ()))})
        if not parsed.json:
            print(task_text(found[-1]), flush=True)
    if parsed.json:
        show(parsed, found if len(found) > 1 else found[0], "")
    return 0


def _tasks(parsed: argparse.Namespace) -> list[tuple[str, Any]]:
    """The folders as tasks, each with its name."""
    from lockgate.app.skipping import MOST, SkippingImages
    from lockgate.data.task_images import FolderImages

    if parsed.name is not None and len(parsed.folder) > 1:
        raise ConfigError([f"'--name' names one task. Got {len(parsed.folder)} folders; learn them one by one."])
    if parsed.most_bad is not None and not parsed.skip_bad:
        raise ConfigError(["'--most-bad' is for '--skip-bad'. Got it alone; give both, or neither."])
    most = MOST if parsed.most_bad is None else parsed.most_bad
    made = [SkippingImages(folder, most) if parsed.skip_bad else FolderImages(folder) for folder in parsed.folder]
    names = [folder.resolve().name for folder in parsed.folder] if parsed.name is None else [parsed.name]
    return list(zip(names, made, strict=True))


def _undo(parsed: argparse.Namespace) -> int:
    """Make a model what it was before its last task: also when its newest files are damaged. What is removed is said,
    and asked for unless --yes is given. A model can go back by one task, and again when it has learnt another."""
    from lockgate.app.undo import look_back, undo

    expected = look_back(parsed.model)
    if not parsed.yes:
        _agree(expected.question())
    found = undo(parsed.model, expected)
    left = (
        f"It knows {', '.join(map(repr, found.tasks))}." if found.tasks else "The model is gone: it was the only one."
    )
    show(parsed, found.to_dict(), f"Removed {found.removed} from {parsed.model}. {left}")
    return 0


def _agree(question: str) -> None:
    """Ask; raise unless the answer is yes."""
    if not sys.stdin.isatty():
        raise LockgateError(f"{question} Nothing was removed: nobody is here to be asked. Say --yes to agree.")
    print(question, file=sys.stderr)
    if input("Remove it? [y/N] ").strip().lower() not in ("y", "yes"):
        raise LockgateError("Nothing was removed.")
