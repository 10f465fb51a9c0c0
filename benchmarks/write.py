"""Runs the benchmarks one after another and writes docs/performance.md: machine, commit, commands, tables.

    python benchmarks/write.py [RUN ...] [--out FILE]

Each RUN is a run folder of a gated method, for `inference.py`; none: every finished one in runs/ (`make demo` makes
one). ResNets are timed at batch 64, others at 256 and 1.
Stopped before its end, it goes on from the page it has half written beside FILE, on the same machine; every section
names the commit it was measured at.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from pathlib import Path

from lockgate.runs.directory import RunFolder, write_atomically
from lockgate.runs.summary import environment

HERE = Path(__file__).parent
GATED = ("ccgn", "ccgn-episodic", "ccgn-generative")
INTRODUCTION = """# Performance

Ratios measured side by side, in one process and on one thread, in CPU seconds, written by `make bench`. Do not edit.
Each section names the commit it was measured at.
"""


def commands(runs: list[Path]) -> list[list[str]]:
    """What to run, in order."""
    inference = []
    for run in runs:
        resnet = RunFolder(run).experiment().backbone == "resnet18"
        inference.append(["inference.py", str(run), "--batch", *(["64", "1"] if resnet else ["256", "1"])])
    others = ["training.py --rounds 3", "tasks.py", "costs.py --rounds 3", "engine.py", "gates.py"]
    others += ["methods.py --steps 6 --rounds 3", "streams.py --steps 15 --rounds 3"]
    return [*inference, *map(shlex.split, others)]


def finished() -> list[Path]:
    """Finished runs of gated methods in runs/."""
    found = [summary.parent for summary in sorted(Path("runs").glob("*/summary.json"))]
    return [run for run in found if RunFolder(run).experiment().method in GATED]


def typed(command: list[str]) -> str:
    """The command as a person would give it."""
    return shlex.join(["python", f"benchmarks/{command[0]}", *command[1:]])


def measured_before(page: Path, where: str) -> dict[str, str]:
    """Sections of a half-written page by their command; none if it was not measured ``where`` we are now."""
    text = page.read_text(encoding="utf-8") if page.is_file() else ""
    if where not in text:
        return {}
    return {part.split("`")[1]: f"## {part.strip()}\n" for part in text.split("## ")[1:]}


def section(command: list[str], commit: str) -> str:
    """One benchmark's output under its command."""
    shown = typed(command)
    print(shown, file=sys.stderr, flush=True)
    call = [sys.executable, str(HERE / command[0]), *command[1:]]
    output = subprocess.run(call, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    plain = "|" not in output
    body = f"```\n{output}\n```" if plain else output
    return f"## {command[0].removesuffix('.py')}\n\n`{shown}`, commit {commit}\n\n{body}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="*")
    parser.add_argument("--out", type=Path, default=HERE.parent / "docs" / "performance.md")
    given = parser.parse_args()
    where = environment()
    machine = f"{where['cpu']}, {where['platform']}, Python {where['python']}, torch {where['torch']}"
    here = f"Machine: {machine}.\n"
    parts = [INTRODUCTION, here]
    half_done = given.out.with_suffix(".partial.md")  # the last page stays until all of the new one is measured
    before = measured_before(half_done, here)
    for command in commands(given.runs or finished()):
        parts.append(before.get(typed(command)) or section(command, where["commit"] or "unknown"))
        write_atomically(half_done, "\n".join(parts))
    half_done.replace(given.out)
    print(given.out)


if __name__ == "__main__":
    main()
