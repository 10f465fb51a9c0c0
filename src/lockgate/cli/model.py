"""The commands of a model that grows: learn, predict, inspect, serve. Nothing heavy is imported before it is needed."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from lockgate.cli import flags
from lockgate.errors import DataError


def add(commands: Any) -> None:
    """Add the commands to the command line."""
    _add_learn(commands)

    predict = commands.add_parser("predict", help="say what images show")
    predict.add_argument("model", type=Path, help="model, or run folder")
    predict.add_argument("images", type=Path, nargs="+", help="image files, or folders of them")
    predict.add_argument("--task", help="the task the images belong to (default: the model finds it)")
    predict.add_argument("--top", type=_count, default=1, metavar="K", help="answers for each image (default: 1)")
    predict.add_argument("--json", action="store_true", help="print JSON")
    predict.set_defaults(call=_predict)

    inspect = commands.add_parser("inspect", help="show what a model knows and what it is made of")
    inspect.add_argument("model", type=Path, help="model")
    inspect.add_argument("--json", action="store_true", help="print JSON")
    inspect.set_defaults(call=_inspect)

    serve = commands.add_parser("serve", help="a page on this machine: drop an image, see the answer")
    serve.add_argument("model", type=Path, help="model, or run folder")
    serve.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this machine only)")
    serve.add_argument("--port", type=_port, default=8000, help="port to listen on (default: 8000; 0: any free one)")
    serve.set_defaults(call=_serve)


def _add_learn(commands: Any) -> None:
    learn = commands.add_parser(
        "learn", help="teach a model one more task from a folder of images", description=_learn.__doc__
    )
    learn.add_argument("model", type=Path, help="model; the first task makes it")
    learn.add_argument("folder", type=Path, help="one sub-folder of images per class")
    learn.add_argument("--name", help="name of the task (default: the folder's)")
    learn.add_argument(
        "--epochs", type=_count, metavar="N", help="times each image is shown (default: by their number)"
    )
    learn.add_argument("--batch-size", type=_count, metavar="N", help="images a step (default: by their number)")
    learn.add_argument("--device", help="auto, cpu, cuda or mps (default: auto)")
    learn.add_argument(
        "--probes",
        type=int,
        default=argparse.SUPPRESS,
        metavar="N",
        help="test images of the task to keep in the model, for `lockgate audit` (default: 32; 0: none)",
    )
    fixed = learn.add_argument_group("fixed by the first task, as is any option of the method: --options.NAME X")
    fixed.add_argument("--memory", choices=("none", "episodic", "generative"), help="what to keep (default: episodic)")
    fixed.add_argument("--keep", type=int, metavar="N", help="images an episodic memory keeps (default: 500)")
    fixed.add_argument(
        "--size", type=_count, metavar="N", help="side of images in pixels (default: theirs, at most 32)"
    )
    fixed.add_argument(
        "--backbone", "--network", help="network (default: simple_cnn); `lockgate list backbones` shows all"
    )
    fixed.add_argument("--width", type=_count, metavar="N", help="filters of the first layer")
    fixed.add_argument("--seed", type=int, metavar="N", help="seed of everything random (default: 0)")
    learn.set_defaults(call=_learn)


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {text}")
    return number


def _port(text: str) -> int:
    number = int(text)
    if not 0 <= number <= 65535:
        raise argparse.ArgumentTypeError(f"must be 0 to 65535, got {text}")
    return number


def _learn(parsed: argparse.Namespace) -> int:
    """Teach a model one more task. A task that was stopped goes on when it is given again; another one drops it."""
    from lockgate.app.auto_config import UserSettings
    from lockgate.app.formatting import task_text
    from lockgate.app.inspect import inspect_model
    from lockgate.app.learn import PROBES, learn
    from lockgate.data.task_images import FolderImages

    settings = UserSettings(
        memory=parsed.memory,
        size=parsed.size,
        backbone=parsed.backbone,
        width=parsed.width,
        keep=parsed.keep,
        seed=parsed.seed,
        options=flags.option_values(parsed.options),
        epochs=parsed.epochs,
        batch_size=parsed.batch_size,
        device=parsed.device,
    )
    name = parsed.name or parsed.folder.resolve().name
    learn(parsed.model, FolderImages(parsed.folder), name, settings, getattr(parsed, "probes", PROBES), parsed.typed)
    print(task_text(inspect_model(parsed.model)))
    return 0


def _predict(parsed: argparse.Namespace) -> int:
    from lockgate.app.formatting import answers_text
    from lockgate.app.predict import look
    from lockgate.app.trained import open_trained

    seen = list(look(open_trained(parsed.model), parsed.images, parsed.task, parsed.top))
    if not seen:
        raise DataError(f"There are no images in {', '.join(map(str, parsed.images))}.")
    if parsed.json:
        print(json.dumps([item.to_dict() for item in seen], indent=1))
    elif any(item.answers for item in seen):
        print("\n".join(answers_text(seen)))
    bad = [item.error for item in seen if item.error]
    for error in bad:
        print(f"lockgate: {error}", file=sys.stderr)
    return 1 if bad else 0


def _inspect(parsed: argparse.Namespace) -> int:
    from lockgate.app.formatting import inspect_text
    from lockgate.app.inspect import inspect_model

    found = inspect_model(parsed.model)
    print(json.dumps(found) if parsed.json else inspect_text(found))
    return 0


def _serve(parsed: argparse.Namespace) -> int:
    from lockgate.app.serve import serve

    serve(parsed.model, parsed.host, parsed.port)
    return 0
