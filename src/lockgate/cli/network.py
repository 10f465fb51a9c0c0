"""The command `lockgate check-network`."""

from __future__ import annotations

import argparse
import dataclasses
import json
from typing import Any

from lockgate.cli.common import add_command


def add(commands: Any) -> None:
    """Add the command to the command line."""
    check = add_command(
        commands,
        "check-network",
        _check,
        "what a network of your own becomes, and whether its past answers stay",
        ["lockgate check-network package.module:make", "lockgate check-network efficientnet_lite0 --size 96 --gates"],
    )
    check.add_argument(
        "name", metavar="NAME", help="package.module:make, timm:NAME, transformers:NAME, or one of `list backbones`"
    )
    check.add_argument(
        "--size", type=int, default=0, help="side of images in pixels (default: the network's own, or 64)"
    )
    check.add_argument("--weights", default="", help="a file of weights; `none`: random ones")
    check.add_argument("--gates", action="store_true", help="gate its layers too")


def _check(parsed: argparse.Namespace) -> int:
    from lockgate.app.network import check_network

    found = check_network(parsed.name, parsed.size, weights=parsed.weights, gates=parsed.gates)
    print(json.dumps({**dataclasses.asdict(found), "ok": found.ok}) if parsed.json else found.text())
    return 0 if found.ok else 1
