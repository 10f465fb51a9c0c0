"""The examples as an outsider's files in another folder: from the command line, from Python, and as a package."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from tests.support import fresh_process

from lockgate.methods import METHODS
from lockgate.runs.loading import load
from lockgate.runs.run import run
from lockgate.testing import tiny_experiment

EXAMPLES = Path(__file__).parents[2] / "examples"
TINY = (
    "--epochs",
    "1",
    "--tasks",
    "2",
    "--data.synthetic-classes",
    "4",
    "--runtime.threads",
    "1",
    "--model.width",
    "8",
)


@pytest.fixture
def examples(outside):
    """The examples, copied; and not found elsewhere."""
    for file in EXAMPLES.glob("*.py"):
        shutil.copy(file, outside)
    return outside


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_examples_are_short(example):
    assert len(example.read_text().splitlines()) < 60


def test_a_method_from_the_command_line(examples, command):
    words = ["run", "--method", "own_method:DERpp", "--dataset", "synthetic", *TINY, "--options.buffer", "20"]
    done = command(*words)
    assert done.returncode == 0, done.stderr
    out = examples / "runs" / "own_method.DERpp-synthetic-seed0"
    summary = json.loads((out / "summary.json").read_text())
    assert summary["method"] == "own_method:DERpp"
    assert len(summary["class_incremental"]["matrix"][-1]) == 2
    shown = command("evaluate", str(out), "--json")
    assert json.loads(shown.stdout)["class_incremental"] == summary["class_incremental"]["matrix"][-1]
    wrong = command(*words[:-2], "--options.alpha", "-1", "--options.bufer", "3", "--out", "other")
    assert wrong.returncode == 2
    assert "'options.alpha' must be at least 0" in wrong.stderr
    assert "Did you mean 'buffer'?" in wrong.stderr


def test_a_method_from_a_yaml_file_and_two_ranks(examples, command):
    lines = ["method: own_method:DERpp", "dataset: synthetic", "devices: 2", "options: {buffer: 20}"]
    (examples / "mine.yaml").write_text("\n".join(lines))
    done = command("run", "mine.yaml", *TINY, "--out", "out")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("method", "network"), [("lwf", "Net"), ("ccgn", "Gateable"), ("hat", "Gateable")])
def test_a_network_from_the_command_line(method, network, examples, command):
    done = command("run", "--method", method, "--backbone", f"own_network:{network}", "--dataset", "synthetic", *TINY)
    assert done.returncode == 0, done.stderr
    out = examples / "runs" / f"{method}-synthetic-seed0"
    audit = json.loads((out / "summary.json").read_text())["audit"]
    assert audit["ok"] if network == "Gateable" else audit is None


def test_a_network_that_a_method_cannot_gate_is_refused_in_words(examples, command):
    done = command("run", "--method", "hat", "--backbone", "own_network:Net", "--dataset", "synthetic", *TINY)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "method 'hat' cannot work on backbone 'own_network:Net'" in done.stderr


def test_the_contract_in_one_line_of_a_test_file_of_ones_own(examples):
    lines = [
        "from lockgate.testing import method_contract",
        'TestDER = method_contract("own_method:DERpp", ["own_network:Net"], {"buffer": 20})',
    ]
    (examples / "test_mine.py").write_text("\n".join(lines))
    (examples / "pytest.ini").write_text("[pytest]\n")
    words = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "test_mine.py"]
    done = fresh_process.call(pytest.main, words, folder=examples)
    assert done.returncode == 0, done.stdout
    assert "10 passed" in done.stdout


def test_a_script_of_ones_own_runs(examples):
    done = fresh_process.call(fresh_process.script, "own_network.py", folder=examples)
    assert done.returncode == 0, done.stderr
    assert "lwf on digits" in done.stdout


def test_a_method_from_python_and_through_an_entry_point_learn_the_same(examples, install, tmp_path):
    source = (EXAMPLES / "own_method.py").read_text()
    install("der-plus-plus", "[lockgate.methods]\nown-der = der_method:DERpp\n", {"der_method.py": source})
    assert METHODS.summary("own-der") == "From der-plus-plus 1.0: der_method:DERpp"
    for name, out in (("own_method:DERpp", "a"), ("own-der", "b")):
        run(tiny_experiment(name, options={"buffer": 20}), tmp_path / out)
    one, other = (load(tmp_path / out)[0].state_dict() for out in ("a", "b"))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_an_entry_point_from_the_command_line(examples, install, command):
    source = (EXAMPLES / "own_network.py").read_text()
    site = install("my-nets", "[lockgate.backbones]\nnet = my_nets:Net\n", {"my_nets.py": source})
    done = command("run", "--method", "icarl", "--backbone", "net", "--dataset", "synthetic", *TINY, path=str(site))
    assert done.returncode == 0, done.stderr
    assert "  net              From my-nets 1.0: my_nets:Net" in command("list", "backbones", path=str(site)).stdout


def test_a_run_whose_method_is_gone_says_what_is_missing(examples, command):
    done = command("run", "--method", "own_method:DERpp", "--dataset", "synthetic", *TINY, "--out", "out")
    assert done.returncode == 0, done.stderr
    (examples / "own_method.py").unlink()
    told = command("evaluate", "out")
    assert told.returncode == 2
    assert "there is no module 'own_method'" in told.stderr


def test_der_keeps_as_many_images_of_each_class_with_the_logits_it_gave(examples, tmp_path):
    """By hand: with a buffer of 8 and 4 classes, two of each, and logits of classes that came later are not held."""
    from lockgate.testing import walk

    kept = []
    for learner, seen in walk(tiny_experiment("own_method:DERpp", options={"buffer": 8}, epochs=1)):
        assert sorted(learner.kept_y.tolist()) == sorted(list(range(2 * len(seen))) * (8 // (2 * len(seen))))
        kept.append({name: getattr(learner, f"kept_{name}").clone() for name in ("x", "y", "width", "logits")})
        newest = learner.kept_y >= 2 * (len(seen) - 1)
        with torch.no_grad():
            now = learner.eval().all_logits(learner.kept_x[newest])
        torch.testing.assert_close(learner.kept_logits[newest], now)
    first, second = kept
    old = second["y"] < 2
    assert second["width"].tolist() == [2] * 4 + [4] * 4
    assert not second["logits"][old, 2:].any()
    for x, logits in zip(second["x"][old], second["logits"][old, :2], strict=True):
        row = next(i for i, image in enumerate(first["x"]) if torch.equal(image, x))
        assert torch.equal(first["logits"][row], logits)
