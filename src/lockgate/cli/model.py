"""The commands that ask a model: predict, inspect, serve. Nothing heavy is imported before it is needed."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from lockgate.cli.common import add_command, address, log, place, show, watched, whole
from lockgate.errors import DataError


def add(commands: Any) -> None:
    """Add the commands to the command line."""
    _add_predict(commands)
    _add_inspect(commands)
    _add_serve(commands)


def _add_predict(commands: Any) -> None:
    predict = add_command(
        commands,
        "predict",
        _predict,
        "say what images show",
        [
            "lockgate predict model cat.jpg",
            "lockgate predict model photos --task pets --top 3 --json",
            "lockgate predict model - < cat.jpg",
            "find photos -name '*.jpg' | lockgate predict model - --batch 64",
        ],
        description=_predict.__doc__,
    )
    predict.add_argument("model", type=place, help="model, or run folder")
    predict.add_argument("images", type=place, nargs="+", help="image files, folders of them, or - (standard input)")
    predict.add_argument("--task", help="the task the images belong to (default: the model finds it)")
    predict.add_argument("--top", type=whole(1), default=1, metavar="K", help="answers for each image (default: 1)")
    predict.add_argument(
        "--batch",
        type=whole(1, 1_000_000),
        metavar="N",
        help="images read and answered at a time (default: 512; of files in folders more and more, up to 4096)",
    )
    predict.add_argument(
        "--exact", action="store_true", help="ask the network itself; what is promised never to change are its answers"
    )


def _add_inspect(commands: Any) -> None:
    inspect = add_command(
        commands,
        "inspect",
        _inspect,
        "show what a model knows and what it is made of",
        ["lockgate inspect model", "lockgate inspect model --json"],
    )
    inspect.add_argument("model", type=place, help="model")


def _add_serve(commands: Any) -> None:
    serve = add_command(
        commands,
        "serve",
        _serve,
        "a page on this machine: drop an image, see the answer",
        [
            "lockgate serve model",
            "lockgate serve model --port 0 --queue 64",
            "lockgate serve model --host 0.0.0.0 --token-file token.txt",
            "curl -F image=@cat.png http://127.0.0.1:8000/predict",
        ],
        description=_serve.__doc__,
        results=False,
    )
    serve.add_argument("model", type=place, help="model, or run folder")
    serve.add_argument(
        "--host", type=address, default="127.0.0.1", help="address to listen on (default: of this machine)"
    )
    serve.add_argument(
        "--port", type=whole(0, 65535), default=8000, help="port to listen on (default: 8000; 0: any free one)"
    )
    serve.add_argument(
        "--queue", type=whole(1, 100_000), metavar="N", help="images that may wait; more are refused (default: 256)"
    )
    serve.add_argument(
        "--token-file",
        type=place,
        metavar="FILE",
        help="answer only those who send the token in this file (or in LOCKGATE_TOKEN): Authorization: Bearer TOKEN",
    )


def _predict(parsed: argparse.Namespace) -> int:
    """Say what images show: class, task and confidence. Answers come as they are found, however many images there are;
    `-` reads one image, or the names of image files a line, from standard input. From 32 images on the compiled form
    of the network answers, which is faster and agrees with it up to rounding; --exact asks the network itself."""
    from lockgate.app.predict import STDIN, look, sources
    from lockgate.app.trained import WORTH_COMPILING, open_trained
    from lockgate.report.formatting import plural
    from lockgate.training.phase import EVAL_BATCH

    trained = open_trained(parsed.model)
    images, count = sources(parsed.images)
    form = "exact" if parsed.exact else trained.form_for(WORTH_COMPILING if count is None else count)
    batch = parsed.batch or (EVAL_BATCH if count is None else None)  # names that come one by one are not waited for
    found = look(trained, images, parsed.task, parsed.top, form, batch)
    with watched(found, "images", count, parsed.quiet) as seen:
        bad, total = _print_answers(parsed, seen, parsed.batch or EVAL_BATCH)
    if not total:
        places = ("what came from standard input" if path == STDIN else str(path) for path in parsed.images)
        raise DataError(f"There are no images in {', '.join(places)}.")
    for error in bad:
        print(f"lockgate: {error}", file=sys.stderr)
    if form == "compiled" and total > len(bad) and not parsed.json:
        said = plural(total - len(bad), "image")
        log(parsed, sys.stderr)(f"{said}, answered by the compiled form; the promise is about --exact.")
    return 1 if bad else 0


def _print_answers(parsed: argparse.Namespace, seen: Iterable[Any], fewest: int) -> tuple[list[str], int]:
    """Print answers as they come, so many lines at a time; why some could not be read, and how many there were."""
    from lockgate.app.formatting import AnswerTable

    rows, bad, total = AnswerTable(), [], 0
    for item in seen:
        if parsed.json:
            print("[" if not total else ",", json.dumps(item.to_dict()), sep="\n ", end="")
        else:
            rows.add(item)
            _print_lines(rows.lines(fewest))
        total += 1
        bad += [item.error] if item.error else []
    if parsed.json and total:
        print("\n]")
    _print_lines(rows.lines())
    return bad, total


def _print_lines(lines: Sequence[str]) -> None:
    if lines:
        print("\n".join(lines))


def _inspect(parsed: argparse.Namespace) -> int:
    from lockgate.app.formatting import inspect_text
    from lockgate.app.inspect import inspect_model

    found = inspect_model(parsed.model)
    show(parsed, found, lambda: inspect_text(found))
    return 0


def _serve(parsed: argparse.Namespace) -> int:
    """A page on this machine, and answers for programs: POST an image to /predict or several to /batch; GET /model,
    /health and /metrics. The compiled form of the network answers; what is promised never to change are the answers
    of `lockgate predict --exact`. A task that the model learns meanwhile is noticed."""
    from lockgate.app.serve import serve

    serve(parsed.model, parsed.host, parsed.port, parsed.queue, parsed.token_file, log(parsed))
    return 0
