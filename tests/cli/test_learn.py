"""`learn`, `predict`, `inspect` and `audit` of a model, as typed: what is printed, and with which exit code."""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image
from tests.support.folders import write

Command = Callable[..., tuple[int, str, str]]


def test_a_task_logs_its_choices_and_what_it_came_to(command: Command, taught: Path) -> None:
    write(taught / "ships", {"ferry": 6, "tug": 12})
    code, out, err = command("learn", taught / "model", taught / "ships", "--name=boats", "--epochs=2")
    assert code == 0
    assert "task 'boats': 18 images of 2 classes (ferry, tug)" in out
    assert "schedule: 2 epochs, 16 images a step" in out
    assert "classes differ in size (6 to 12)" in out
    assert "Learnt 'boats': accuracy" in out
    assert "No task given: " in out
    assert "logits of 2 past tasks are bit-equal" in out
    assert "On disk: network" in out
    assert "task 3/3  epoch 2/2" in err, "progress goes to the other stream"


def test_predictions_name_class_task_and_confidence(command: Command, taught: Path) -> None:
    images = [taught / "tools" / "axe" / "000.png", taught / "pets" / "cat" / "000.png"]
    code, out, err = command("predict", taught / "model", *images)
    assert (code, err) == (0, "")
    head, *lines = out.splitlines()
    assert head.split() == ["image", "class", "task", "confidence"]
    assert [line.split()[0] for line in lines] == [str(image) for image in images]
    code, out, _ = command("predict", taught / "model", *images, "--json", "--top=3")
    found = json.loads(out)
    assert [item["image"] for item in found] == [str(image) for image in images]
    assert all(len(item["answers"]) == 3 for item in found)
    for line, item in zip(lines, found, strict=True):
        best = item["answers"][0]
        assert line.split()[1:] == [best["class"], best["task"], f"{best['confidence']:.4f}"]
    code, out, _ = command("predict", taught / "model", images[0], "--json", "--task=pets", "--top=9")
    assert {answer["class"] for answer in json.loads(out)[0]["answers"]} == {"cat", "dog"}


def test_a_folder_is_predicted_file_by_file_and_a_bad_image_does_not_stop_the_rest(
    command: Command, taught: Path
) -> None:
    (taught / "pets" / "cat" / "broken.png").write_text("no picture")
    (taught / "pets" / ".hidden.png").write_text("not asked for")
    code, out, err = command("predict", taught / "model", taught / "pets", "--json")
    found = json.loads(out)
    assert code == 1
    assert len(found) == 25
    assert [item["image"] for item in found if "error" in item] == [str(taught / "pets" / "cat" / "broken.png")]
    assert "broken.png" in err
    code, out, err = command("predict", taught / "model", taught / "nowhere.png")
    assert (code, out) == (1, "")
    assert "nowhere.png" in err


def test_an_empty_folder_is_named(command: Command, taught: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    code, out, err = command("predict", taught / "model", tmp_path / "empty")
    assert (code, out) == (1, "")
    assert "no images" in err


def test_predicting_for_an_unknown_task_is_asked_wrongly(command: Command, taught: Path) -> None:
    code, out, err = command("predict", taught / "model", taught / "pets", "--task=pet")
    assert (code, out) == (2, "")
    assert "Did you mean 'pets'" in err


def test_runs_predict_too(command: Command, ccgn: Path, tmp_path: Path) -> None:
    Image.new("RGB", (40, 30), "red").save(tmp_path / "red.jpg")
    code, out, _ = command("predict", ccgn, tmp_path / "red.jpg", "--task=class 0 class 1", "--json")
    assert code == 0
    assert json.loads(out)[0]["answers"][0]["class"] in ("class 0", "class 1")


def test_inspection_in_words_and_as_json(command: Command, taught: Path) -> None:
    code, out, err = command("inspect", taught / "model")
    assert (code, err) == (0, "")
    for part in ("2 tasks, 4 classes", "cat, dog", "axe, saw", "conv3", "memory", "every file fits its SHA-256"):
        assert part in out
    code, out, _ = command("inspect", taught / "model", "--json")
    assert [task["name"] for task in json.loads(out)["tasks"]] == ["pets", "tools"]


def test_the_audit_of_a_model_passes_without_its_data(command: Command, taught: Path) -> None:
    shutil.rmtree(taught / "pets")
    shutil.rmtree(taught / "tools")
    code, out, err = command("audit", taught / "model")
    assert (code, err) == (0, "")
    assert "logits of 2 tasks are bit-equal" in out


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["learn", "MODEL", "pets"], 1, "knows 'cat', 'dog' already"),
        (["learn", "MODEL", "nowhere"], 1, "is not a folder"),
        (["learn", "MODEL", "ships", "--memory=none", "--size=16"], 2, "'memory' was fixed as episodic"),
        (["learn", "MODEL", "ships", "--options.sparsity=0.1"], 2, "'options.sparsity' was fixed"),
        (["learn", "MODEL", "ships", "--options.sparsitty=0.1"], 2, "Did you mean 'sparsity'"),
        (["learn", "NEW", "ships", "--options.sparsitty=0.1"], 2, "sparsity"),
        (["learn", "NEW", "ships", "--options.sparsity={"], 2, "'options.sparsity' must be a YAML value"),
        (["learn", "NEW", "ships", "--keep=0"], 2, "and 'probes' 0"),
        (["learn", "NEW", "ships", "--epochs=0"], 2, "must be a whole number from 1 on"),
        (["learn", "NEW", "ships", "--probes=-1"], 2, "must be a whole number from 0 on"),
        (["learn", "NEW", "ships", "--nonsense"], 2, "Unknown flag '--nonsense'"),
        (["inspect", "nowhere"], 1, "does not exist. Give the folder of a model, or make one with `lockgate learn`"),
        (["predict", "nowhere", "ships"], 1, "does not exist. Give the folder of a model"),
        (["serve", "nowhere"], 1, "does not exist. Give the folder of a model"),
    ],
)
def test_mistakes_are_answered_with_the_way_out(
    command: Command, taught: Path, words: list[str], code: int, message: str
) -> None:
    write(taught / "ships", {"ferry": 4, "tug": 4})
    places = {"MODEL": "model", "NEW": "new", **{name: name for name in ("pets", "ships", "nowhere")}}
    found, out, err = command(*(taught / places[word] if word in places else word for word in words))
    assert (found, out) == (code, "")
    assert message in err
    assert "Traceback" not in err
    assert not (taught / "new").exists()


def test_an_option_is_the_same_however_it_is_spelt(command: Command, taught: Path) -> None:
    """5e0 is text to YAML 1.1; the model has 5.0."""
    write(taught / "ships", {"ferry": 4, "tug": 4})
    gate_lr = "--options.gate_lr=5e0"  # as the recipe has it
    code, _, err = command("learn", taught / "model", taught / "ships", gate_lr, "--epochs=1")
    assert (code, "was fixed" in err) == (0, False)


def test_a_flag_of_another_command_is_not_suggested(command: Command, taught: Path) -> None:
    code, _, err = command("learn", taught / "new", taught / "pets", "--optim.lr=0.1", "--epoch=3")
    assert code == 2
    assert "Unknown flag '--optim.lr'" in err
    assert "mean '--optim.lr'" not in err


def test_a_class_whose_name_is_not_text_is_refused(command: Command, taught: Path) -> None:
    """From an old zip; it could be learnt, and then neither written nor sent."""
    task_images = write(taught / "drinks", {"tea": 4, "cocoa": 4})
    os.rename(os.fsencode(task_images / "cocoa"), os.fsencode(task_images) + b"/caf\xe9")
    code, _, err = command("learn", taught / "new", task_images)
    assert code == 1
    assert "not UTF-8: caf\\udce9. Rename" in err
    assert not (taught / "new").exists()


def test_a_port_that_is_taken_or_none_is_said_so(command: Command, taught: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, _, err = command("serve", taught / "model", f"--port={port}")
    assert code == 1
    assert f"Cannot listen on 127.0.0.1, port {port}" in err
    code, _, err = command("serve", taught / "model", "--port=99999")
    assert (code, "from 0 to 65535" in err) == (2, True)


def test_a_device_that_is_not_there_is_refused_before_there_is_a_model(command: Command, taught: Path) -> None:
    code, _, err = command("learn", taught / "new", taught / "pets", "--device=abacus")
    assert code == 2
    assert "abacus" in err
    assert not (taught / "new").exists()
