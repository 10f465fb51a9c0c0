"""A table of bad inputs: each is answered with an exit code and a message, and changes nothing. No tracebacks.

The table is data: tests/cli/bad_inputs.txt.
"""

from __future__ import annotations

import io
import os
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support import bad_places
from tests.support.folders import write

Command = Callable[..., tuple[int, str, str]]
LINES = (Path(__file__).parent / "bad_inputs.txt").read_text().splitlines()
CASES = [tuple(line.split(" | ", 2)) for line in LINES if not line.startswith("#")]


@pytest.fixture(scope="session")
def places(tmp_path_factory: pytest.TempPathFactory, _taught: Path, _ccgn: Path, _finetune: Path) -> dict[str, str]:
    return bad_places.make(tmp_path_factory.mktemp("bad"), _taught, _ccgn, _finetune)


def test_there_are_many() -> None:
    assert len(CASES) >= 200
    assert len({case for _, case, _ in CASES}) == len(CASES), "each once"


@pytest.mark.parametrize(("code", "typed", "message"), CASES, ids=[typed or "nothing" for _, typed, _ in CASES])
def test_a_bad_input_is_answered(
    command: Command, places: dict[str, str], monkeypatch: pytest.MonkeyPatch, code: str, typed: str, message: str
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    found, out, err = command(*(word.format(**places) for word in shlex.split(typed)))
    assert found == int(code), err
    assert message in err
    assert "Traceback" not in err
    assert not Path(places["NEW"]).exists(), "nothing was begun"
    assert not out or typed.startswith("learn"), "results are of what was done"


@pytest.mark.skipif(sys.platform == "win32", reason="no devices and pipes among files")
def test_pipes_and_devices_are_no_images(command: Command, places: dict[str, str], tmp_path: Path) -> None:
    write(tmp_path / "boats", {"ferry": 4, "tug": 4})
    os.mkfifo(tmp_path / "boats" / "tug" / "x.png")  # nobody writes to it: to read it would be to wait for ever
    code, _, err = command("learn", tmp_path / "model", tmp_path / "boats")
    assert code == 1
    assert "is a pipe or a device; wanted images only. Move it elsewhere." in err
    for device in ("/dev/null", "/dev/zero"):
        code, _, err = command("predict", places["MODEL"], device)
        assert code == 1
        assert f"Cannot read the image {device}" in err
        assert "is not empty and not a model" in command("learn", device, places["PETS"])[2]


def test_nothing_was_changed(command: Command, places: dict[str, str], tmp_path: Path) -> None:
    """The places are as good, or as bad, as they were."""
    assert command("audit", places["MODEL"])[0] == 0
    assert command("audit", places["RUN"])[0] == 0
    damaged = shutil.copytree(places["DAMAGED"], tmp_path / "damaged")
    assert command("undo", damaged, "--yes")[0] == 0
