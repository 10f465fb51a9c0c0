"""Every field of the configuration has a flag, and a flag means what the same line of YAML would mean."""

from __future__ import annotations

import argparse
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockgate.cli import flags
from lockgate.config import Experiment, build, merge
from lockgate.errors import ConfigError

# For every leaf of the configuration a word for the command line, and the value it must become.
WORDS: dict[str, tuple[str, Any]] = {
    "method": ("joint", "joint"),
    "dataset": ("svhn", "svhn"),
    "backbone": ("mlp", "mlp"),
    "tasks": ("2", 2),
    "epochs": ("7", 7),
    "seed": ("3", 3),
    "devices": ("2", 2),
    "data_dir": ("123", "123"),
    "data.image_size": ("16", 16),
    "data.greyscale": ("true", True),
    "data.resize": ("crop", "crop"),
    "data.background": ("128", 128),
    "data.in_memory": ("0", 0),
    "data.wnids": ("[n01440764, n01443537]", ["n01440764", "n01443537"]),
    "data.class_seed": ("4", 4),
    "data.synthetic_classes": ("6", 6),
    "data.synthetic_per_class": ("50", 50),
    "scenario.class_order": ("random", "random"),
    "scenario.order_seed": ("9", 9),
    "scenario.per_class": ("40", 40),
    "scenario.held_out": ("0.25", 0.25),
    "scenario.kind": ("rotated", "rotated"),
    "scenario.evaluate": ("held_out", "held_out"),
    "model.width": ("16", 16),
    "model.blocks": ("[2, 2, 2, 1]", [2, 2, 2, 1]),
    "model.init": ("torch", "torch"),
    "model.standardise": ("false", False),
    "model.private": ("0.5", 0.5),
    "model.private_depth": ("0.5", 0.5),
    "model.gates": ("true", True),
    "model.weights": ("none", "none"),
    "optim.optimiser": ("sgd", "sgd"),
    "optim.lr": ("5e-4", 0.0005),
    "optim.momentum": ("0.5", 0.5),
    "optim.betas": ("[0.5, 0.9]", [0.5, 0.9]),
    "optim.weight_decay": ("0", 0.0),
    "optim.clip": ("2", 2.0),
    "optim.batch_size": ("64", 64),
    "optim.schedule": ("milestones", "milestones"),
    "optim.milestones": ("[3]", [3]),
    "augment.random_translate": ("2", 2),
    "augment.random_affine": ("0.1", 0.1),
    "augment.random_crop": ("0.5", 0.5),
    "augment.random_flip": ("true", True),
    "augment.brightness": ("0.2", 0.2),
    "augment.contrast": ("0.2", 0.2),
    "augment.saturation": ("1", 1.0),
    "augment.colour_images": ("rehearsed", "rehearsed"),
    "augment.images": ("rehearsed", "rehearsed"),
    "optim.selection": ("last", "last"),
    "runtime.accelerator": ("cpu", "cpu"),
    "runtime.precision": ("bf16-mixed", "bf16-mixed"),
    "runtime.threads": ("1", 1),
    "runtime.checkpoint_seconds": ("1.5", 1.5),
    "runtime.tune_allocator": ("false", False),
    "runtime.loggers": ("[tensorboard]", ["tensorboard"]),
    "runtime.channels_last": ("false", False),
    "runtime.feature_cache": ("features", "features"),
    "eval.images": ("40", 40),
}


def leaves(tree: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(tree, dict):
        return {prefix: tree}
    return {p: v for key, inner in tree.items() for p, v in leaves(inner, f"{prefix}.{key}".lstrip(".")).items()}


def of_run() -> argparse.ArgumentParser:
    """A command that has all flags of the configuration."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    flags.add(parser)
    return parser


def given_by(*words: str) -> dict[str, Any]:
    """What a command line of flags comes to, by the way the command goes."""
    rest, options = flags.take_options(list(words))
    parsed = of_run().parse_args(rest)
    parsed.options = options
    return flags.collect(parsed)


def test_the_table_above_names_every_leaf_of_the_configuration() -> None:
    assert set(WORDS) == set(leaves(Experiment().to_dict()))


@pytest.mark.parametrize("name", WORDS)
@pytest.mark.parametrize("spelling", ["-", "_"])
@pytest.mark.parametrize("joined", [True, False])
def test_each_field_has_a_flag_that_sets_it_and_nothing_else(name: str, spelling: str, joined: bool) -> None:
    word, value = WORDS[name]
    flag = "--" + name.replace("_", spelling)
    nested = given_by(f"{flag}={word}") if joined else given_by(flag, word)
    defaults = leaves(Experiment().to_dict())
    changed = leaves(build(Experiment, merge(Experiment().to_dict(), nested)).to_dict())
    assert {key: v for key, v in changed.items() if v != defaults[key]} == {name: value}


def test_a_class_order_can_be_a_number() -> None:
    given = given_by("--scenario.class_order", "1993")
    assert build(Experiment, given).scenario.class_order == 1993


@pytest.mark.parametrize("word", ["-1", "4294967296", "sorted", "1.5", "true"])
def test_a_class_order_that_is_no_seed_is_refused(word: str) -> None:
    with pytest.raises(ConfigError, match=r"scenario\.class_order"):
        build(Experiment, given_by(f"--scenario.class_order={word}"))


def test_flags_not_given_leave_nothing_behind() -> None:
    assert given_by() == {}
    assert given_by("--seed", "3") == {"seed": 3}


@pytest.mark.parametrize(
    "words",
    [["--options.gate_lr", "3"], ["--options.gate_lr=3"], ["--options.gate-lr", "3"], ["--options.gate-lr=3"]],
)
def test_an_option_of_the_method_can_be_spelt_four_ways(words: list[str]) -> None:
    assert given_by(*words) == {"options": {"gate_lr": 3}}


def test_options_and_flags_may_be_mixed_in_any_order() -> None:
    words = ["--options.sparsity=0.5", "--seed", "1", "--options.seal", "false", "--optim.lr=1e-2"]
    assert given_by(*words) == {"seed": 1, "optim": {"lr": "1e-2"}, "options": {"sparsity": 0.5, "seal": False}}


@given(st.text(min_size=1, max_size=8).filter(lambda text: not text.startswith("-")))
def test_text_stays_the_text_it_is(text: str) -> None:
    assert given_by("--data-dir", text) == {"data_dir": text}


@pytest.mark.parametrize("word", ["123", "null", "true", "1e3", "[a", "2024-01-01", "a: b"])
def test_a_folder_is_never_read_as_yaml(word: str) -> None:
    assert given_by("--data_dir", word) == {"data_dir": word}


def test_unknown_flags_are_all_named_each_with_its_near_match() -> None:
    with pytest.raises(ConfigError) as caught:
        flags.refuse(["--optim.learning", "3", "--sed=4"], of_run())
    first, second = caught.value.problems
    assert first.startswith("Unknown flag '--optim.learning'. Did you mean '--optim.")
    assert second.startswith("Unknown flag '--sed'. Did you mean '--seed'")


def test_a_stray_word_is_refused() -> None:
    with pytest.raises(ConfigError, match="'stray'"):
        flags.refuse(["stray"], of_run())


@pytest.mark.parametrize("words", [["--optim.milestones", "[100, 150"], ["--tasks", "@5"], ["--options.sparsity", "{"]])
def test_a_flag_that_is_no_yaml_is_a_problem_that_names_the_flag(words: list[str]) -> None:
    with pytest.raises(ConfigError, match=words[0].removeprefix("--")):
        given_by(*words)
