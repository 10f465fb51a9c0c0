"""The command `lockgate select`: parses, calls, prints. Nothing heavy is imported before it is needed."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any

from lockgate.cli import flags
from lockgate.cli.common import add_command, log, place, show, whole
from lockgate.errors import ConfigError, RunFolderError

OURS = {
    "method": "METHOD",
    "seed": "--seeds",
    "scenario.class_order": "--seeds",
    "scenario.order_seed": "--seeds",
    "scenario.evaluate": "nothing: held-out images decide",
}
"""Flags of the configuration that the selection sets itself, and what to use instead."""


def add(commands: Any) -> None:
    """Add the command to the command line."""
    select = add_command(
        commands,
        "select",
        _select,
        "choose a method's settings on held-out images",
        [
            "lockgate select ccgn-episodic --dataset digits --trials 10",
            "lockgate select er --datasets mnist,svhn --per-class 500 --jobs 2",
        ],
        description=_select.__doc__,
    )
    select.add_argument("chosen_for", metavar="METHOD", help="a method (`lockgate list methods`)")
    select.add_argument("--datasets", help="data sets, by commas: the best on average is chosen (--dataset: one)")
    select.add_argument("--name", help="what to call the files (default: METHOD), for a variant that flags fix")
    select.add_argument(
        "--trials", type=whole(), default=20, help="settings to try, the preset's own first (default: 20)"
    )
    select.add_argument(
        "--seeds", type=whole(), default=1, help="runs a trial, on seeds 100 .. and their own class orders"
    )
    select.add_argument("--goal", choices=("class", "task", "domain"), default="class", help="accuracy to choose by")
    select.add_argument(
        "--per-class",
        dest="scenario.per_class",
        default=argparse.SUPPRESS,
        metavar="X",
        help="training images of each class to use (--scenario.per_class)",
    )
    select.add_argument("--space", type=place, help="YAML file of what may be chosen (default: the method's own)")
    select.add_argument("--schedule", choices=("short", "paper", "printed"), default="short", help="the preset to vary")
    select.add_argument("--search-seed", type=whole(), default=0, help="seed of the random search")
    select.add_argument("--jobs", type=whole(), default=1, help="runs at a time")
    select.add_argument("--ray", metavar="ADDRESS", help="run on this Ray cluster, or `local`")
    select.add_argument("--out", type=place, default=Path("runs/select"), help="folder of runs and of what is chosen")
    select.add_argument("--keep-models", action="store_true", help="keep the checkpoints of finished runs")
    flags.add(select)


def _select(parsed: argparse.Namespace) -> int:
    """Choose a method's settings: random search over a declared space, by accuracy on held-out images.

    Test images are not read. Any flag of the configuration fixes that setting for all trials. The same command again
    goes on where it was stopped; with more --trials it adds to those that are there.
    """
    from lockgate.config import Experiment
    from lockgate.reproduction.select import choose
    from lockgate.reproduction.select.space import read_space
    from lockgate.reproduction.select.trials import Selection, require_possible

    _require(parsed)
    given = flags.collect(parsed)
    if given.get("data_dir") is not None:
        given["data_dir"] = str(Path(given["data_dir"]).absolute())  # workers of a cluster stand elsewhere
    one = given.pop("dataset", Experiment().dataset)
    selection = Selection(
        parsed.chosen_for,
        (one,) if parsed.datasets is None else tuple(parsed.datasets.split(",")),
        given,
        parsed.schedule,
        read_space(parsed.chosen_for, parsed.space),
        parsed.trials,
        parsed.seeds,
        parsed.goal,
        parsed.out.resolve(),
        parsed.search_seed,
    )
    require_possible(selection)
    _make(parsed.out)
    say = log(parsed, sys.stderr)
    failed = choose.run_trials(selection, parsed.jobs, parsed.ray, say)
    name = parsed.name or re.sub(r"[^\w.+-]+", ".", parsed.chosen_for)
    chosen, tried = choose.write(selection, parsed.typed, name, say)
    if not parsed.keep_models:
        choose.drop_models(selection)
    show(parsed, {"chosen": str(chosen), "tried": str(tried), "failed": len(failed)}, f"{chosen}\n{tried}")
    return 1 if failed else 0


def _require(parsed: argparse.Namespace) -> None:
    problems = [
        f"'{name}' must be at least {least}. Got {value}."
        for name, value, least in (
            ("trials", parsed.trials, 1),
            ("seeds", parsed.seeds, 1),
            ("jobs", parsed.jobs, 1),
            ("search-seed", parsed.search_seed, 0),
        )
        if value < least
    ]
    given = vars(parsed)
    if parsed.datasets is not None and "dataset" in given:
        problems.append("'--dataset' and '--datasets' are one setting. Got both; leave one of them out.")
    if parsed.name is not None and not re.fullmatch(r"[\w+][\w.+-]*", parsed.name):
        problems.append(f"'name' must be letters, digits, '_', '-', '+' and '.'. Got {parsed.name!r} instead.")
    problems += [
        f"'--{name}' is set by the selection. Use {instead}." for name, instead in OURS.items() if name in given
    ]
    if problems:
        raise ConfigError(problems)


def _make(folder: Path) -> None:
    """Make the folder, before hours of work that would find no place."""
    try:
        (folder / "runs").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunFolderError(f"Cannot make the folder {folder}: {error}. Choose another `--out`.") from error
