"""How filters start; and that nothing is drawn where all is about to be loaded."""

from __future__ import annotations

import torch

from lockgate.layers.gated import GatedConv2d
from lockgate.layers.init import left_empty


def _made() -> GatedConv2d:
    layer = GatedConv2d(2, 3, 3)
    layer.add_task()
    layer.grow_outputs(2)
    layer.grow_inputs(1)
    return layer


def test_what_is_about_to_be_loaded_is_not_drawn_first() -> None:
    generator = torch.get_rng_state()
    with left_empty():
        hollow = _made()
    assert torch.equal(torch.get_rng_state(), generator)
    full = _made()
    assert not torch.equal(torch.get_rng_state(), generator), "outside, it draws as ever"
    hollow.load_state_dict(full.state_dict())
    for name, value in full.state_dict().items():
        assert torch.equal(hollow.state_dict()[name], value), name
