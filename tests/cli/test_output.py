"""What all commands share: JSON, silence, no colours, examples that are commands, and completion by the shell."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lockgate.cli import completion, flags
from lockgate.cli.main import _parser

Command = Callable[..., tuple[int, str, str]]
PARSER, COMMANDS = _parser()


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_shows_examples_that_can_be_typed(command: Command, name: str) -> None:
    code, out, _ = command(name, "--help")
    assert code == 0
    _, _, shown = out.partition("examples:\n")
    typed = [line.partition("#")[0] for line in shown.splitlines() if "lockgate " in line and "curl" not in line]
    assert typed
    for line in typed:
        words = shlex.split(line.partition("lockgate ")[2].split(" > ")[0].split(" < ")[0].rstrip(")"))
        plain, _ = flags.take_options(words)
        parsed, unknown = PARSER.parse_known_args(plain)
        assert (parsed.command, unknown) == (name, []), line


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_can_be_silent_and_without_colours(name: str) -> None:
    known = completion._flags(COMMANDS[name])
    assert {"--quiet", "--no-color"} <= set(known)
    assert ("--json" in known) == (name not in ("serve", "completion")), "all that print results"
    assert not COMMANDS[name].allow_abbrev


def test_results_of_a_run_are_json_if_asked_and_nothing_else_is_printed(command: Command, ccgn: Path) -> None:
    for words, key in (
        (["evaluate", ccgn], "task_incremental"),
        (["audit", ccgn], "ok"),
        (["export", ccgn, "--task=0", "--format=torch"], "path"),
        (["report", ccgn], "report"),
        (["resume", ccgn], "task_incremental"),
        (["list", "methods"], "methods"),
        (["list", "ccgn"], "sparsity"),
        (["run", "--print_config"], "method"),
    ):
        code, out, err = command(*words, "--json", "--quiet")
        assert (code, err) == (0, ""), words
        assert key in json.loads(out), words


def test_results_of_a_model_are_json_if_asked(command: Command, taught: Path) -> None:
    for words, key in (
        (["learn", taught / "new", taught / "pets", "--width=8", "--epochs=1"], "tasks"),
        (["inspect", taught / "model"], "tasks"),
        (["undo", taught / "model", "--yes"], "removed"),
    ):
        code, out, err = command(*words, "--json", "--quiet")
        assert (code, err) == (0, ""), words
        assert key in json.loads(out), words


def test_quiet_leaves_results_and_errors(command: Command, taught: Path) -> None:
    code, out, err = command("learn", taught / "new", taught / "pets", "--width=8", "--epochs=1", "--quiet")
    assert (code, err) == (0, "")
    assert out.startswith("Learnt 'pets'")
    code, out, err = command("learn", taught / "new", taught / "pets", "--quiet")
    assert (code, out) == (1, "")
    assert "already" in err


def test_colours_are_left_out_where_asked_and_only_there(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    from lockgate.cli import common

    seen = []
    monkeypatch.delenv("NO_COLOR", raising=False)
    for words in (["list"], ["list", "--no-color"]):
        parsed, _ = PARSER.parse_known_args(words)
        with common.colours(parsed):
            seen.append(os.environ.get("NO_COLOR"))
        assert "NO_COLOR" not in os.environ
    assert seen == [None, "1"]


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        (["lockgate", "und"], ["undo"]),
        (["lockgate", "learn", "--mem"], ["--memory"]),
        (["lockgate", "learn", "--memory", "ep"], ["episodic"]),
        (["lockgate", "run", "--optim.l"], ["--optim.lr"]),
    ],
)
def test_bash_completes(typed: list[str], wanted: list[str]) -> None:
    words = " ".join(map(shlex.quote, typed))
    asked = f'COMP_WORDS=({words}); COMP_CWORD={len(typed) - 1}; _lockgate; printf "%s\\n" "${{COMPREPLY[@]}}"'
    text = f"{completion.script('bash', COMMANDS)}\n{asked}"
    found = subprocess.run(["bash", "-c", text], capture_output=True, text=True, check=True)
    assert (found.stdout.split(), found.stderr) == (wanted, "")


def test_other_shells_have_every_command_and_flag(command: Command) -> None:
    for shell in ("zsh", "fish"):
        code, out, _ = command("completion", shell)
        assert code == 0
        for name in COMMANDS:
            assert name in out
    assert (
        "complete -c lockgate -n '__fish_seen_subcommand_from learn' -l memory -x -a 'none episodic generative'" in out
    )
    assert command("completion", "tcsh")[0] == 2


def test_what_the_system_refuses_is_said_in_a_line(command: Command) -> None:
    code, _, err = command("inspect", "a" * 300)
    assert code == 1
    assert "File name too long. Look at its path" in err
