"""All settings of an experiment as Markdown tables, from the sentences that stand beside its fields."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from lockgate.config import Experiment


def tables() -> str:
    """A table for the experiment itself, and one for each of its groups."""
    groups: dict[str, tuple[str, object]] = {"": ("Experiment", Experiment())}
    for field in dataclasses.fields(Experiment):
        value = getattr(Experiment(), field.name)
        if dataclasses.is_dataclass(value):
            groups[f"{field.name}."] = (f"`{field.name}`: {_sentence(value)}", value)
    return "\n\n".join("\n".join(_table(prefix, *group)) for prefix, group in groups.items())


def _sentence(group: object) -> str:
    first = (group.__doc__ or "").splitlines()[0].rstrip(".")
    return first[:1].lower() + first[1:]


def _table(prefix: str, title: str, group: Any) -> Iterator[str]:
    yield from (f"### {title}", "", "| setting | default | meaning |", "|---|---|---|")
    for field in dataclasses.fields(group):
        if said := field.metadata.get("help"):
            yield f"| `{prefix}{field.name}` | {_shown(getattr(group, field.name))} | {said} |"


def _shown(value: object) -> str:
    if value is None or value in ("", ()):
        return ""
    return str(value).lower() if isinstance(value, bool) else str(list(value) if isinstance(value, tuple) else value)
