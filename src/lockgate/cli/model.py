"""The commands that ask a model: predict, inspect, serve. Nothing heavy is imported before it is needed."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from lockgate.cli.common import add_command, show, whole
from lockgate.errors import DataError


def add(commands: Any) -> None:
    """Add the commands to the command line."""
    predict = add_command(
        commands,
        "predict",
        _predict,
        "say what images show",
        [
            "lockgate predict model cat.jpg",
            "lockgate predict model photos --task pets --top 3 --json",
        ],
    )
    predict.add_argument("model", type=Path, help="model, or run folder")
    predict.add_argument("images", type=Path, nargs="+", help="image files, or folders of them")
    predict.add_argument("--task", help="the task the images belong to (default: the model finds it)")
    predict.add_argument("--top", type=whole(1), default=1, metavar="K", help="answers for each image (default: 1)")

    inspect = add_command(
        commands,
        "inspect",
        _inspect,
        "show what a model knows and what it is made of",
        ["lockgate inspect model", "lockgate inspect model --json"],
    )
    inspect.add_argument("model", type=Path, help="model")

    serve = add_command(
        commands,
        "serve",
        _serve,
        "a page on this machine: drop an image, see the answer",
        ["lockgate serve model", "lockgate serve model --port 0"],
        results=False,
    )
    serve.add_argument("model", type=Path, help="model, or run folder")
    serve.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this machine only)")
    serve.add_argument(
        "--port", type=whole(0, 65535), default=8000, help="port to listen on (default: 8000; 0: any free one)"
    )


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
    show(parsed, found, lambda: inspect_text(found))
    return 0


def _serve(parsed: argparse.Namespace) -> int:
    from lockgate.app.serve import serve

    serve(parsed.model, parsed.host, parsed.port)
    return 0
