"""The frozen beginning of a network is computed once an image; a damaged, cut-off or full file loses nothing."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
import torch
from tests.support import tiny
from tests.support.networks import Concatenated, Shared
from torch import nn

from lockgate import make_method
from lockgate.backbones import feature_cache
from lockgate.backbones.feature_cache import FeatureCache
from lockgate.backbones.foreign import gate
from lockgate.runs.run import run
from lockgate.testing.observing import last_state

X = torch.rand(4, 3, 16, 16, generator=torch.Generator().manual_seed(0))


def begun(folder, kind=Concatenated, depth=0.34):
    torch.manual_seed(0)
    backbone = gate(kind(), X, depth=depth)
    backbone.add_task()
    kept = backbone.keep_prefix(folder)
    return backbone.train(), kept


def computed(backbone):
    """How many images go through the first convolution."""
    counts = []
    first = next(m for m in backbone.module.modules() if isinstance(m, nn.Conv2d))
    real = first._conv_forward
    first._conv_forward = lambda x, *rest: counts.append(len(x)) or real(x, *rest)
    return counts


class ChannelsLast(Concatenated):
    """The same on maps that lie otherwise in memory."""

    def forward(self, x):
        return super().forward(x.contiguous(memory_format=torch.channels_last))


@pytest.mark.parametrize(("kind", "depth"), [(Concatenated, 0.34), (Shared, 0.4), (ChannelsLast, 0.34)])
def test_the_stream_is_the_same_and_its_beginning_is_computed_once_an_image(kind, depth, tmp_path):
    plain, _ = begun(tmp_path / "none", kind, depth)
    plain.cache = None
    backbone, kept = begun(tmp_path / "kept", kind, depth)
    assert kept
    counts = computed(backbone)
    with torch.no_grad():
        wanted = torch.cat([plain.eval()(x, 0).features for x in X.split(1)])
        backbone.train()
        for norm in backbone.norms(0):
            norm.eval()  # by running statistics, as above
        for _ in range(3):
            torch.testing.assert_close(backbone(X, 0).features, wanted, rtol=0, atol=1e-6)
    assert counts == [1, 1, 1, 1]
    again, _ = begun(tmp_path / "kept", kind, depth)  # another process
    counts = computed(again)
    again(X, 0)
    assert counts == []


@pytest.mark.parametrize("depth", [0.25, 0.5])
def test_the_beginning_of_lite0_is_kept(depth, tmp_path):
    method = make_method(
        "ccgn", (3, 64, 64), network="efficientnet_lite0", model={"weights": "none", "private_depth": depth}
    )
    assert method.backbone.keep_prefix(tmp_path)
    prefix = method.backbone.cache.prefix
    assert prefix.channels_last == prefix.needed, "as its maps lie in memory"


def test_in_evaluation_everything_is_computed(tmp_path):
    backbone, _ = begun(tmp_path)
    counts = computed(backbone)
    backbone.eval()(X, 0)
    assert counts == [4]


def test_other_weights_have_other_features(tmp_path):
    begun(tmp_path)[0](X, 0)
    torch.manual_seed(1)
    other = gate(Concatenated(), X, depth=0.34)
    other.add_task()
    other.keep_prefix(tmp_path)
    assert len(other.cache.cache) == 0


def test_a_network_that_is_a_tasks_own_from_the_first_layer_has_nothing_to_keep(tmp_path):
    assert not begun(tmp_path, depth=1.0)[1]


class Peeking(nn.Module):
    """What it computes depends on the values of its beginning: blanks give other features."""

    def __init__(self):
        super().__init__()
        self.one, self.two, self.out = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 3), nn.Linear(4, 2)
        self.three = nn.Conv2d(4, 4, 3)

    def forward(self, x):
        h = self.one(x)
        sign = 1 if float(h.detach().abs().sum()) else -1
        return self.out(self.three(self.two(h)).mean((2, 3)) * sign)


def test_a_network_that_cannot_be_taken_apart_is_run_whole_task_after_task(tmp_path):
    backbone, kept = begun(tmp_path, Peeking, depth=0.3)
    assert not kept
    assert not backbone.keep_prefix(tmp_path)  # the next task asks again
    counts = computed(backbone)
    backbone(X, 0)
    assert counts == [4]


def test_a_network_that_is_frozen_altogether_is_computed_once(tmp_path):
    backbone, kept = begun(tmp_path, depth=0.0)
    assert kept
    counts = computed(backbone)
    for _ in range(2):
        backbone(X, 0)
    assert counts == [1, 1, 1, 1]


def test_what_a_killed_process_left_is_cut_off(tmp_path):
    cache = FeatureCache(tmp_path / "f", 3)
    cache.put(b"a" * 32, torch.arange(3.0))
    with cache.file.open("ab") as handle:
        handle.write(b"b" * 40)
    again = FeatureCache(tmp_path / "f", 3)
    assert len(again) == 1
    again.put(b"b" * 32, torch.ones(3))
    assert FeatureCache(tmp_path / "f", 3).get(b"b" * 32).tolist() == [1, 1, 1]


@pytest.mark.parametrize("at", [0, 40, 70])
def test_a_damaged_record_is_computed_anew(at, tmp_path):
    cache = FeatureCache(tmp_path / "f", 3)
    for name in (b"a", b"b"):
        cache.put(name * 32, torch.arange(3.0))
    data = bytearray(cache.file.read_bytes())
    data[at] ^= 1
    cache.file.write_bytes(data)
    assert cache.get(b"a" * 32) is None
    cache.put(b"a" * 32, torch.arange(3.0))
    assert cache.get(b"a" * 32).tolist() == cache.get(b"b" * 32).tolist() == [0, 1, 2]
    assert cache.file.stat().st_size == len(data)


@pytest.mark.parametrize("lose", [Path.unlink, lambda file: file.write_bytes(b"")], ids=["removed", "emptied"])
def test_a_file_that_is_lost_while_it_is_used_is_computed_anew(lose, tmp_path):
    backbone, _ = begun(tmp_path)
    backbone(X, 0)
    lose(backbone.cache.cache.file)
    counts = computed(backbone)
    assert backbone(X, 0).features.isfinite().all()
    assert counts == [1, 1, 1, 1]


def test_on_a_full_disk_features_are_computed_each_time(tmp_path, monkeypatch):
    backbone, _ = begun(tmp_path)
    counts = computed(backbone)

    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "open", full)
    for _ in range(2):
        backbone(X, 0)
    monkeypatch.undo()
    assert counts == [1] * 8
    assert feature_cache.FeatureCache(backbone.cache.cache.file, backbone.cache.prefix.length).get(b"x" * 32) is None


def test_a_run_with_a_cache_is_repeated_to_the_bit(tmp_path):
    experiment = tiny.experiment(
        "ccgn",
        "tests.support.networks:Concatenated",
        model={"private_depth": 0.34},
        runtime={"feature_cache": str(tmp_path / "features")},
        augment={"random_translate": 0},  # features of images that vary are not kept
    )
    summaries = [run(experiment, tmp_path / name) for name in ("a", "b")]  # the second finds all features
    assert list((tmp_path / "features").rglob("*.features"))
    one, two = (last_state(tmp_path / name) for name in ("a", "b"))
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert all(summary["audit"]["ok"] for summary in summaries)


def test_no_image_at_all_is_no_reason_to_fail(tmp_path):
    backbone, _ = begun(tmp_path)
    assert {len(value) for value in backbone.cache.outputs(X[:0]).values()} == {0}


def test_streams_that_tell_classes_apart_learn_a_second_task_from_kept_features(tmp_path):
    """`lockgate learn --memory episodic` from a pretrained network: targets are classes, of which all are known."""
    described = tiny.experiment(
        "ccgn-episodic",
        "tests.support.networks:Concatenated",
        model={"private_depth": 0.34},
        runtime={"feature_cache": str(tmp_path / "features")},
        options={"targets": "class", "inference": "joint"},
        augment={"random_translate": 0},
    )
    result = run(described, tmp_path / "run")
    assert result["class_incremental"]["average"] > 0
