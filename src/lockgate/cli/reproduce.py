"""The command `lockgate reproduce`: parses, calls, prints. Nothing heavy is imported before it is needed."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, get_args

from lockgate.cli.common import add_command, log, place, show, whole
from lockgate.config import Precision
from lockgate.errors import ConfigError, RunFolderError


def add(commands: Any) -> None:
    """Add the command to the parser."""
    examples = [
        "lockgate reproduce task-incremental --only mnist --seeds 1",
        "lockgate reproduce all --no-run --results results",
    ]
    summary = "a table or figure of the paper, ours beside its numbers"
    again = add_command(commands, "reproduce", _reproduce, summary, examples)
    again.add_argument("paper_table", metavar="TABLE", help="a table (`lockgate list tables`), or `all`")
    again.add_argument(
        "--schedule", choices=("short", "paper"), default="short", help="a few epochs, CPUs; or to the letter, GPUs"
    )
    again.add_argument("--seeds", type=whole(), help="seeds 0 .. N-1 (default: as many as the table needs)")
    again.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="only this data set, row or column; repeat"
    )
    again.add_argument("--jobs", type=whole(), default=1, help="runs at a time")
    again.add_argument("--ray", metavar="ADDRESS", help="run on this Ray cluster, or `local`")
    again.add_argument("--root", type=place, default=Path("runs/reproduction"), help="folder of runs and results")
    again.add_argument("--results", type=place, help="folder to keep results apart from runs, and to find them in")
    again.add_argument("--precision", choices=get_args(Precision), default="32-true", help="of new runs")
    again.add_argument("--readme", type=place, metavar="FILE", help="with `all`: the overview goes between its marks")
    again.add_argument("--no-run", action="store_true", help="run nothing: write from what is finished")


def _reproduce(parsed: argparse.Namespace) -> int:
    """Run what is missing (finished runs are kept and used again), then write tables, figures and a page."""
    from lockgate.reproduction import reproduce

    problems = [
        f"'{name}' must be at least 1. Got {value}."
        for name, value in (("jobs", parsed.jobs), ("seeds", parsed.seeds))
        if value is not None and value < 1
    ]
    if problems:
        raise ConfigError(problems)
    if parsed.readme is not None and parsed.paper_table != "all":
        raise ConfigError(["'readme' wants the numbers of all tables: `lockgate reproduce all`."])
    tables = reproduce.paper_tables(parsed.paper_table)
    _make(parsed.root, "--root")
    if parsed.results is not None:
        _make(parsed.results, "--results")
    plan = reproduce.Plan(
        tables,
        parsed.schedule,
        parsed.seeds,
        parsed.root.resolve(),  # workers of a cluster stand elsewhere
        tuple(parsed.only),
        None if parsed.results is None else parsed.results.resolve(),
        parsed.precision,
        parsed.readme,
    )
    failed, say = [], log(parsed, sys.stderr)
    if parsed.no_run:
        reproduce.log_missing(plan, parsed.jobs, say)
    else:
        failed = reproduce.run_missing(plan, parsed.jobs, parsed.ray, say)
    pages = [str(path) for path in reproduce.pages(reproduce.write_all(plan, say))]
    show(parsed, {"pages": pages, "failed": len(failed)}, "\n".join(pages))
    return 1 if failed else 0


def _make(folder: Path, flag: str) -> None:
    """Make ``folder``, unless it is there; before hours of work that would find no place."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunFolderError(f"Cannot make the folder {folder}: {error}. Choose another `{flag}`.") from error
