"""`run`, `resume` and `list`: preset, then file, then flags; mistakes answered with the way out."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from lockgate.backbones import BACKBONES
from lockgate.config import AugmentConfig
from lockgate.data import DATASETS
from lockgate.memory.gan.options import GanOptions
from lockgate.methods import METHODS
from lockgate.presets import PRESETS

Command = Callable[..., tuple[int, str, str]]


def config_of(command: Command, *words: object) -> dict[str, Any]:
    code, out, err = command("run", *words, "--print_config")
    assert (code, err) == (0, "")
    made: dict[str, Any] = yaml.safe_load(out)
    return made


def write(path: Path, values: dict[str, Any]) -> Path:
    path.write_text(yaml.safe_dump(values))
    return path


def test_list_shows_every_name_with_its_sentence(command: Command) -> None:
    code, out, _ = command("list")
    assert code == 0
    for kind, registry in (
        ("methods", METHODS),
        ("datasets", DATASETS),
        ("backbones", BACKBONES),
        ("presets", PRESETS),
    ):
        assert f"{kind}:\n" in out
        _, alone, _ = command("list", kind)
        assert alone in out
        lines = alone.splitlines()
        assert lines[0] == f"{kind}:"
        named = [line.split(maxsplit=1) for line in lines[1:] if not line.startswith("   ")]  # those are of a preset
        assert named == [[name, registry.summary(name)] for name in registry]


def options_of(options: Any) -> dict[str, str]:
    """The help of every option by its name; those of a group are dotted."""
    found = {}
    for field in dataclasses.fields(options):
        group = field.default_factory if dataclasses.is_dataclass(field.default_factory) else None
        inner = {"": field.metadata.get("help", "")} if group is None else options_of(group)
        found |= {f"{field.name}.{name}".rstrip("."): text for name, text in inner.items()}
    return found


@pytest.mark.parametrize("method", list(METHODS))
def test_list_explains_every_option_of_a_method(command: Command, method: str) -> None:
    code, out, _ = command("list", method)
    assert code == 0
    fields = [field for field in dataclasses.fields(METHODS[method].Options) if field.name != "gan"]
    gan = dataclasses.fields(GanOptions) if hasattr(METHODS[method].Options(), "gan") else ()
    assert out.count("--options.") == len(fields) + len(gan)
    for prefix, group in (("", fields), ("gan.", gan)):
        for field in group:
            assert f"--options.{prefix}{field.name} " in out
            assert field.metadata["help"].split()[-1] in out


def test_list_of_what_there_is_not_names_what_there_is(command: Command) -> None:
    code, _, err = command("list", "cgn")
    assert code == 2
    assert "ccgn" in err


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["paper", "--dataset=svhn", "--method=joint"],
        ["--data-dir=123", "--optim.lr=5e-4", "--model.blocks=[2, 2]", "--options.sparsity=0.5"],
    ],
)
def test_a_printed_config_fed_back_is_the_same_config(command: Command, tmp_path: Path, words: list[str]) -> None:
    _, printed, _ = command("run", *words, "--print_config")
    (tmp_path / "again.yaml").write_text(printed)
    assert command("run", tmp_path / "again.yaml", "--print_config") == (0, printed, "")


def test_printing_a_config_makes_no_folder(command: Command, tmp_path: Path) -> None:
    config_of(command, "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_flags_override_the_file_and_the_file_overrides_its_preset(command: Command, tmp_path: Path) -> None:
    values = {"preset": "paper", "dataset": "svhn", "epochs": 3, "optim": {"lr": 0.5, "clip": 2}}
    file = write(tmp_path / "a.yml", values)
    made = config_of(command, file, "--optim.lr=0.25", "--options.sparsity_warmup", "4")
    assert made["optim"]["lr"] == 0.25  # flag over file
    assert made["optim"]["clip"] == 2.0  # file over preset
    assert made["epochs"] == 3
    assert made["optim"]["batch_size"] == 256  # the preset's
    assert made["optim"]["milestones"] == [400, 600]
    assert made["options"]["sparsity_warmup"] == 4
    assert made["options"]["sparsity"] == 0.5


def test_a_preset_fits_itself_to_the_method_and_data_set_of_the_flags(command: Command) -> None:
    made = config_of(command, "paper", "--dataset=cifar10", "--method=finetune")
    assert (made["backbone"], made["epochs"], made["options"]) == ("resnet18", 200, {})
    assert config_of(command, "paper", "--dataset", "mnist")["options"]["sparsity_warmup"] == 20


def test_the_short_preset_is_the_default_also_for_a_file_that_names_none(command: Command, tmp_path: Path) -> None:
    file = write(tmp_path / "b.yaml", {"seed": 4})
    assert config_of(command) == config_of(command, "short")
    assert config_of(command, file) == config_of(command, "short", "--seed=4")


def test_a_yaml_file_is_run_as_it_says(command: Command, tmp_path: Path, tiny_flags: list[str]) -> None:
    values = config_of(command, *tiny_flags, "--method=finetune", "--seed=9")
    code, out, _ = command("run", write(tmp_path / "c.yaml", values), "--out", tmp_path / "run")
    assert code == 0
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert (summary["method"], summary["seed"]) == ("finetune", 9)
    assert yaml.safe_load((tmp_path / "run" / "config.yaml").read_text()) == values
    assert str(tmp_path / "run") in out


def test_a_run_goes_to_a_folder_named_after_it_unless_out_says_otherwise(
    command: Command, tmp_path: Path, tiny_flags: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = command("run", *tiny_flags, "--method=joint", "--seed=2")
    assert code == 0, err
    assert (tmp_path / "runs" / "joint-synthetic-seed2" / "summary.json").is_file()


def test_mistakes_of_every_kind_are_listed_in_one_message(command: Command) -> None:
    code, out, err = command("run", "--method=ccng", "--dataset=digts", "--tasks=0", "--optim.lr=fast")
    assert (code, out) == (2, "")
    assert err.startswith("lockgate: The configuration has 4 problems:")
    assert "Unknown method 'ccng'. Did you mean 'ccgn' or 'cgen'?" in err
    assert "Unknown data set 'digts'. Did you mean 'digits'?" in err
    assert "'tasks' must be at least 1. Got 0 instead." in err
    assert "'optim.lr' must be a number. Got 'fast' instead." in err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--optim.lrr", "3"], "Unknown flag '--optim.lrr'. Did you mean '--optim.lr'"),
        (["--options.sparsty=3"], "Unknown key 'options.sparsty'. Did you mean 'sparsity'"),
        (["papr"], "Unknown preset 'papr'. Did you mean 'paper'? Known: short, paper, printed."),
        (["paper"], "The preset 'paper' has no schedule for 'digits'"),
        (["missing.yaml"], "Cannot read missing.yaml"),
        (["--backbone=resnet"], "Unknown backbone 'resnet'. Did you mean 'resnet18'"),
        (["--tasks=3"], "use one of 1, 2, 5, 10"),
    ],
)
def test_what_was_asked_wrongly_exits_with_2_and_says_what_to_do(
    command: Command, tmp_path: Path, words: list[str], says: str
) -> None:
    code, out, err = command("run", *words, "--out", tmp_path / "run")
    assert (code, out) == (2, "")
    assert err.startswith("lockgate: ")
    assert says in err
    assert not (tmp_path / "run").exists()


def test_flags_are_not_abbreviated(command: Command) -> None:
    code, _, err = command("run", "--see", "3", "--print_config")
    assert code == 2
    assert "Unknown flag '--see'. Did you mean '--seed'" in err


def test_a_used_folder_and_a_diverging_run_exit_with_1(
    command: Command, tmp_path: Path, finetune: Path, tiny_flags: list[str]
) -> None:
    code, _, err = command("run", *tiny_flags, "--method=finetune", "--out", finetune)
    assert code == 1
    assert "already holds this experiment" in err
    code, _, err = command("run", *tiny_flags, "--optim.lr=1e30", "--optim.clip=0", "--out", tmp_path / "diverging")
    assert code == 1
    assert "not finite" in err
    assert "Traceback" not in err


def test_a_stopped_run_is_resumed_to_the_same_table(command: Command, finetune: Path) -> None:
    summary = json.loads((finetune / "summary.json").read_text())
    shutil.rmtree(finetune / "checkpoints" / "000006-task")
    (finetune / "summary.json").unlink()
    code, out, err = command("resume", finetune)
    assert code == 0, err
    again = json.loads((finetune / "summary.json").read_text())
    assert again["task_incremental"] == summary["task_incremental"]
    assert str(finetune) in out


def test_a_damaged_checkpoint_is_resumed_only_with_previous(command: Command, finetune: Path) -> None:
    damaged = finetune / "checkpoints" / "000006-task" / "learner.safetensors"
    good = damaged.read_bytes()
    damaged.write_bytes(good[:-1])
    code, _, err = command("resume", finetune)
    assert code == 1
    assert str(damaged) in err
    assert "--previous" in err
    assert command("resume", finetune, "--previous")[0] == 0
    assert (finetune / "checkpoints" / "000007-task" / "learner.safetensors").read_bytes() == good


def test_the_command_is_kept_beside_the_numbers(finetune: Path, tiny_flags: list[str]) -> None:
    kept = json.loads((finetune / "summary.json").read_text())["command"]
    assert kept.startswith("lockgate run ")
    assert all(flag in kept for flag in [*tiny_flags, "--method=finetune"])


@pytest.mark.parametrize("verb", ["resume", "evaluate", "audit", "report"])
def test_an_option_is_refused_where_it_would_do_nothing(command: Command, ccgn: Path, verb: str) -> None:
    code, _, err = command(verb, ccgn, "--options.sparsity=9")
    assert code == 2
    assert "--options.sparsity" in err


@pytest.mark.parametrize("preset", [3, ["short"]])
def test_a_preset_that_is_no_text_is_a_problem_like_any_other(command: Command, tmp_path: Path, preset: Any) -> None:
    code, _, err = command("run", write(tmp_path / "odd.yaml", {"preset": preset}), "--print_config")
    assert code == 2
    assert "preset" in err


@pytest.mark.parametrize("accelerator", ["gpx", "mps" if torch.cuda.is_available() else "cuda"])
def test_a_device_that_is_not_there_is_refused_before_a_folder_is_made(
    command: Command, tmp_path: Path, tiny_flags: list[str], accelerator: str
) -> None:
    code, _, err = command("run", *tiny_flags, f"--runtime.accelerator={accelerator}", "--out", tmp_path / "run")
    assert code == 2
    assert f"'runtime.accelerator' '{accelerator}'" in err
    assert not (tmp_path / "run").exists()


def test_a_yaml_file_of_0_1_is_read_in_todays_words(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "old.yaml"
    file.write_text("recipe: paper\nmethod: ccgn-episodic\ndataset: mnist\noptions: {patience: 3, shift: 2}\n")
    made = config_of(command, file)
    assert made["epochs"] == 400
    assert made["options"]["sparsity_warmup"] == 3
    moved = {"random_translate": 2, "random_affine": 0.0, "random_flip": False, "images": "rehearsed"}
    assert made["augment"] == {**dataclasses.asdict(AugmentConfig()), **moved}
