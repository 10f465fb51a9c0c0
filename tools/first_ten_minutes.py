"""Types the lines of docs/first_ten_minutes.md, from an empty folder, and says what each printed and took.

    python tools/first_ten_minutes.py FOLDER [CLONE_FROM] > transcript

FOLDER must not be there. The lines are those of the page, word for word, but for the address that is cloned
(CLONE_FROM; else this repository). The first line that fails ends it. What is printed here is what the page shows.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import time
from pathlib import Path

TOP = Path(__file__).parents[1]
PAGE = TOP / "docs" / "first_ten_minutes.md"
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
_FILE = re.compile(r"# (\w+\.py)\n")


def lines(page: str, address: str) -> list[str]:
    """What is typed, in order: the first block, which installs, then every block of commands and of Python."""
    blocks = _BLOCK.findall(page)
    typed = blocks[0][1].replace("git clone URL", f"git clone {address}").splitlines()
    for kind, text in blocks[1:]:
        if kind == "sh":
            typed += text.splitlines()
        elif kind == "python":
            found = _FILE.match(text)
            file = found[1] if found else f"typed_{len(typed)}.py"
            Path(file).write_text(text, encoding="utf-8")
            typed += [] if found else [f"python {file}"]
    return typed


def do(line: str, env: dict[str, str]) -> tuple[float, float]:
    """Type one line; its seconds by the clock and of CPU."""
    print(f"$ {line}", flush=True)
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(line, shell=True, check=True, env=env, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter() - start, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Make the folder, and type."""
    folder, address = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else str(TOP)
    folder.mkdir(parents=True)
    page = PAGE.read_text(encoding="utf-8")
    os.chdir(folder)
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    whole = [0.0, 0.0]
    for line in lines(page, address):
        if line.startswith(". "):  # what activation does
            env["PATH"] = f"{folder.resolve() / 'environment/bin'}{os.pathsep}{env['PATH']}"
            print(f"$ {line}")
            continue
        clock, cpu = do(line, env)
        whole = [whole[0] + clock, whole[1] + cpu]
        print(f"[{clock:.1f} s, {cpu:.1f} s of CPU]\n", flush=True)
    print(f"[all: {whole[0]:.0f} s, {whole[1]:.0f} s of CPU]")


if __name__ == "__main__":
    main()
