"""Values become dataclasses: unions, tuples, groups, files. Experiments and their messages are in ``config/``."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockgate.errors import ConfigError
from lockgate.settings import build, leaves, merge, option, read_yaml


@dataclass(frozen=True)
class Inner:
    share: float = option(0.5, "A share.", gt=0, le=1)


@dataclass(frozen=True)
class Outer:
    warmup: int | Literal["loss"] = option(1, "Epochs, or by the loss.", ge=0)
    pair: tuple[float, float] = option((0.9, 0.99), "Two numbers.", ge=0)
    limit: int | None = option(None, "A number, or none.", ge=1)
    inner: Inner = field(default_factory=Inner)


@pytest.mark.parametrize("value", [0, 7, "loss"])
def test_either_side_of_a_union_is_taken(value: Any) -> None:
    assert build(Outer, {"warmup": value}).warmup == value


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"warmup": "los"}, "'warmup' must be a whole number or one of 'loss'. Got 'los' instead."),
        ({"warmup": True}, "'warmup' must be a whole number or one of 'loss'. Got True instead."),
        ({"warmup": -1}, "'warmup' must be at least 0. Got -1 instead."),
        ({"pair": [1]}, "'pair' must be a list of 2 float. Got [1] instead."),
        ({"pair": [1, "x"]}, "'pair' must be a list of float. Got [1, 'x'] instead."),
        ({"pair": [1, -1]}, "'pair' must be at least 0. Got [1, -1] instead."),
        ({"limit": 0}, "'limit' must be at least 1. Got 0 instead."),
        ({"inner": 3}, "'inner' must be a group of keys. Got 3 instead."),
        ({"inner": {"share": 0}}, "'inner.share' must be greater than 0 and at most 1. Got 0 instead."),
        ({"inner": {"shar": 1}}, "Unknown key 'inner.shar'. Did you mean 'share'?"),
    ],
)
def test_what_does_not_fit_is_named_with_what_was_wanted(values: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build(Outer, values)
    assert caught.value.problems == (problem,)


def test_none_passes_where_it_may_and_bounds_let_it() -> None:
    made = build(Outer, {"limit": None, "pair": [1, 2], "inner": {"share": 1}})
    assert made == Outer(1, (1.0, 2.0), None, Inner(1.0))
    assert [type(value) for value in made.pair] == [float, float]


nested = st.recursive(
    st.dictionaries(st.sampled_from("abc"), st.integers(), max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("abc"), st.one_of(st.integers(), inner), max_size=3),
    max_leaves=8,
)


@given(nested, nested)
def test_merging_keeps_every_leaf_of_the_upper_and_what_it_does_not_hide_of_the_lower(
    base: dict[str, Any], over: dict[str, Any]
) -> None:
    before = repr(base), repr(over)
    merged, upper = dict(leaves(merge(base, over))), dict(leaves(over))
    assert merged.items() >= upper.items()
    for name, value in leaves(base):
        parts = name.split(".")
        above = {".".join(parts[:n]) for n in range(1, len(parts) + 1)}
        hidden = above & upper.keys() or any(other.startswith(f"{name}.") for other in upper)
        if not hidden and name in merged:
            assert merged[name] == value
    assert (repr(base), repr(over)) == before, "neither is changed"


def test_merging_and_leaves_by_hand() -> None:
    base = {"a": 1, "b": {"x": 1, "y": 2}, "c": {"z": 3}}
    assert merge(base, {"b": {"y": 5}, "c": 4, "d": {"w": 6}}) == {
        "a": 1,
        "b": {"x": 1, "y": 5},
        "c": 4,
        "d": {"w": 6},
    }
    assert list(leaves(base)) == [("a", 1), ("b.x", 1), ("b.y", 2), ("c.z", 3)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a: [", "Cannot read .*file.yaml"),
        (b"\xff\xfe\x00", "Cannot read .*file.yaml"),
        (b"- 1", "must hold 'key: value' lines. Got list"),
        (b"", "must hold 'key: value' lines. Got an empty file"),
    ],
)
def test_a_file_that_holds_no_settings_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "file.yaml").write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        read_yaml(tmp_path / "file.yaml")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"Cannot read .*nowhere\.yaml"):
        read_yaml(tmp_path / "nowhere.yaml")
