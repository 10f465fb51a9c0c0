"""The commands of a run: run, resume, evaluate, audit, export, report. Nothing heavy is imported until it is used."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockgate.cli import flags

if TYPE_CHECKING:
    from lockgate.config import Experiment


def add(commands: Any) -> None:
    """Add the commands to the command line."""
    for add_one in (_add_run, _add_resume, _add_evaluate, _add_audit, _add_export, _add_report):
        add_one(commands)


def _add_run(commands: Any) -> None:
    run = commands.add_parser("run", help="learn a sequence of tasks", description=_run.__doc__, allow_abbrev=False)
    run.add_argument("preset", nargs="?", default="short", help="a preset (`lockgate list presets`) or a .yaml file")
    run.add_argument("--out", type=Path, help="run folder to make (default: runs/METHOD-DATASET-seedN)")
    run.add_argument("--print_config", action="store_true", help="print the full configuration as YAML and stop")
    flags.add(run)
    run.set_defaults(call=_run)


def _add_resume(commands: Any) -> None:
    resume = commands.add_parser("resume", help="continue a run that was stopped or killed")
    resume.add_argument("run", type=Path, help="run folder")
    resume.add_argument("--previous", action="store_true", help="start from the checkpoint before the newest")
    resume.set_defaults(call=_resume)


def _add_evaluate(commands: Any) -> None:
    evaluate = commands.add_parser("evaluate", help="test a run's model on all its tasks")
    evaluate.add_argument("run", type=Path, help="run folder")
    evaluate.add_argument("--json", action="store_true", help="print JSON")
    evaluate.set_defaults(call=_evaluate)


def _add_audit(commands: Any) -> None:
    audit = commands.add_parser("audit", help="prove that past answers have not changed by a bit")
    audit.add_argument("run", type=Path, help="run folder, or model")
    audit.set_defaults(call=_audit)


def _add_export(commands: Any) -> None:
    export = commands.add_parser("export", help="write a network as ONNX or torch.export, checked on its test images")
    export.add_argument("run", type=Path, help="run folder, or model")
    which = export.add_mutually_exclusive_group()
    which.add_argument("--task", help="the network of this task: its name, or its number counted from 0")
    which.add_argument("--all", action="store_true", help="the network that finds the task by itself (default)")
    export.add_argument("--format", choices=("onnx", "torch"), default="onnx")
    export.add_argument("--out", type=Path, help="file to write (default: RUN/all.onnx or RUN/taskN.onnx)")
    export.set_defaults(call=_export)


def _add_report(commands: Any) -> None:
    report = commands.add_parser("report", help="write the HTML page of a run, or of several side by side")
    report.add_argument("run", type=Path, nargs="+", help="run folder")
    report.add_argument("--out", type=Path, help="file to write (default: in the run, or beside the first)")
    report.set_defaults(call=_report)


def _run(parsed: argparse.Namespace) -> int:
    """Learn a sequence of tasks. Flags override the preset or file; a preset fits itself to --method and --dataset."""
    experiment = _experiment(parsed)
    if parsed.print_config:
        import yaml

        print(yaml.safe_dump(experiment.to_dict(), sort_keys=False), end="")
        return 0
    from lockgate.runs.run import run

    name = f"{experiment.method}-{experiment.dataset}-seed{experiment.seed}".replace(":", ".")  # of own_method:DERpp
    parsed.folder = parsed.out or Path("runs") / name
    run(experiment, parsed.folder, command=parsed.typed)
    return _finish(parsed.folder)


def _experiment(parsed: argparse.Namespace) -> Experiment:
    """Preset, then file, then flags: each overrides the one before."""
    from lockgate.app.experiment_file import over_preset, read_file
    from lockgate.config import merge
    from lockgate.runs.build import experiment_from

    named = {"preset": parsed.preset}
    values = read_file(Path(parsed.preset)) if parsed.preset.endswith((".yaml", ".yml")) else named
    return experiment_from(over_preset(merge(values, flags.collect(parsed))))


def _resume(parsed: argparse.Namespace) -> int:
    from lockgate.runs.run import resume

    resume(parsed.run, previous=parsed.previous)
    return _finish(parsed.run)


def _finish(out: Path) -> int:
    """Print what a finished run came to, and where its page is."""
    from lockgate.report import html, terminal

    summary = json.loads((out / "summary.json").read_text())
    print(terminal.matrix_text(summary))
    print(f"Run folder: {out}\nReport:     {html.write(out)}")
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
    if parsed.json:
        print(json.dumps(result))
        return 0
    for name, row in result.items():
        if row is not None:
            cells = "  ".join(f"{value:.4f}" for value in row)
            print(f"{name.replace('_', '-'):18} {cells}   average {sum(row) / len(row):.4f}")
    return 0


def _audit(parsed: argparse.Namespace) -> int:
    from lockgate.app.audit import audit_run

    verdict = audit_run(parsed.run)
    print(verdict.text())
    return 0 if verdict.ok else 1


def _export(parsed: argparse.Namespace) -> int:
    from lockgate.app.export import export_run

    path, agreement = export_run(parsed.run, parsed.task, parsed.format, parsed.out)
    print(f"{path}: {agreement.text()}")
    return 0


def _report(parsed: argparse.Namespace) -> int:
    from lockgate.report import comparison, html

    if len(parsed.run) == 1:
        print(html.write(parsed.run[0], parsed.out))
    else:
        print(comparison.write(parsed.run, parsed.out))
    return 0
