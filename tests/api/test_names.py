"""``import lockgate``: its names, light to import, all documented."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import lockgate

NAMES = sorted(set(lockgate.__all__) - {"__version__"})


def test_importing_brings_no_torch_and_every_name_can_be_seen() -> None:
    script = (
        "import sys, lockgate; seen = {name for name in dir(lockgate) if name[:2] != '__'}; "
        "print(seen == set(lockgate.__all__) - {'__version__'}, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False"]


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_there_and_documented(name: str) -> None:
    assert inspect.getdoc(getattr(lockgate, name))


def test_the_names_for_type_checkers_are_the_names_there_are() -> None:
    source = inspect.getsource(lockgate)
    block = source[source.index("if TYPE_CHECKING") : source.index("_HOME")]
    imported = {
        name.strip()
        for line in block.splitlines()[1:]
        if " import " in line
        for name in line.partition(" import ")[2].split(",")
    }
    assert sorted(imported) == NAMES == sorted(lockgate._HOME)


def test_what_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = lockgate.nonsense  # type: ignore[attr-defined]
