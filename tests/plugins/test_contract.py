"""The shipped contract: what it is for is that methods which break it fail, each in the test that says so."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import nn

from lockgate.config import option
from lockgate.methods import METHODS
from lockgate.methods.base import Method
from lockgate.methods.finetune import Finetune
from lockgate.testing import MethodContract, method_contract


class Unused(Finetune):
    """Has a parameter that no loss reaches."""

    def __init__(self, context):
        super().__init__(context)
        self.spare = nn.Parameter(torch.zeros(1))


class Wide(Finetune):
    """Answers with one class too many."""

    def predict(self, x, task):
        logits = super().predict(x, task)
        return torch.cat([logits, logits[:, :1]], dim=1)


class NotFinite(Finetune):
    """Divides by zero."""

    def loss(self, batch):
        return {name: value / 0 for name, value in super().loss(batch).items()}


class Unseeded(Finetune):
    """Draws from a generator of its own, which no seed of the run reaches."""

    rng = torch.Generator()

    def after_step(self):
        for head in self.heads:
            head.bias.data += 1e-3 * torch.rand(len(head.bias), generator=self.rng)


class Forgetful(Finetune):
    """Keeps something that decides its answers outside of its state."""

    def __init__(self, context):
        super().__init__(context)
        self.turned = 0

    def end_task(self, task):
        self.turned += 1

    def predict(self, x, task):
        logits = super().predict(x, task)
        return logits.flip(1) if self.turned else logits


class Counting(Finetune):
    """Learns by how often it was asked, which a resumed run does not know."""

    def __init__(self, context):
        super().__init__(context)
        self.asked = 0

    def loss(self, batch):
        self.asked += self.training
        return {name: value * self.asked for name, value in super().loss(batch).items()}


class Two(Finetune):
    """Cannot learn from one image."""

    def loss(self, batch):
        assert len(batch.y) > 1
        return super().loss(batch)


@dataclass(frozen=True)
class SilentOptions:
    rate: float = option(0.1, "")


class Silent(Finetune):
    """Has an option that it does not explain."""

    Options = SilentOptions


BROKEN: list[tuple[type[Method], str]] = [
    (Unused, "test_losses_are_finite_scalars_and_reach_every_trainable_parameter"),
    (NotFinite, "test_losses_are_finite_scalars_and_reach_every_trainable_parameter"),
    (Wide, "test_predict_gives_logits_of_the_tasks_classes"),
    (Unseeded, "test_the_same_seed_gives_the_same_bits"),
    (Forgetful, "test_a_finished_run_loads_and_answers_as_its_summary_says"),
    (Counting, "test_a_stopped_run_resumes_to_the_same_bits"),
    (Two, "test_a_batch_of_one_trains"),
    (Silent, "test_the_class_and_its_options_are_complete"),
]


def call(contract: type[MethodContract], test: str, tmp_path) -> None:
    function = getattr(contract, test)
    wanted = function.__code__.co_varnames[1 : function.__code__.co_argcount]
    given = {"backbone": "simple_cnn", "tmp_path": tmp_path}
    function(contract(), **{name: given[name] for name in wanted})


@pytest.mark.parametrize(("broken", "test"), BROKEN)
def test_a_method_that_breaks_the_contract_fails_the_test_that_says_so(broken, test, tmp_path):
    with pytest.raises(AssertionError):
        call(method_contract(broken), test, tmp_path / "broken")
    call(method_contract("finetune"), test, tmp_path / "whole")


def test_a_class_is_tested_as_well_as_a_name_and_pytest_finds_all_tests():
    contract = method_contract(Silent)
    assert METHODS[contract.method] is Silent
    tests = [name for name in dir(contract) if name.startswith("test_")]
    assert len(tests) == 10
    assert all(getattr(contract, name).__doc__ for name in tests)
