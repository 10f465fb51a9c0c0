"""Modules by task: the past is constant, and nothing that is done again and again touches it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from lockgate.layers.per_task import TaskModules, live_state, load_live_state, shared_modules


class Layer(nn.Module):
    """A weight of all tasks and a norm for each."""

    def __init__(self, tasks: int) -> None:
        super().__init__()
        self.shared = nn.Linear(2, 2)
        self.norms = TaskModules()
        for _ in range(tasks):
            self.norms.append(nn.BatchNorm1d(2))
            self.norms.freeze_past()


def copy(state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in state.items()}


def test_past_modules_stay_in_eval_whatever_is_asked():
    outer = nn.Sequential(Layer(3))
    for mode, wanted in ((True, [False, False, True]), (False, [False] * 3), (True, [False, False, True])):
        outer.train(mode)
        assert [norm.training for norm in outer[0].norms] == wanted


def test_the_live_state_is_the_state_without_past_modules():
    outer = nn.Sequential(Layer(3))
    whole, live = outer.state_dict(), live_state(outer)
    assert set(whole) - set(live) == {name for name in whole if name.startswith(("0.norms.0.", "0.norms.1."))}
    assert all(value.data_ptr() == whole[name].data_ptr() for name, value in live.items())


def test_its_size_does_not_grow_with_tasks():
    assert len(live_state(Layer(2))) == len(live_state(Layer(50)))


def test_loading_it_takes_training_back():
    torch.manual_seed(0)
    layer = Layer(3).train()
    before, live = copy(layer.state_dict()), copy(live_state(layer))
    layer.norms[2](layer.shared(torch.randn(8, 2))).sum().backward()
    torch.optim.SGD([p for p in layer.parameters() if p.requires_grad], 0.1).step()
    assert not torch.equal(layer.norms[2].running_mean, before["norms.2.running_mean"])
    load_live_state(layer, live)
    assert all(torch.equal(value, before[name]) for name, value in layer.state_dict().items())


def test_a_whole_state_can_be_loaded_too():
    layer, other = Layer(3), Layer(3)
    load_live_state(layer, other.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(layer.state_dict().values(), other.state_dict().values(), strict=True))


def test_what_is_missing_or_unknown_is_named():
    layer = Layer(2)
    live = live_state(layer)
    del live["shared.bias"]
    with pytest.raises(RuntimeError, match=r"missing: shared\.bias; unknown: stranger"):
        load_live_state(layer, {**live, "stranger": torch.zeros(1)})


def test_what_is_of_no_task_is_as_much_at_any_task():
    layer = Layer(50)
    assert list(shared_modules(layer)) == [layer, layer.shared]
