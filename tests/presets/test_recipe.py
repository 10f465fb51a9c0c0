"""One recipe for each network: what a task's size and its images' side make of it, by hand; names make nothing."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest

from lockgate.app.experiment_file import over_preset
from lockgate.config import DataConfig, Experiment, ScenarioConfig
from lockgate.data import DATASETS, Arrays, Dataset
from lockgate.data.size import MIDDLE, TaskSize, size_of, task_size
from lockgate.methods import METHODS
from lockgate.presets import recipe, short
from lockgate.runs.build import build_scenario, experiment_from

SMALL, LARGE = DataConfig(synthetic_per_class=20), DataConfig(synthetic_per_class=3000)


def made(**given: object) -> Experiment:
    return experiment_from(over_preset({"preset": "short", **given}))


def as_large_as_mnist(data_dir: Path | None, config: DataConfig) -> Dataset:
    one = np.zeros(1, np.uint8)
    x = np.broadcast_to(one, (60_000, 1, 28, 28))
    train = Arrays(x, np.arange(60_000, dtype=np.int64) % 10)
    return Dataset("whatever", tuple("abcdefghij"), train, train)


def another_as_large(data_dir: Path | None, config: DataConfig) -> Dataset:
    return as_large_as_mnist(data_dir, config)


def broken(data_dir: Path | None, config: DataConfig) -> Dataset:
    raise RuntimeError("no such thing")


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name under which this module's data sets are plugged in."""
    monkeypatch.setitem(sys.modules, "somebody", sys.modules[__name__])
    return "somebody"


@pytest.mark.parametrize("method", METHODS)
def test_no_setting_depends_on_the_name_of_a_data_set(method: str, outside: str) -> None:
    ours = made(method=method, dataset="mnist")
    for name in ("as_large_as_mnist", "another_as_large"):
        theirs = made(method=method, dataset=f"{outside}:{name}")
        assert dataclasses.replace(theirs, dataset="mnist") == ours


def test_only_the_network_is_the_papers_choice_by_data_set() -> None:
    networks = {name: short("ccgn", name).backbone for name in DATASETS}
    photos = {"cifar10", "cifar100", "imagenet50", "tiny_imagenet"}
    assert networks == {name: "resnet18" if name in photos else "simple_cnn" for name in DATASETS}
    by_hand = made(dataset="svhn", backbone="resnet18")  # which has as many pixels, and as large a task, by the rules
    assert dataclasses.replace(by_hand, dataset="cifar10") == made(dataset="cifar10")


def test_a_network_that_the_user_names_has_its_own_recipe() -> None:
    for dataset in ("mnist", "cifar10"):
        assert (made(dataset=dataset, backbone="resnet18").model.width, made(dataset=dataset).tasks) == (16, 5)
        plain = made(dataset=dataset, backbone="simple_cnn")
        assert (plain.model.width, plain.augment.random_flip, plain.options["open_bias"]) == (0, False, 1.5)
    mlp, cnn = (short("ccgn", "mnist", {"backbone": name}, chosen=False) for name in ("mlp", "simple_cnn"))
    assert dataclasses.replace(mlp, backbone="simple_cnn") == cnn, "the default recipe is that of simple_cnn"


@pytest.mark.parametrize(
    ("images", "batch", "epochs"),
    # 600 steps of whole batches: 15 // 16 -> 1 a epoch, at most 40; 900 // 16 = 56 -> 10.7; 1000 // 32 = 31 -> 19.4;
    # 2999 // 32 = 93 -> 6.5, but at least 8; 4000 // 64 = 62 -> 9.7; from 75 steps an epoch on 8.
    [(15, 16, 40), (900, 16, 11), (1000, 32, 20), (2999, 32, 8), (4000, 64, 10), (4800, 64, 8), (90_000, 64, 8)],
)
@pytest.mark.parametrize("method", ["finetune", "ccgn", "cgen", "dgm", "ccgn-generative"])
def test_the_schedule_follows_the_training_images_of_a_task(method: str, images: int, batch: int, epochs: int) -> None:
    task = TaskSize(images, 28)
    for backbone, fewest in (("simple_cnn", 8), ("resnet18", 12)):
        found = short(method, "mnist", {"backbone": backbone}, task)
        assert (found.optim.batch_size, found.epochs) == (batch, max(fewest, epochs))


@pytest.mark.parametrize(
    ("side", "translate", "affine"),
    [(8, 0, 0.15), (15, 1, 0.15), (16, 1, 0.15), (28, 2, 0.15), (32, 2, 0.15), (64, 4, 0.15)],
)
@pytest.mark.parametrize("method", METHODS)
def test_images_vary_by_their_side_for_every_method_alike(
    method: str, side: int, translate: int, affine: float
) -> None:
    for backbone in ("simple_cnn", "resnet18", "mlp"):
        found = short(method, "mnist", {"backbone": backbone}, TaskSize(100, side)).augment
        assert (found.random_translate, found.random_affine) == (translate, affine)
        assert (found.random_flip, found.images) == (backbone == "resnet18", "all")


def test_what_makes_tasks_smaller_or_larger_moves_the_schedule() -> None:
    # 6,000 images a class of which 600 are held out; two classes a task.
    assert (made(dataset="mnist").epochs, made(dataset="mnist").optim.batch_size) == (8, 64)
    some = made(dataset="mnist", scenario={"per_class": 300})  # 2 * 270 = 540: 33 steps of 16
    assert (some.epochs, some.optim.batch_size) == (19, 16)
    more_held = made(dataset="mnist", scenario={"per_class": 300, "held_out": 0.5})  # 2 * 150 = 300: 18 steps
    assert (more_held.epochs, more_held.optim.batch_size) == (34, 16)
    fewer_tasks = made(dataset="mnist", scenario={"per_class": 300}, tasks=1)  # 10 * 270 = 2,700: 84 steps of 32
    assert (fewer_tasks.epochs, fewer_tasks.optim.batch_size) == (8, 32)
    domains = made(dataset="mnist", scenario={"per_class": 300, "kind": "permuted"})  # all classes in every task
    assert (domains.epochs, domains.optim.batch_size) == (8, 32)


def test_what_the_user_sets_wins_and_epochs_follow_the_users_batch() -> None:
    assert made(dataset="mnist", epochs=3).epochs == 3
    batch = made(dataset="mnist", optim={"batch_size": 256})  # 10,800 // 256 = 42 -> 23.8
    assert (batch.epochs, batch.optim.batch_size) == (15, 256)
    both = made(dataset="mnist", optim={"batch_size": 256}, epochs=2, augment={"random_affine": 0.3})
    assert (both.epochs, both.optim.batch_size) == (2, 256)
    assert (both.augment.random_affine, both.augment.random_translate) == (0.3, 2)
    assert made(options={"sparsity": 9}).options["sparsity"] == 9


@pytest.mark.parametrize("dataset", [*DATASETS, "somebody:as_large_as_mnist"])
@pytest.mark.parametrize("given", [{}, {"tasks": 2, "scenario": {"per_class": 40}}])
def test_generators_have_one_budget_and_all_methods_one_schedule_one_width_and_no_growth(
    dataset: str, given: dict[str, object], outside: str
) -> None:
    every = {method: made(method=method, dataset=dataset, **given) for method in METHODS}
    shared = {(e.epochs, e.optim.batch_size, e.augment, e.model, e.backbone) for e in every.values()}
    assert len(shared) == 1
    gans = [every[method].options["gan"] for method in ("ccgn-generative", "cgen", "dgm")]
    chosen = ("lr", "average")  # which a selection may choose; without one they are the same too
    budgets = [{name: value for name, value in gan.items() if name not in chosen} for gan in gans]
    assert budgets[0] == budgets[1] == budgets[2]
    bare = [short(method, dataset, chosen=False).options["gan"] for method in ("ccgn-generative", "cgen", "dgm")]
    assert bare[0] == bare[1] == bare[2]
    assert {e.options["grow"] for e in every.values() if "grow" in e.options} == {0.0}


def test_the_size_that_is_declared_is_the_one_that_is_read(tmp_path: Path) -> None:
    for name, config in (("digits", DataConfig()), ("synthetic", SMALL), ("synthetic", LARGE)):
        found = DATASETS[name](None, config).train
        size = size_of(name, None, config)
        assert size.images_per_class == round(len(found.y) / size.classes)
        assert size.classes == len(set(found.y.tolist()))
        assert (size.channels, size.side, size.side) == found.x.shape[1:]


@pytest.mark.parametrize("name", DATASETS)
def test_every_data_set_of_ours_has_a_size_without_files(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOCKGATE_DATA", raising=False)
    size = size_of(name, None, DataConfig())
    assert (size == MIDDLE) == (name == "folder")
    assert min(dataclasses.astuple(size)) > 0


def test_a_folder_is_counted_and_not_opened(tmp_path: Path) -> None:
    for name, count in (("cat", 30), ("dog", 50)):
        (tmp_path / "train" / name).mkdir(parents=True)
        for i in range(count):
            (tmp_path / "train" / name / f"{i}.png").write_text("not an image")
    size = size_of("folder", str(tmp_path), DataConfig(image_size=64, greyscale=True))
    assert dataclasses.astuple(size) == (40, 2, 64, 1)
    found = made(dataset="folder", data_dir=str(tmp_path), data={"image_size": 64}, tasks=1)  # 2 * 36 = 72: 4 steps
    assert (found.epochs, found.augment.random_translate) == (40, 4)


def test_what_cannot_be_read_has_a_middle_size_and_the_run_says_why(outside: str, tmp_path: Path) -> None:
    assert size_of(f"{outside}:broken", None, DataConfig()) == MIDDLE
    assert size_of("folder", str(tmp_path / "nowhere"), DataConfig()) == MIDDLE
    experiment = made(dataset=f"{outside}:broken")
    with pytest.raises(Exception, match="no such thing"):
        build_scenario(experiment)


@pytest.mark.parametrize("kind", ["classes", "permuted"])
@pytest.mark.parametrize("per_class", [0, 13])
def test_the_size_of_a_task_is_what_the_split_gives_it(kind: str, per_class: int) -> None:
    scenario = {"per_class": per_class, "held_out": 0.25, "kind": kind}
    experiment = experiment_from({"dataset": "synthetic", "data": {"synthetic_per_class": 30}, "scenario": scenario})
    size = size_of("synthetic", None, experiment.data)
    split = build_scenario(experiment)
    assert split.task_size == task_size(size, 5, experiment.scenario)
    assert split.task_size.images == len(split.tasks[0].train)
    assert task_size(size, 3, ScenarioConfig(held_out=0.25)).images == 3 * (30 - round(0.25 * 30))


@pytest.mark.parametrize("wrong", [{"optim": {"batch_size": "many"}}, {"optim": 3}, {"tasks": -1}, {"scenario": None}])
def test_nonsense_of_the_user_is_left_to_be_listed_with_all_else(wrong: dict[str, object]) -> None:
    assert short("ccgn", "mnist", wrong).epochs >= 8


def test_rules_can_be_read_and_are_all_there() -> None:
    for file in (recipe.FOLDER / "short").glob("*.yaml"):
        settings = recipe.read(file)
        assert list(settings)[:3] == ["schedule", "augment", "all"]
        assert set(settings["schedule"]) == {"batch_size", "steps", "epochs"}
        assert set(settings["augment"]) == {"translate", "affine", "flip"}
