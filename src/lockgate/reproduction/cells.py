"""What stands in the cells of a table, as text."""

from __future__ import annotations

from collections.abc import Iterable

from lockgate.report import formatting
from lockgate.reproduction.results import COMMIT, Number, ResultRow


def machines(rows: Iterable[ResultRow]) -> list[str]:
    """What the runs behind ``rows`` were made on, each once, its commits together."""
    commits: dict[str, dict[str, None]] = {}
    for machine, _, commit in (made_on.partition(COMMIT) for row in rows for made_on in row.hardware):
        commits.setdefault(machine, {}).update({commit: None} if commit else {})
    return [machine + (COMMIT + ", ".join(found) if found else "") for machine, found in commits.items()]


def ours(number: Number) -> tuple[str, ...]:
    """Our number, and its standard deviation over seeds."""
    if number.mean is None:
        return ("not run",)
    digits = 4 if number.mean < 2 else 3
    spread = (f"± {number.std:.{digits}f}",) if number.std else ()  # none where seeds cannot differ: bytes
    return (f"{number.mean:.{digits}f}", *spread)


def printed(number: Number) -> str:
    """The paper's number."""
    if number.paper is None:
        return formatting.ABSENT
    spread = "" if number.paper_deviation is None else f" ± {number.paper_deviation:.4f}"
    digits = 3 if round(number.paper, 3) == number.paper else 4
    return f"{number.paper:.{digits}f}{spread}"
