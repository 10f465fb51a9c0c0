"""The server on loopback: right answers under load, fresh after a task, and polite to what it will not take."""

from __future__ import annotations

import asyncio
import io
import shutil
import socket
import struct
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
import torch
import uvicorn
from PIL import Image
from tests.support.folders import images, teach, write

from lockgate.app.serve import model as module
from lockgate.app.serve.app import make_app
from lockgate.app.serve.model import ServedModel
from lockgate.app.serve.uploads import MOST_BYTES
from lockgate.app.serve.worker import Question
from lockgate.app.trained import Trained, open_trained
from lockgate.app.undo import undo
from lockgate.evaluation.gates import open_gates


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("serve")
    for name, classes in (("pets", ("cat", "dog")), ("tools", ("axe", "saw")), ("ships", ("ferry", "tug"))):
        write(folder / name, dict.fromkeys(classes, 12))
    for name in ("pets", "tools"):
        teach(folder / "model", folder / name)
    return folder


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    """A real server in a thread, on a port of its own."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(make_app(folder / "model"), log_level="error"))
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    server.should_exit = True
    thread.join(20)
    assert not thread.is_alive()


def png(pixels: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, format="png")
    return file.getvalue()


def bomb(side: int) -> bytes:
    """A PNG of a few hundred bytes that claims ``side`` x ``side`` pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    body = zlib.compress(bytes(1000))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def test_200_requests_at_once_are_all_answered_and_all_right(address: str, folder: Path) -> None:
    trained = open_trained(folder / "model")
    pixels = [image for seed, name in enumerate(("cat", "dog", "axe", "saw")) for image in images(name, 50, seed + 5)]

    async def ask_all() -> list[httpx.Response]:
        limits = httpx.Limits(max_connections=200)
        async with httpx.AsyncClient(base_url=address, limits=limits, timeout=120) as client:
            return await asyncio.gather(*(client.post("/predict?top=4", content=png(image)) for image in pixels))

    responses = asyncio.run(ask_all())
    assert [response.status_code for response in responses] == [200] * 200
    for image, response in zip(pixels, responses, strict=True):
        expected = trained.ask(torch.from_numpy(image)[None, None], top=4)[0]
        reply = response.json()["answers"]
        assert [a["class"] for a in reply] == [a.name for a in expected]
        assert [a["confidence"] for a in reply] == pytest.approx([a.confidence for a in expected], abs=1e-6)
    assert len({response.json()["answers"][0]["class"] for response in responses}) > 1


def test_an_answer_shows_the_gates_of_its_task(address: str, folder: Path) -> None:
    image = images("axe", 1, 9)[0]
    reply = httpx.post(f"{address}/predict?task=tools&top=9&details=1", content=png(image)).json()
    assert {answer["task"] for answer in reply["answers"]} == {"tools"}
    assert len(reply["answers"]) == 2
    learner = open_trained(folder / "model").learner
    assert reply["gates"] == open_gates(learner, torch.from_numpy(image)[None, None], 1)
    assert set(reply["gates"]) == {"conv1", "conv2", "conv3"}
    assert reply["seen"].startswith("data:image/png;base64,")


def test_a_new_task_is_noticed_without_a_restart(folder: Path, tmp_path: Path) -> None:
    model = Path(shutil.copytree(folder / "model", tmp_path / "model"))
    answering = ServedModel(model)
    assert [task["name"] for task in answering.about()["tasks"]] == ["pets", "tools"]
    teach(model, folder / "ships")
    assert [task["name"] for task in answering.about()["tasks"]] == ["pets", "tools", "ships"]
    question = Question(png(images("tug", 1)[0]), task="ships", top=1)
    (reply,) = answering.answer([question])
    assert isinstance(reply, dict)
    assert reply["answers"][0]["class"] in ("ferry", "tug")
    undo(model)
    assert [task["name"] for task in answering.about()["tasks"]] == ["pets", "tools"]
    teach(model, folder / "ships")  # its checkpoint has the name that the undone one had
    assert [task["name"] for task in answering.about()["tasks"]] == ["pets", "tools", "ships"]
    shutil.rmtree(model / "checkpoints")  # somebody moves the model: what was read still answers
    assert answering.answer([question]) == [reply]
    assert "has not learnt a task yet" in answering.stale


@pytest.mark.parametrize("before", ["at the start", "at a question"])
def test_a_task_that_ends_while_the_model_is_read_is_noticed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    model = Path(shutil.copytree(folder / "model", tmp_path / "model"))
    write(tmp_path / "cars", dict.fromkeys(("van", "cab"), 12))
    tasks = ["pets", "tools", "ships"]
    coming = [folder / "ships"]

    def slow(path: Path) -> Trained:
        trained = open_trained(path)
        if coming:
            teach(path, coming.pop())
        return trained

    if before == "at a question":
        answering = ServedModel(model)
        teach(model, coming.pop())
        coming.append(tmp_path / "cars")
        tasks.append("cars")
        monkeypatch.setattr(module, "open_trained", slow)
        assert len(answering.about()["tasks"]) == 3, "read before the last task's end"
    else:
        monkeypatch.setattr(module, "open_trained", slow)
        answering = ServedModel(model)
    assert [task["name"] for task in answering.about()["tasks"]] == tasks


@pytest.mark.parametrize("declared", [True, False])
def test_a_50_mb_upload_is_refused_politely(address: str, declared: bool) -> None:
    size = 50 * 2**20

    def parts() -> Iterator[bytes]:
        yield from (bytes(2**20) for _ in range(50))

    content = bytes(size) if declared else parts()
    response = httpx.post(f"{address}/predict", content=content, timeout=60)
    assert response.status_code == 413
    assert f"More than {MOST_BYTES // 2**20} MB" in response.json()["error"]


@pytest.mark.parametrize(
    ("content", "code", "message"),
    [
        (b"this is a text file named cat.png", 415, "not an image"),
        (b"", 415, "Nothing was sent"),
        (png(images("cat", 1)[0])[:60], 415, "Cannot read"),
        (bomb(12_000), 415, "pixels; wanted at most"),
        (bomb(60_000), 415, "too large to be read safely"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n", 415, "not an image"),  # Pillow would start Ghostscript
    ],
    ids=["text", "nothing", "half", "large", "bomb", "program"],
)
def test_bad_uploads_are_refused_politely(address: str, content: bytes, code: int, message: str) -> None:
    response = httpx.post(f"{address}/predict", content=content, timeout=60)
    assert response.status_code == code
    assert message in response.json()["error"]
    assert httpx.post(f"{address}/predict", content=png(images("cat", 1)[0])).status_code == 200, "and it goes on"


@pytest.mark.parametrize(
    ("method", "path", "code", "message"),
    [
        ("GET", "/nothing", 404, "GET /nothing is not answered; wanted one of GET /, /model"),
        ("GET", "/predict", 405, "GET /predict is not answered; wanted POST there."),
        ("DELETE", "/model", 405, "DELETE /model is not answered; wanted GET there."),
        ("POST", "/predict?top=x", 422, "'top': input should be a valid integer"),
        ("POST", "/predict?top=-1", 422, "greater than or equal to 1. Got '-1' instead."),
        ("POST", "/batch?top=101", 422, "less than or equal to 100. Got '101' instead."),
        ("POST", "/predict?details=perhaps", 422, "Got 'perhaps' instead."),
    ],
)
def test_every_refusal_is_a_sentence_in_the_same_place(
    address: str, method: str, path: str, code: int, message: str
) -> None:
    """The framework's own refusals stood elsewhere, as `detail`, in words about its fields."""
    response = httpx.request(method, f"{address}{path}", content=b"x")
    assert response.status_code == code
    assert message in response.json()["error"]
    assert code != 405 or response.headers["Allow"] in ("GET", "POST")


@pytest.mark.parametrize(
    "path", ["/../model.yaml", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/model.yaml", "/docs"]
)
def test_no_file_is_reachable(address: str, path: str) -> None:
    host, port = address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as raw:  # a client library would tidy the path up
        raw.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: raw.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 404 ")
    assert b"root:" not in answer
    assert b"backbone" not in answer


@pytest.mark.parametrize(
    ("query", "code"), [("task=../../etc", 404), ("top=0", 422), ("top=x", 422), ("task=pet", 404)]
)
def test_bad_questions_are_refused(address: str, query: str, code: int) -> None:
    response = httpx.post(f"{address}/predict?{query}", content=png(images("cat", 1)[0]))
    assert response.status_code == code


def test_the_page_stands_alone_and_says_so_to_the_browser(address: str) -> None:
    response = httpx.get(address)
    assert response.status_code == 200
    assert "default-src 'none'" in response.headers["content-security-policy"]
    assert "{{" not in response.text
    for word in ("http://", "https://", "@import", 'src="/'):
        assert word not in response.text
    assert httpx.get(address).headers["content-security-policy"] != response.headers["content-security-policy"]
