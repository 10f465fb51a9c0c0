"""Warnings about capacity, counted by hand."""

from __future__ import annotations

import pytest

from lockgate.methods.capacity import LayerCapacity, all_shut, nearly_full


def test_what_is_not_used_is_free():
    entry = LayerCapacity("conv1", width=10, used=7, relevant=4)
    assert entry.to_dict() == {"layer": "conv1", "width": 10, "used": 7, "relevant": 4, "free": 3}


@pytest.mark.parametrize(("width", "used", "full"), [(10, 9, False), (10, 10, True), (100, 90, False), (100, 91, True)])
def test_a_layer_is_nearly_full_with_less_than_a_tenth_left(width, used, full):
    assert bool(nearly_full([LayerCapacity("conv1", width, used, 1)])) is full


def test_one_warning_names_all_layers_that_are_nearly_full_with_what_is_left():
    layers = [LayerCapacity("a", 20, 19, 5), LayerCapacity("b", 20, 4, 4), LayerCapacity("c", 8, 8, 0)]
    (warning,) = nearly_full(layers)
    assert "a 1/20, c 0/8." in warning
    assert "b " not in warning.partition(". ")[0]
    assert nearly_full(layers[1:2]) == []


def test_one_warning_names_all_layers_in_which_no_gate_fires():
    layers = [LayerCapacity("a", 20, 19, 0), LayerCapacity("b", 20, 4, 1), LayerCapacity("c", 8, 0, 0)]
    (warning,) = all_shut(layers)
    assert "no gate fires in a, c:" in warning
    assert all_shut(layers[1:2]) == []
