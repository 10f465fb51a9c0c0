"""The command: parses, calls one function, prints. Nothing heavy is imported before it is needed."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Mapping, Sequence

from lockgate.cli import completion, flags, learn, listing, model, network, reproduce, run, select
from lockgate.cli.common import colours
from lockgate.errors import ConfigError, LockgateError, UnknownNameError
from lockgate.training.stopping import STOPPED, asked_to_stop
from lockgate.version import __version__


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code: 0, 1 for what went wrong, 2 for what was asked wrongly."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser, commands = _parser()
    parsed: argparse.Namespace | None = None
    try:
        plain, options = flags.take_options(arguments)
        parsed, unknown = parser.parse_known_args(plain)
        if parsed.command not in ("run", "learn", "select"):
            unknown += [f"--options.{name}" for name in options]
        flags.refuse(unknown, commands[parsed.command])
        parsed.commands = commands
        parsed.options, parsed.typed = options, shlex.join(["lockgate", *map(str, arguments)])
        with asked_to_stop(), colours(parsed):
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
    except OSError as error:
        where = error.filename or "a file or a connection"
        print(
            f"lockgate: Cannot use {where}: {error.strerror or error}. Look at its path, its permissions and the room "
            "on its disk.",
            file=sys.stderr,
        )
        return 1
    except (MemoryError, RuntimeError) as error:
        if not _no_room(error):
            raise
        print(f"lockgate: {_NO_ROOM} ({str(error).splitlines()[0][-160:]})", file=sys.stderr)
        return 1


_NO_ROOM = (
    "There is not enough memory. Use smaller images (--size, --data.image_size), a narrower network (--width, "
    "--model.width) or fewer images a step (--batch-size, --optim.batch_size)."
)


def _no_room(error: Exception) -> bool:
    """Whether memory ran out: of the machine as NumPy or torch say it, or of a GPU."""
    return isinstance(error, MemoryError) or "allocate" in str(error) or "out of memory" in str(error)


def _remedy(command: str, parsed: argparse.Namespace | None) -> str:
    """How to go on with a command that was stopped; nothing where there is nothing to go on with."""
    folder = getattr(parsed, "folder", None) if command == "run" else getattr(parsed, "run", None)
    remedies = dict.fromkeys(("learn", "reproduce", "select"), "give the same command again")
    if command in ("run", "resume") and folder is not None and (folder / "config.yaml").is_file():
        remedies[command] = f"continue with `{shlex.join(['lockgate', 'resume', str(folder)])}`"
    return f" Nothing is lost: {remedies[command]}." if command in remedies else ""


def _parser() -> tuple[argparse.ArgumentParser, Mapping[str, argparse.ArgumentParser]]:
    """The parser, and those of its commands."""
    parser = argparse.ArgumentParser(
        prog="lockgate",
        description="Continual learning that provably forgets nothing.",
        epilog="`lockgate COMMAND --help` explains a command and shows examples.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"lockgate {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    for part in (learn, model, run, reproduce, select, network, listing, completion):
        part.add(commands)
    return parser, commands.choices


if __name__ == "__main__":
    sys.exit(main())
