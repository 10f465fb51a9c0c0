from __future__ import annotations

import json

import pytest

from lockgate.errors import RunFolderError
from lockgate.report import load


def test_a_whole_run_is_read(make_run):
    run = load.read(make_run())
    assert run.summary.task_incremental.matrix == ((0.991,), (0.991, 0.972), (0.991, 0.972, 0.953))
    assert run.summary.capacity[1].used_after == (10, 10, 80)
    assert run.summary.audit is not None
    assert run.summary.audit.ok
    assert [(e.task, e.epoch) for e in run.epochs] == [(t, e) for t in range(3) for e in range(4)]
    assert [stage.best_epoch for stage in run.stages] == [2, 2, 2]
    assert run.config is not None
    assert run.config.startswith("method: ccgn")


def test_the_few_needed_keys_are_enough(tmp_path):
    given = {"method": "a", "dataset": "b", "seed": 0, "tasks": 1, "seconds": 1, "task_incremental": {"matrix": [[1]]}}
    (tmp_path / "summary.json").write_text(json.dumps(given))
    run = load.read(tmp_path)
    assert run.summary.class_incremental is None
    assert run.summary.capacity == ()
    assert run.epochs == run.stages == ()
    assert run.config is None


def test_a_repeated_epoch_counts_once_and_the_later_one_wins(make_run):
    again = {"event": "epoch", "task": 0, "epoch": 0, "losses": {"class": float("nan")}, "val_accuracy": 0.25}
    first = again | {"val_accuracy": 0.75}
    (epoch,) = load.read(make_run([first, again])).epochs
    assert epoch.val_accuracy == 0.25
    assert epoch.losses == {"class": None}  # not finite: nothing to draw


def test_a_torn_last_line_is_left_out_but_a_torn_middle_is_an_error(make_run):
    folder = make_run()
    path = folder / "records.jsonl"
    text = path.read_text()
    path.write_text(text + '{"event": "epoch", "ta')
    assert len(load.read(folder).epochs) == 12
    path.write_text('{"event": "epoch", "ta\n' + text)
    with pytest.raises(RunFolderError, match="line 1"):
        load.read(folder)


@pytest.mark.parametrize("event", ['{"event": "epoch"}', "[1]", '{"event": "task", "task": "x"}'])
def test_a_record_of_another_shape_is_named_by_its_line(make_run, event):
    folder = make_run()
    (folder / "records.jsonl").write_text("{}\n" + event + "\n{}\n")
    with pytest.raises(RunFolderError, match=r"line 2.*Wanted.*Remedy"):
        load.read(folder)


def test_a_missing_summary_says_what_the_folder_holds(make_run):
    folder = make_run()
    (folder / "summary.json").unlink()
    with pytest.raises(RunFolderError, match=r"got: config\.yaml, records\.jsonl.*Wanted.*Remedy"):
        load.read(folder)
    with pytest.raises(RunFolderError, match="does not exist"):
        load.read(folder / "elsewhere")


@pytest.mark.parametrize("text", ["{", "", "\x00", '{"method": "ccgn"'])
def test_a_summary_that_is_no_json_is_an_error(make_run, text):
    folder = make_run()
    (folder / "summary.json").write_text(text)
    with pytest.raises(RunFolderError, match=r"damaged.*got.*Wanted.*Remedy"):
        load.read(folder)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"format": 2}, "format 2"),
        ({"method": None, "seed": None}, "no method, seed"),
        ({"task_incremental": {"matrix": []}}, "no rows"),
        ({"task_incremental": {"matrix": [["x"]]}}, "TypeError"),
        ({"task_incremental": 3}, "TypeError"),
        ({"tasks": "many"}, "many"),
        ({"environment": [1]}, "AttributeError"),
        ({"capacity": {"layers": [{"width": 3}]}}, "layer"),
        ({"capacity": {"layers": [{"layer": "conv", "width": 0}]}}, "width"),
    ],
)
def test_a_summary_of_another_shape_is_an_error(make_run, changes, said):
    with pytest.raises(RunFolderError, match=rf"(?s){said}.*Wanted.*Remedy"):
        load.read(make_run(**changes))


def test_a_list_is_no_summary():
    with pytest.raises(RunFolderError, match="got: a list"):
        load.parse_summary([])


def test_only_a_plain_true_passes_an_audit(make_run):
    for ok in (None, 1, "yes", False):
        audit = load.read(make_run(audit={"ok": ok})).summary.audit
        assert audit is not None
        assert not audit.ok


def test_what_a_class_incremental_method_writes_is_read(make_episodic):
    summary = load.read(make_episodic()).summary
    assert list(summary.inference) == ["argmax", "joint"]
    assert summary.inference["argmax"] == summary.class_incremental
    assert summary.inference["joint"].matrix[-1] == (0.66, 0.76, 0.945)
    assert summary.task_found == ((1.0,), (0.823, 0.981), (0.641, 0.762, 0.961))
    assert summary.memory is not None
    assert (summary.memory.images, summary.memory.bytes) == (500, 392000)
    assert summary.audit is not None
    assert summary.audit.streams == 9


def test_a_run_from_before_these_keys_is_read(make_run):
    run = load.read(make_run())
    assert run.summary.inference == {}
    assert run.summary.task_found == run.generators == run.pictures == ()
    assert run.summary.memory is None
    assert run.summary.audit is not None
    assert run.summary.audit.streams is None


def test_null_is_as_good_as_missing(make_run):
    folder = make_run()
    before = load.read(folder).summary
    assert load.read(make_run(inference=None, task_found=None, memory=None)).summary == before


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"inference": {"argmax": {"matrix": []}}}, "no rows"),
        ({"inference": [1]}, "AttributeError"),
        ({"task_found": []}, "no rows"),
        ({"task_found": [["x"]]}, "TypeError"),
        ({"memory": {"images": 3}}, "bytes"),
        ({"memory": 3}, "TypeError"),
    ],
)
def test_the_newer_keys_must_have_their_shape(make_episodic, changes, said):
    with pytest.raises(RunFolderError, match=rf"(?s){said}.*Wanted.*Remedy"):
        load.read(make_episodic(**changes))


def test_training_a_generator_is_no_epoch_of_the_task(make_generative):
    run = load.read(make_generative())
    assert [(e.task, e.epoch) for e in run.epochs] == [(t, e) for t in range(3) for e in range(4)]
    assert [(e.task, e.epoch) for e in run.generators] == [(t, e) for t in range(3) for e in range(5)]
    assert run.generators[1].losses == {"critic": -4.0, "penalty": 0.5, "generator": 3.0}
    assert run.generators[1].seconds == 30.0


def test_pictures_come_by_task_and_only_whole_ones(make_generative):
    folder = make_generative()
    pictures = folder / "pictures"
    whole = (pictures / "generator-2.png").read_bytes()
    (pictures / "generator-10.png").write_bytes(whole)
    (pictures / "generator-1.png").write_bytes(whole[:-5])
    (pictures / "generator-3.png").write_text("no picture at all")
    (pictures / "other.png").write_bytes(whole)
    found = load.read(folder).pictures
    assert [(picture.task, picture.size) for picture in found] == [(0, (64, 32)), (2, (66, 32)), (10, (66, 32))]
