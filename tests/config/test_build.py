"""A configuration is checked whole: every problem is listed, and what passes comes through unchanged."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from lockgate.config import (
    DataConfig,
    Experiment,
    ModelConfig,
    OptimConfig,
    RuntimeConfig,
    ScenarioConfig,
    build,
    gather,
    merge,
    read_yaml,
)
from lockgate.errors import ConfigError


def problems_of(values: dict[str, Any]) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        build(Experiment, values)
    return caught.value.problems


def nested(path: str, value: Any) -> dict[str, Any]:
    for key in reversed(path.split(".")):
        value = {key: value}
    return value


# A key, a value it cannot have, and what the message must say of it.
FAULTS: list[tuple[str, Any, str]] = [
    ("tsks", 3, "Unknown key 'tsks'. Did you mean 'tasks'?"),
    ("optim.momentun", 0.9, "Unknown key 'optim.momentun'. Did you mean 'momentum'?"),
    ("tasks", 0, "'tasks' must be at least 1. Got 0 instead."),
    ("epochs", "many", "'epochs' must be a whole number. Got 'many' instead."),
    ("seed", True, "'seed' must be a whole number. Got True instead."),
    ("devices", 1.5, "'devices' must be a whole number. Got 1.5 instead."),
    ("method", 3, "'method' must be text. Got 3 instead."),
    ("data_dir", 7, "'data_dir' must be text. Got 7 instead."),
    ("options", [1], "'options' must be a group of keys. Got [1] instead."),
    ("runtime", None, "'runtime' must be a group of keys. Got None instead."),
    ("data.greyscale", "yes", "'data.greyscale' must be true or false. Got 'yes' instead."),
    ("data.wnids", "n01440764", "'data.wnids' must be a list of str. Got 'n01440764' instead."),
    ("model.blocks", [2, "x"], "'model.blocks' must be a list of int. Got [2, 'x'] instead."),
    ("optim.optimiser", "sgdd", "'optim.optimiser' must be one of 'sgd', 'adamw'. Got 'sgdd' instead."),
    ("optim.lr", -1, "'optim.lr' must be greater than 0. Got -1 instead."),
    ("optim.weight_decay", "a little", "'optim.weight_decay' must be a number. Got 'a little' instead."),
    ("optim.clip", False, "'optim.clip' must be a number. Got False instead."),
    ("scenario.held_out", 0.9, "'scenario.held_out' must be greater than 0 and less than 0.9. Got 0.9 instead."),
]


@settings(deadline=None, max_examples=60)
@given(st.lists(st.sampled_from(FAULTS), min_size=1, unique_by=lambda fault: fault[0]))
def test_every_problem_is_listed_and_nothing_else(faults: list[tuple[str, Any, str]]) -> None:
    values: dict[str, Any] = {}
    for path, value, _ in faults:
        values = merge(values, nested(path, value))
    assert sorted(problems_of(values)) == sorted(message for _, _, message in faults)


def test_one_message_holds_all_problems_and_their_number() -> None:
    values: dict[str, Any] = {}
    for path, value, _ in FAULTS:
        values = merge(values, nested(path, value))
    with pytest.raises(ConfigError) as caught:
        build(Experiment, values)
    text = str(caught.value)
    assert f"{len(FAULTS)} problems" in text
    assert all(message in text for _, _, message in FAULTS)


def test_a_single_problem_is_counted_in_the_singular() -> None:
    with pytest.raises(ConfigError, match="has 1 problem:"):
        build(Experiment, {"tasks": 0})


def test_gather_goes_on_after_a_problem_and_bad_fields_keep_their_defaults() -> None:
    problems = ["an earlier problem"]
    made = gather(OptimConfig, {"lr": -1, "momentum": 0.5, "nope": 1}, "optim.", problems)
    assert made == OptimConfig(momentum=0.5)
    assert len(problems) == 3
    assert problems[0] == "an earlier problem"
    assert "'optim.lr'" in problems[1]
    assert "'optim.nope'" in problems[2]


def test_a_key_like_no_other_gets_no_suggestion() -> None:
    assert problems_of({"zzzzzz": 1}) == ("Unknown key 'zzzzzz'.",)


@pytest.mark.parametrize(
    ("path", "accepted", "refused"),
    [
        ("tasks", [1, 2, 10**9], [0, -1]),
        ("seed", [0, 2**70], [-1]),
        ("data.image_size", [4], [3]),
        ("data.synthetic_classes", [2], [1]),
        ("data.synthetic_per_class", [5], [4]),
        ("scenario.per_class", [0, 1], [-1]),
        ("scenario.held_out", [1e-9, 0.5, 0.899], [0, -0.1, 0.9, 1, float("nan")]),
        ("optim.lr", [1e-12, 1], [0, -1e-12, float("nan")]),
        ("optim.momentum", [0, 0.999], [1, -0.1]),
        ("optim.clip", [0, 5], [-1e-3]),
        ("runtime.checkpoint_seconds", [0, float("inf")], [-1]),
    ],
)
def test_bounds_are_where_the_documentation_says(path: str, accepted: list[float], refused: list[float]) -> None:
    for value in accepted:
        made: Any = build(Experiment, nested(path, value)).to_dict()
        for key in path.split("."):
            made = made[key]
        assert made == value
    for value in refused:
        (problem,) = problems_of(nested(path, value))
        assert problem.startswith(f"'{path}' must be ")
        assert problem.endswith(f"Got {value!r} instead.")


@given(st.floats(min_value=1e-300, max_value=1e300))
def test_a_float_written_as_text_is_the_same_float(value: float) -> None:
    assert build(OptimConfig, {"lr": repr(value)}).lr == value


def test_yaml_reads_5e_4_as_text_and_the_config_as_a_number() -> None:
    values = yaml.safe_load("weight_decay: 5e-4")
    assert values == {"weight_decay": "5e-4"}, "the reason for this test"
    assert build(OptimConfig, values).weight_decay == 0.0005


def test_a_whole_number_becomes_a_float_where_a_float_is_wanted() -> None:
    made = build(OptimConfig, {"lr": 1})
    assert made.lr == 1.0
    assert type(made.lr) is float


def test_lists_become_tuples_and_empty_lists_stay_empty() -> None:
    made = build(Experiment, {"model": {"blocks": [2, 2, 2, 1]}, "data": {"wnids": []}})
    assert made.model.blocks == (2, 2, 2, 1)
    assert made.data.wnids == ()


@pytest.mark.parametrize("value", [None, "", "/data", "123"])
def test_an_optional_field_takes_nothing_or_its_type(value: str | None) -> None:
    assert build(Experiment, {"data_dir": value}).data_dir == value


def test_no_values_at_all_give_the_defaults() -> None:
    assert build(Experiment, {}) == Experiment()


def test_a_number_too_large_for_a_float_is_a_problem_like_any_other() -> None:
    assert len(problems_of({"optim": {"lr": 10**400}})) == 1


# -- round trip ------------------------------------------------------------------------------------------------------

positive = st.floats(min_value=1e-12, max_value=1e12)
whole = st.integers(min_value=1, max_value=10**9)
experiments = st.builds(
    Experiment,
    method=st.text(max_size=8),
    dataset=st.sampled_from(["digits", "on", "null", "1e3", "0x10"]),
    tasks=whole,
    seed=st.integers(min_value=0),
    data_dir=st.none() | st.text(max_size=8),
    data=st.builds(DataConfig, wnids=st.lists(st.text(max_size=4), max_size=3).map(tuple), greyscale=st.booleans()),
    scenario=st.builds(
        ScenarioConfig, class_order=st.sampled_from(["consecutive", "random"]), held_out=st.floats(0.01, 0.89)
    ),
    model=st.builds(ModelConfig, blocks=st.lists(whole, max_size=4).map(tuple)),
    optim=st.builds(OptimConfig, lr=positive, weight_decay=positive, milestones=st.lists(whole).map(tuple)),
    runtime=st.builds(RuntimeConfig, checkpoint_seconds=positive),
    options=st.dictionaries(st.sampled_from(["a", "b"]), whole | positive | st.booleans() | st.none()),
)


@settings(deadline=None, max_examples=60)
@given(experiments)
def test_an_experiment_survives_the_way_through_yaml(experiment: Experiment) -> None:
    text = yaml.safe_dump(experiment.to_dict(), sort_keys=False)
    assert build(Experiment, yaml.safe_load(text)) == experiment


# -- merge -----------------------------------------------------------------------------------------------------------

keys = st.sampled_from(["a", "b", "c"])
trees = st.recursive(
    st.integers() | st.none() | st.lists(st.integers(), max_size=2),
    lambda inner: st.dictionaries(keys, inner, min_size=1, max_size=3),
    max_leaves=8,
)
mappings = st.dictionaries(keys, trees, max_size=3)


def leaves(tree: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    if not isinstance(tree, dict):
        return {path: tree}
    return {p: leaf for key, inner in tree.items() for p, leaf in leaves(inner, (*path, key)).items()}


def on_one_way(p: tuple[str, ...], q: tuple[str, ...]) -> bool:
    shorter = min(len(p), len(q))
    return p[:shorter] == q[:shorter]


@settings(deadline=None)
@given(mappings, mappings)
def test_merge_keeps_each_leaf_of_over_and_each_leaf_of_base_not_in_its_way(
    base: dict[str, Any], over: dict[str, Any]
) -> None:
    before = copy.deepcopy((base, over))
    new = leaves(over)
    kept = {p: leaf for p, leaf in leaves(base).items() if not any(on_one_way(p, q) for q in new)}
    assert leaves(merge(base, over)) == kept | new
    assert (base, over) == before, "merge must not change what it is given"


@given(mappings)
def test_merging_with_nothing_or_with_itself_changes_nothing(tree: dict[str, Any]) -> None:
    assert merge(tree, {}) == tree
    assert merge({}, tree) == tree
    assert merge(tree, tree) == tree


# -- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"- a\n- b\n", "Got list instead"),
        (b"", "Got an empty file instead"),
        (b"a: [1, 2\n", "Cannot read"),
        (b"\xff\xfe\xfa: 1\n", "Cannot read"),
        (b"a: !!python/object/apply:os.getcwd []\n", "Cannot read"),
    ],
)
def test_a_file_that_is_no_mapping_is_refused_by_name(tmp_path: Path, content: bytes, says: str) -> None:
    file = tmp_path / "odd.yaml"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=says) as caught:
        read_yaml(file)
    assert str(file) in str(caught.value)


def test_a_missing_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.yaml"):
        read_yaml(tmp_path / "missing.yaml")


@pytest.mark.parametrize(
    ("given", "wanted"), [([0.5], "a list of 2 float"), ([0.5, 1.5], "at least 0 and less than 1"), (0.5, "a list of")]
)
def test_a_pair_has_two_items_each_within_bounds(given, wanted) -> None:
    with pytest.raises(ConfigError, match=wanted):
        build(OptimConfig, {"betas": given})
    assert build(OptimConfig, {"betas": [0.5, 0.9]}).betas == (0.5, 0.9)
