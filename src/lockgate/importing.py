"""Code of one's own, named as ``package.module:Attribute`` and imported only when it is named."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lockgate.errors import LockgateError, PluginError, UnknownNameError

_OURS = (str(Path(__file__).parent), str(importlib.__file__), "<frozen ")
"""How the file names of frames begin that say nothing about a user's code."""


def near_matches(name: str, names: Iterable[str]) -> str:
    """' Did you mean ...?' for the names close to ``name``, or an empty string."""
    close = difflib.get_close_matches(name, list(names), n=3, cutoff=0.5)
    return f" Did you mean {' or '.join(repr(c) for c in close)}?" if close else ""


def load(target: str, what: str) -> Any:
    """The object that ``module:attribute`` names. ``what`` it is for stands in the errors: "method 'own:Mine'".

    Modules are found as ``python -m`` finds them: in the current folder first, then among what is installed.
    """
    module_name, _, attribute = target.partition(":")
    parts = [*module_name.split("."), *attribute.split(".")]
    if not all(part.isidentifier() for part in parts) or module_name.endswith(".py"):
        raise UnknownNameError(
            f"Cannot read {what}: {target!r} must be package.module:Attribute, with dots for folders and no '.py'."
        )
    module = _module(module_name, what)
    found: Any = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            public = [name for name in vars(found) if not name.startswith("_")]
            file = getattr(module, "__file__", None)
            raise UnknownNameError(
                f"Cannot find {what}: {module_name!r} ({file}) has no {attribute!r}.{near_matches(part, public)} "
                "Name something that the module defines."
            )
        found = getattr(found, part)
    return found


def _module(name: str, what: str) -> Any:
    here = str(Path.cwd())
    if "" not in sys.path and here not in sys.path:
        sys.path.insert(0, here)  # and left there: the user's modules may import others later, and so do other ranks
    importlib.invalidate_caches()
    with user_code(f"Importing {what}"):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            missing = error.name or ""
            if missing != name and not name.startswith(f"{missing}."):  # the user's module was found; it misses another
                raise
    files = [path.stem for path in Path.cwd().glob("*.py")]
    raise UnknownNameError(
        f"Cannot find {what}: there is no module {missing!r} in {here}, nor is one installed."
        f"{near_matches(missing, files)} Run in the folder that holds {missing.partition('.')[0]}.py, put that folder "
        "into PYTHONPATH, or install the package."
    )


@contextmanager
def user_code(doing: str) -> Iterator[None]:
    """Turn what a user's code raises into a ``PluginError`` that shows where in that code it was, and nothing of ours.

    What Lockgate raises on purpose passes as it is.
    """
    try:
        yield
    except LockgateError:
        raise
    except (Exception, SystemExit) as error:  # SystemExit: a script without `if __name__ == "__main__"`
        raise PluginError(f"{doing} failed.\n{describe(error)}") from None


def describe(error: BaseException) -> str:
    """An error as Python prints it, without the frames that are ours or the import system's."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_OURS)]
    lines = [*traceback.format_list(frames), *traceback.format_exception_only(error)]
    return "".join(lines).rstrip().replace(f"{os.sep}.{os.sep}", os.sep)
