"""The command `lockgate completion`: a script that completes commands and flags in a shell, made from the parser."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping
from typing import Any

from lockgate.cli.common import add_command

SHELLS = ("bash", "zsh", "fish")
Parsers = Mapping[str, argparse.ArgumentParser]


def add(commands: Any) -> None:
    """Add the command to the command line."""
    completion = add_command(
        commands,
        "completion",
        _completion,
        "print a script that completes commands and flags in your shell",
        [
            "source <(lockgate completion bash)",
            "lockgate completion zsh > ~/.lockgate.zsh   # and `source ~/.lockgate.zsh` in ~/.zshrc",
            "lockgate completion fish > ~/.config/fish/completions/lockgate.fish",
        ],
        results=False,
    )
    completion.add_argument("shell", choices=SHELLS, help="the shell")


def _completion(parsed: argparse.Namespace) -> int:
    print(script(parsed.shell, parsed.commands))
    return 0


def script(shell: str, commands: Parsers) -> str:
    """The script for ``shell``."""
    if shell == "fish":
        return _fish(commands)
    begin = "autoload -U +X bashcompinit && bashcompinit\n" if shell == "zsh" else ""
    return begin + _bash(commands)


def _bash(commands: Parsers) -> str:
    flags = [f"    {name}) words={shlex.quote(' '.join(_flags(parser)))} ;;" for name, parser in commands.items()]
    values = [
        f"    {name}:{flag}) words={shlex.quote(' '.join(choices))} ;;"
        for name, parser in commands.items()
        for flag, choices in _choices(parser).items()
    ]
    return "\n".join(
        [
            "_lockgate() {",
            '  local current="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" words=""',
            '  if [ "$COMP_CWORD" -eq 1 ]; then',
            f"    words={shlex.quote(' '.join([*commands, '--help', '--version']))}",
            '    COMPREPLY=($(compgen -W "$words" -- "$current")); return',
            "  fi",
            '  case "${COMP_WORDS[1]}:$before" in',
            *values,
            "  esac",
            '  if [ -z "$words" ] && [[ "$current" == -* ]]; then',
            '    case "${COMP_WORDS[1]}" in',
            *flags,
            "    esac",
            "  fi",
            '  if [ -n "$words" ]; then COMPREPLY=($(compgen -W "$words" -- "$current"))',
            '  else COMPREPLY=($(compgen -f -- "$current")); fi',
            "}",
            "complete -o filenames -F _lockgate lockgate",
        ]
    )


def _fish(commands: Parsers) -> str:
    lines = []
    for name, parser in commands.items():
        said = shlex.quote((parser.description or "").partition("\n")[0])
        lines.append(f"complete -c lockgate -n __fish_use_subcommand -a {name} -d {said}")
        within = f"complete -c lockgate -n '__fish_seen_subcommand_from {name}'"
        choices = _choices(parser)
        for flag in _flags(parser):
            if flag.startswith("--"):
                values = f" -x -a {shlex.quote(' '.join(choices[flag]))}" if flag in choices else ""
                lines.append(f"{within} -l {flag[2:]}{values}")
    return "\n".join(lines)


def _flags(parser: argparse.ArgumentParser) -> list[str]:
    return [spelling for action in parser._actions for spelling in action.option_strings]


def _choices(parser: argparse.ArgumentParser) -> dict[str, list[str]]:
    """The values of flags that have but some."""
    return {
        spelling: [str(choice) for choice in action.choices]
        for action in parser._actions
        for spelling in action.option_strings
        if action.choices
    }
