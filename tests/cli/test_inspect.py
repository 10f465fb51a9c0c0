"""`evaluate`, `audit` and `report` on finished runs: they agree with the run, and notice what was tampered with."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.support.tiny import sign

from lockgate.runs.packing import unpacked

Command = Callable[..., tuple[int, str, str]]


def newest_end(run: Path) -> Path:
    return max(p for p in (run / "checkpoints").iterdir() if p.name.endswith("-task"))


def nudge(checkpoint: Path, name: str, row: int) -> None:
    """Move one number of one filter by its last bit."""
    tensors = unpacked(load_file(checkpoint / "learner.safetensors"))
    flat = tensors[name][row].view(-1)
    flat[0] = torch.nextafter(flat[0], torch.tensor(torch.inf))
    save_file(tensors, checkpoint / "learner.safetensors")
    sign(checkpoint)


@pytest.mark.parametrize("method", ["ccgn", "finetune"])
def test_evaluation_agrees_with_the_summary(command: Command, request: pytest.FixtureRequest, method: str) -> None:
    run: Path = request.getfixturevalue(method)
    summary = json.loads((run / "summary.json").read_text())
    code, out, err = command("evaluate", run, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert set(found) == {"task_incremental", "class_incremental", "domain_incremental"}
    _, text, _ = command("evaluate", run)
    lines = {line.split()[0]: line.split()[1:] for line in text.splitlines()}
    for setting, row in found.items():
        if summary[setting] is None:
            assert row is None
            assert setting.replace("_", "-") not in lines
            continue
        assert row == summary[setting]["matrix"][-1]
        *cells, word, average = lines[setting.replace("_", "-")]
        assert [float(cell) for cell in cells] == pytest.approx(row, abs=5e-5)
        assert word == "average"
        assert float(average) == pytest.approx(summary[setting]["average"], abs=5e-5)


def test_the_audit_of_a_finished_run_passes(command: Command, ccgn: Path) -> None:
    summary = json.loads((ccgn / "summary.json").read_text())
    code, out, err = command("audit", ccgn)
    assert (code, err) == (0, "")
    assert out.startswith("audit passed: ")
    assert f"{summary['audit']['tensors']} locked tensors and the logits of 2 tasks" in out


@pytest.mark.parametrize("layer", ["conv1", "conv3"])
def test_the_audit_names_a_locked_filter_that_changed_by_one_bit(command: Command, ccgn: Path, layer: str) -> None:
    point = newest_end(ccgn)
    owner = load_file(point / "learner.safetensors")[f"backbone.{layer}.owner"]
    mine = torch.nonzero(owner == 0).flatten()
    assert len(mine), "the first task locked nothing: the test would show nothing"
    nudge(point, f"backbone.{layer}.weight", int(mine[0]))
    code, out, _ = command("audit", ccgn)
    assert code == 1
    assert out.startswith(f"audit FAILED: task 0: tensor {layer}.weight has changed")


@pytest.mark.parametrize(
    ("name", "offender"),
    [
        ("heads.0.weight", "task 0: tensor heads.0.weight"),
        ("heads.1.bias", "task 1: tensor heads.1.bias"),
        ("backbone.conv2.gates.0.excite.weight", "task 0: tensor backbone.conv2.gates.0.excite.weight"),
        ("backbone.conv2.gates.1.norm.running_mean", "task 1: tensor backbone.conv2.gates.1.norm.running_mean"),
    ],
)
def test_the_audit_names_a_gate_or_head_that_changed_by_one_bit(
    command: Command, ccgn: Path, name: str, offender: str
) -> None:
    nudge(newest_end(ccgn), name, 0)
    code, out, _ = command("audit", ccgn)
    assert code == 1
    assert out.startswith(f"audit FAILED: {offender} has changed")


def test_the_audit_notices_changed_preprocessing_by_the_answers_it_changes(command: Command, ccgn: Path) -> None:
    point = newest_end(ccgn)
    tensors = load_file(point / "learner.safetensors")
    tensors["input.mean"] += 0.1  # promised by no tensor's digest, but every answer depends on it
    save_file(tensors, point / "learner.safetensors")
    sign(point)
    code, out, _ = command("audit", ccgn)
    assert code == 1
    assert out.startswith("audit FAILED: task 0: logits on its 8 test images has changed")


def test_a_checkpoint_changed_without_its_manifest_does_not_get_as_far_as_the_audit(
    command: Command, ccgn: Path
) -> None:
    file = newest_end(ccgn) / "learner.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    for verb in ("audit", "evaluate", "resume"):
        code, out, err = command(verb, ccgn)
        assert (code, out) == (1, "")
        assert f"{file} is damaged" in err


def test_the_audit_of_a_method_that_promises_nothing_says_so(command: Command, finetune: Path) -> None:
    code, out, err = command("audit", finetune)
    assert (code, out) == (1, "")
    assert "nothing to audit" in err
    assert "'finetune' promises nothing" in err


def test_a_half_written_last_record_does_not_hinder_the_audit(command: Command, ccgn: Path) -> None:
    with (ccgn / "records.jsonl").open("a") as file:
        file.write('{"event": "epo')
    code, out, _ = command("audit", ccgn)
    assert code == 0
    assert out.startswith("audit passed")


def test_inspecting_changes_nothing_in_the_checkpoints_and_records(command: Command, ccgn: Path) -> None:
    def content() -> dict[str, bytes]:
        return {str(p): p.read_bytes() for p in ccgn.rglob("*") if p.is_file() and p.suffix != ".html"}

    before = content()
    for verb in ("evaluate", "audit", "report"):
        assert command(verb, ccgn)[0] == 0
    assert content() == before


@pytest.mark.parametrize("method", ["ccgn", "finetune"])
def test_the_report_writes_a_page_of_the_run_and_says_where(
    command: Command, request: pytest.FixtureRequest, method: str
) -> None:
    run: Path = request.getfixturevalue(method)
    for page in run.glob("*.html"):
        page.unlink()
    code, out, err = command("report", run)
    assert (code, err) == (0, "")
    page = Path(out.strip())
    assert page.parent == run
    html = page.read_text()
    assert html.lstrip().lower().startswith("<!doctype html>")
    assert method in html
    assert "synthetic" in html
    assert "class 3" in html


@pytest.mark.parametrize("verb", ["evaluate", "audit", "report", "resume"])
def test_what_is_no_run_is_refused_with_1(command: Command, tmp_path: Path, verb: str) -> None:
    for place in (tmp_path, tmp_path / "nowhere"):
        code, out, err = command(verb, place)
        assert (code, out) == (1, "")
        assert str(place) in err
        assert "Traceback" not in err
