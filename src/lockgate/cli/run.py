"""The commands of a run: run, resume, evaluate, audit, export, report. Nothing heavy is imported until it is used."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockgate.cli import flags
from lockgate.cli.common import add_command, place, show

if TYPE_CHECKING:
    from lockgate.config import Experiment


def add(commands: Any) -> None:
    """Add the commands to the command line."""
    for add_one in (_add_run, _add_resume, _add_evaluate, _add_audit, _add_export, _add_report):
        add_one(commands)


def _add_run(commands: Any) -> None:
    examples = [
        "lockgate run --dataset digits --method ccgn-episodic",
        "lockgate run --dataset digits --epochs 2 --eval.images 200 --out runs/try --json",
        "lockgate run experiment.yaml --seed 3",
        "lockgate run paper --dataset mnist --print_config",
    ]
    run = add_command(commands, "run", _run, "learn a sequence of tasks", examples, description=_run.__doc__)
    run.add_argument("preset", nargs="?", default="short", help="a preset (`lockgate list presets`) or a .yaml file")
    run.add_argument("--out", type=place, help="run folder to make (default: runs/METHOD-DATASET-seedN)")
    run.add_argument("--print_config", action="store_true", help="print the full configuration as YAML and stop")
    flags.add(run)


def _add_resume(commands: Any) -> None:
    examples = ["lockgate resume runs/ccgn-digits-seed0", "lockgate resume runs/ccgn-digits-seed0 --previous"]
    resume = add_command(commands, "resume", _resume, "continue a run that was stopped or killed", examples)
    resume.add_argument("run", type=place, help="run folder")
    resume.add_argument("--previous", action="store_true", help="start from the checkpoint before the newest")


def _add_evaluate(commands: Any) -> None:
    examples = ["lockgate evaluate runs/ccgn-digits-seed0"]
    evaluate = add_command(commands, "evaluate", _evaluate, "test a run's model on all its tasks", examples)
    evaluate.add_argument("run", type=place, help="run folder")


def _add_audit(commands: Any) -> None:
    examples = ["lockgate audit model", "lockgate audit runs/ccgn-digits-seed0 --json"]
    audit = add_command(commands, "audit", _audit, "prove that past answers have not changed by a bit", examples)
    audit.add_argument("run", type=place, help="run folder, or model")


def _add_export(commands: Any) -> None:
    examples = ["lockgate export model", "lockgate export model --task pets --format torch --out pets.pt2"]
    summary = "write a network as ONNX or torch.export, checked on its test images"
    export = add_command(commands, "export", _export, summary, examples)
    export.add_argument("run", type=place, help="run folder, or model")
    which = export.add_mutually_exclusive_group()
    which.add_argument("--task", help="the network of this task: its name, or its number counted from 0")
    which.add_argument("--all", action="store_true", help="the network that finds the task by itself (default)")
    export.add_argument("--format", choices=("onnx", "torch"), default="onnx")
    export.add_argument("--out", type=place, help="file to write (default: RUN/all.onnx or RUN/taskN.onnx)")


def _add_report(commands: Any) -> None:
    examples = ["lockgate report runs/ccgn-digits-seed0", "lockgate report runs/a runs/b --out both.html"]
    report = add_command(commands, "report", _report, "write the HTML page of a run, or of several", examples)
    report.add_argument("run", type=place, nargs="+", help="run folder")
    report.add_argument("--out", type=place, help="file to write (default: in the run, or beside the first)")


def _run(parsed: argparse.Namespace) -> int:
    """Learn a sequence of tasks. Flags override the preset or file; a preset fits itself to --method and --dataset."""
    experiment = _experiment(parsed)
    if parsed.print_config:
        import yaml

        values = experiment.to_dict()
        show(parsed, values, lambda: yaml.safe_dump(values, sort_keys=False).removesuffix("\n"))
        return 0
    from lockgate.runs.given import Given
    from lockgate.runs.run import run

    name = f"{experiment.method}-{experiment.dataset}-seed{experiment.seed}".replace(":", ".")  # of own_method:DERpp
    parsed.folder = parsed.out or Path("runs") / name
    run(experiment, parsed.folder, parsed.typed, Given(quiet=parsed.quiet))
    return _finish(parsed, parsed.folder)


def _experiment(parsed: argparse.Namespace) -> Experiment:
    """Preset, then file, then flags: each overrides the one before."""
    from lockgate.app.experiment_file import over_preset, read_file
    from lockgate.config import merge
    from lockgate.runs.build import experiment_from

    named = {"preset": parsed.preset}
    values = read_file(Path(parsed.preset)) if parsed.preset.endswith((".yaml", ".yml")) else named
    return experiment_from(over_preset(merge(values, flags.collect(parsed))))


def _resume(parsed: argparse.Namespace) -> int:
    from lockgate.runs.given import Given
    from lockgate.runs.run import resume

    resume(parsed.run, parsed.previous, Given(quiet=parsed.quiet))
    return _finish(parsed, parsed.run)


def _finish(parsed: argparse.Namespace, out: Path) -> int:
    """Print what a finished run came to, and where its page is."""
    from lockgate.report import html, terminal

    summary, page = json.loads((out / "summary.json").read_text(encoding="utf-8")), html.write(out)
    where = f"Run folder: {out}\nReport:     {page}"
    show(
        parsed,
        {**summary, "folder": str(out), "report": str(page)},
        lambda: f"{terminal.matrix_text(summary)}\n{where}",
    )
    return 0


def _evaluate(parsed: argparse.Namespace) -> int:
    from lockgate.evaluation import accuracy
    from lockgate.runs.loading import load

    learner, scenario, _experiment = load(parsed.run)
    seen = scenario.tasks[: len(learner.heads)]
    result: dict[str, Any] = {
        "task_incremental": accuracy.task_incremental(learner, seen),
        "class_incremental": accuracy.class_incremental(learner, seen),
        "domain_incremental": accuracy.domain_incremental(learner, seen) if scenario.shares_classes else None,
    }
    show(parsed, result, "\n".join(_row(name, row) for name, row in result.items() if row is not None))
    return 0


def _row(name: str, row: list[float]) -> str:
    cells = "  ".join(f"{value:.4f}" for value in row)
    return f"{name.replace('_', '-'):18} {cells}   average {sum(row) / len(row):.4f}"


def _audit(parsed: argparse.Namespace) -> int:
    from lockgate.app.audit import audit_run

    verdict = audit_run(parsed.run)
    show(parsed, verdict.to_dict(), verdict.text())
    return 0 if verdict.ok else 1


def _export(parsed: argparse.Namespace) -> int:
    from lockgate.app.export import export_run

    path, agreement = export_run(parsed.run, parsed.task, parsed.format, parsed.out)
    found = {"path": str(path), **asdict(agreement), "ok": agreement.ok}
    show(parsed, found, f"{path}: {agreement.text()}")
    return 0


def _report(parsed: argparse.Namespace) -> int:
    from lockgate.report import comparison, html

    alone = len(parsed.run) == 1
    page = html.write(parsed.run[0], parsed.out) if alone else comparison.write(parsed.run, parsed.out)
    show(parsed, {"report": str(page)}, str(page))
    return 0
