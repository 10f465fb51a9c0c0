"""The command: parses, calls one function, prints. Nothing heavy is imported before it is needed."""

from __future__ import annotations

import argparse
import dataclasses
import json
import shlex
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockgate.cli import flags, model, reproduce
from lockgate.errors import ConfigError, LockgateError, UnknownNameError
from lockgate.training.stopping import STOPPED, asked_to_stop
from lockgate.version import __version__

if TYPE_CHECKING:
    from lockgate.config import Experiment

_KINDS = ("methods", "datasets", "backbones", "presets", "tables")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code: 0, 1 for what went wrong, 2 for what was asked wrongly."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser, commands = _parser()
    parsed: argparse.Namespace | None = None
    try:
        plain, options = flags.take_options(arguments)
        parsed, unknown = parser.parse_known_args(plain)
        if parsed.command not in ("run", "learn"):
            unknown += [f"--options.{name}" for name in options]
        flags.refuse(unknown, commands[parsed.command])
        parsed.options, parsed.typed = options, shlex.join(["lockgate", *map(str, arguments)])
        with asked_to_stop():
            code: int = parsed.call(parsed)
        return code
    except LockgateError as error:
        print(f"lockgate: {error}", file=sys.stderr)
        return 2 if isinstance(error, (ConfigError, UnknownNameError)) else 1
    except KeyboardInterrupt:
        print(f"\nlockgate: stopped.{_remedy(next(iter(arguments), ''), parsed)}", file=sys.stderr)
        return STOPPED
    except BrokenPipeError:
        return 1


def _remedy(command: str, parsed: argparse.Namespace | None) -> str:
    """How to go on with a command that was stopped; nothing where there is nothing to go on with."""
    run = getattr(parsed, "folder", None) if command == "run" else getattr(parsed, "run", None)
    remedies = {"learn": "give the same lesson again", "reproduce": "give the same command again"}
    if command in ("run", "resume") and run is not None and (run / "config.yaml").is_file():
        remedies[command] = f"continue with `{shlex.join(['lockgate', 'resume', str(run)])}`"
    return f" Nothing is lost: {remedies[command]}." if command in remedies else ""


def _parser() -> tuple[argparse.ArgumentParser, Mapping[str, argparse.ArgumentParser]]:
    """The parser, and those of its commands."""
    parser = argparse.ArgumentParser(prog="lockgate", description="Continual learning that provably forgets nothing.")
    parser.add_argument("--version", action="version", version=f"lockgate {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="learn a sequence of tasks", description=_run.__doc__, allow_abbrev=False)
    run.add_argument("preset", nargs="?", default="short", help="a preset (`lockgate list presets`) or a .yaml file")
    run.add_argument("--out", type=Path, help="run folder to make (default: runs/METHOD-DATASET-seedN)")
    run.add_argument("--print_config", action="store_true", help="print the full configuration as YAML and stop")
    flags.add(run)
    run.set_defaults(call=_run)

    resume = commands.add_parser("resume", help="continue a run that was stopped or killed")
    resume.add_argument("run", type=Path, help="run folder")
    resume.add_argument("--previous", action="store_true", help="start from the checkpoint before the newest")
    resume.set_defaults(call=_resume)

    evaluate = commands.add_parser("evaluate", help="test a run's model on all its tasks")
    evaluate.add_argument("run", type=Path, help="run folder")
    evaluate.add_argument("--json", action="store_true", help="print JSON")
    evaluate.set_defaults(call=_evaluate)

    audit = commands.add_parser("audit", help="prove that past answers have not changed by a bit")
    audit.add_argument("run", type=Path, help="run folder, or model")
    audit.set_defaults(call=_audit)

    export = commands.add_parser("export", help="write a network as ONNX or torch.export, checked on its test images")
    export.add_argument("run", type=Path, help="run folder, or model")
    which = export.add_mutually_exclusive_group()
    which.add_argument("--task", help="the network of this task: its name, or its number counted from 0")
    which.add_argument("--all", action="store_true", help="the network that finds the task by itself (default)")
    export.add_argument("--format", choices=("onnx", "torch"), default="onnx")
    export.add_argument("--out", type=Path, help="file to write (default: RUN/all.onnx or RUN/taskN.onnx)")
    export.set_defaults(call=_export)

    report = commands.add_parser("report", help="write the HTML page of a run, or of several side by side")
    report.add_argument("run", type=Path, nargs="+", help="run folder")
    report.add_argument("--out", type=Path, help="file to write (default: in the run, or beside the first)")
    report.set_defaults(call=_report)

    reproduce.add(commands)
    model.add(commands)

    listing = commands.add_parser("list", help="show what there is to choose from")
    listing.add_argument("what", nargs="?", metavar="KIND|METHOD", help=f"{', '.join(_KINDS)}; or a method's options")
    listing.set_defaults(call=_list)
    return parser, commands.choices


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


def _list(parsed: argparse.Namespace) -> int:
    if parsed.what is not None and parsed.what not in _KINDS:
        return _list_options(parsed.what)
    for kind in [parsed.what] if parsed.what else _KINDS:
        registry = _registry(kind)
        print(f"{kind}:")
        for name in registry:
            print(f"  {name:16} {registry.summary(name)}")
        for note in registry.shadowed():
            print(f"  ({note})")
    return 0


def _list_options(method: str) -> int:
    """What can be set of a method with --options.NAME, its default and what it means."""
    options = _registry("methods")[method].Options
    _print_options(options, "--options.")
    if not dataclasses.fields(options):
        print(f"{method} has no options of its own.")
    return 0


def _print_options(options: Any, prefix: str) -> None:
    """Every field with its default and its help; those of a group are dotted."""
    for field in dataclasses.fields(options):
        if "help" not in field.metadata:  # a group
            _print_options(field.default_factory, f"{prefix}{field.name}.")
            continue
        meaning = textwrap.fill(field.metadata["help"], 110, initial_indent="    ", subsequent_indent="    ")
        print(f"{prefix}{field.name} {json.dumps(field.default)}\n{meaning}")


def _registry(kind: str) -> Any:
    from lockgate.backbones import BACKBONES
    from lockgate.data import DATASETS
    from lockgate.methods import METHODS
    from lockgate.presets import PRESETS
    from lockgate.reproduction import TABLES

    known = {"methods": METHODS, "datasets": DATASETS, "backbones": BACKBONES, "presets": PRESETS, "tables": TABLES}
    return known[kind]


if __name__ == "__main__":
    sys.exit(main())
