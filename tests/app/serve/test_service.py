"""The server as programs use it: forms, batches, health, metrics, tokens, a full queue, and its end."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
import uvicorn
from tests.app.serve.test_app import address, folder, png  # noqa: F401  fixtures
from tests.support.folders import images
from tests.support.systems import posix

from lockgate.app.serve import read_token
from lockgate.app.serve.app import make_app
from lockgate.app.serve.uploads import uploads
from lockgate.app.serve.worker import Busy, Question, Worker
from lockgate.app.trained import open_trained
from lockgate.errors import DataError, LockgateError

FORM = "multipart/form-data; boundary=x"
CAT, AXE = png(images("cat", 1, 7)[0]), png(images("axe", 1, 7)[0])


@contextmanager
def served(model: Path, **settings: Any) -> Iterator[tuple[str, uvicorn.Server]]:
    """A server of its own, with settings of its own."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(make_app(model, **settings), log_level="error"))
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{listening.getsockname()[1]}", server
    server.should_exit = True
    thread.join(20)
    assert not thread.is_alive()


def test_a_form_is_answered_as_the_bytes_are(address: str) -> None:  # noqa: F811
    raw = httpx.post(f"{address}/predict", content=CAT).json()
    form = httpx.post(f"{address}/predict", files={"image": ("cat.png", CAT, "image/png")}, data={"note": "mine"})
    assert (form.status_code, form.json()) == (200, raw)
    assert httpx.post(f"{address}/predict", files={"any name": CAT}).json() == raw


@pytest.mark.parametrize(
    ("content", "kind", "message"),
    [
        (b"--x\r\n\r\n--x--", "multipart/form-data", "has no boundary"),
        (
            b"--x\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--x--",
            "multipart/form-data; boundary=x",
            "no file",
        ),
        (b"garbage", "multipart/form-data; boundary=x", "no file"),
        (b"--x\r\nno end of headers", "multipart/form-data; boundary=x", "no file"),
    ],
)
def test_a_form_without_a_file_is_told_so(address: str, content: bytes, kind: str, message: str) -> None:  # noqa: F811
    response = httpx.post(f"{address}/predict", content=content, headers={"Content-Type": kind})
    assert response.status_code == 415
    assert message in response.json()["error"]


def test_the_files_of_a_form_are_read_byte_for_byte() -> None:
    awkward = b"\r\n--boundary-\r\n\r\n--\r\n\x00\xff"
    request = httpx.Request("POST", "http://x", files=[("a", ("1.png", awkward)), ("b", ("2.png", b""))])
    found = uploads(request.read(), request.headers["content-type"])
    assert [(file.name, file.data) for file in found] == [("1.png", awkward), ("2.png", b"")]
    assert uploads(b"raw", "image/png")[0].data == b"raw"
    with pytest.raises(DataError, match="no file"):
        uploads(b"", "multipart/form-data; boundary=x")


def test_a_batch_answers_every_file_and_names_the_bad_one(address: str) -> None:  # noqa: F811
    files = [("f", ("cat.png", CAT)), ("f", ("notes.png", b"no picture")), ("f", ("axe.png", AXE))]
    response = httpx.post(f"{address}/batch?top=2", files=files)
    assert response.status_code == 200
    cat, notes, axe = response.json()["results"]
    assert (cat["image"], len(cat["answers"]), axe["image"]) == ("cat.png", 2, "axe.png")
    assert notes["image"] == "notes.png"
    assert "notes.png is not an image" in notes["error"]
    alone = httpx.post(f"{address}/predict?top=2", content=CAT).json()["answers"]
    assert [(a["class"], a["task"]) for a in cat["answers"]] == [(a["class"], a["task"]) for a in alone]
    assert [a["confidence"] for a in cat["answers"]] == pytest.approx([a["confidence"] for a in alone], abs=1e-6)
    response = httpx.post(f"{address}/batch?task=nothing", files=files)
    assert (response.status_code, "Unknown task" in response.json()["error"]) == (404, True)
    response = httpx.post(f"{address}/predict", files=files)
    assert (response.status_code, "Send several to /batch" in response.json()["error"]) == (415, True)
    response = httpx.post(f"{address}/batch", files=[("f", (f"{i}.png", CAT)) for i in range(300)])
    assert (response.status_code, "wanted at most 256" in response.json()["error"]) == (413, True)


def test_health_and_metrics_say_how_it_is(address: str) -> None:  # noqa: F811
    httpx.post(f"{address}/predict", content=CAT)
    httpx.post(f"{address}/predict", content=b"no picture")
    assert httpx.get(f"{address}/health").json() == {"status": "ok", "waiting": 0}
    text = httpx.get(f"{address}/metrics").text
    found = {name: float(value) for name, value in re.findall(r"^(\w+(?:{[^}]*})?) ([\d.]+)$", text, re.M)}
    assert found['lockgate_requests_total{route="/predict",code="200"}'] >= 1
    assert found['lockgate_requests_total{route="/predict",code="415"}'] >= 1
    assert found["lockgate_images_total"] >= 2
    assert found["lockgate_tasks"] == 2
    assert found["lockgate_waiting_images"] == 0
    assert found['lockgate_answer_seconds_bucket{le="+Inf"}'] == found["lockgate_answer_seconds_count"]
    assert found["process_resident_memory_bytes"] > 1e7
    assert not [line for line in text.splitlines() if not re.match(r"# (HELP|TYPE) \w+ |\w+({.*})? [\d.]+$", line)]


def test_a_token_is_wanted_where_one_was_set(folder: Path, tmp_path: Path) -> None:  # noqa: F811
    (tmp_path / "token").write_text("open sesame\n")
    token = read_token(tmp_path / "token")
    with served(folder / "model", token=token) as (where, _):
        for headers in ({}, {"Authorization": "Bearer close"}, {"Authorization": "open sesame"}):
            response = httpx.post(f"{where}/predict", content=CAT, headers=headers)
            assert response.status_code == 401
            assert "Authorization: Bearer TOKEN" in response.json()["error"]
            assert httpx.get(f"{where}/model", headers=headers).status_code == 401
            assert httpx.get(f"{where}/metrics", headers=headers).status_code == 401
        assert httpx.get(f"{where}/health").status_code == 200
        assert httpx.get(where).status_code == 200, "the page asks for it"
        assert httpx.get(f"{where}/model", headers={"Authorization": f"Bearer {token}"}).status_code == 200


@pytest.mark.parametrize(("text", "message"), [("", "holds no token"), ("ä", "holds no token"), (None, "Cannot read")])
def test_a_bad_token_file_is_refused(tmp_path: Path, text: str | None, message: str) -> None:
    if text is not None:
        (tmp_path / "token").write_text(text)
    with pytest.raises(LockgateError, match=message):
        read_token(tmp_path / "token")


@pytest.mark.parametrize("text", ["", "  ", "ä", "a\nb"])
def test_a_token_that_got_lost_on_its_way_opens_nothing(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("LOCKGATE_TOKEN", text)
    with pytest.raises(LockgateError, match=r"LOCKGATE_TOKEN holds no token.* Set LOCKGATE_TOKEN to it, or unset it"):
        read_token(None)
    monkeypatch.setenv("LOCKGATE_TOKEN", " open sesame\n")
    assert read_token(None) == "open sesame"
    monkeypatch.delenv("LOCKGATE_TOKEN")
    assert read_token(None) is None


def test_a_full_queue_answers_503_and_loses_nobody(folder: Path) -> None:  # noqa: F811
    expected = open_trained(folder / "model").ask(torch.from_numpy(images("cat", 1, 7)[0])[None, None])[0][0].name

    async def ask_all(where: str) -> list[httpx.Response]:
        limits = httpx.Limits(max_connections=120)
        async with httpx.AsyncClient(base_url=where, limits=limits, timeout=60) as client:
            return await asyncio.gather(*(client.post("/predict?top=1", content=CAT) for _ in range(120)))

    with served(folder / "model", limit=4) as (where, _):
        responses = asyncio.run(ask_all(where))
        codes = [response.status_code for response in responses]
        assert set(codes) == {200, 503}
        assert all(r.json()["answers"][0]["class"] == expected for r in responses if r.status_code == 200)
        refused = next(r for r in responses if r.status_code == 503)
        assert refused.headers["retry-after"] == "1"
        assert "4 may at most" in refused.json()["error"]
        assert httpx.post(f"{where}/predict", content=CAT).status_code == 200, "and there is room again"
        assert httpx.get(f"{where}/health").json()["waiting"] == 0


def test_what_waits_is_answered_before_the_end() -> None:
    begun, go = threading.Event(), threading.Event()

    def slow(questions: Any) -> list[Any]:
        begun.set()
        go.wait(10)
        return [{"n": len(questions)} for _ in questions]

    worker = Worker(slow, limit=5)
    worker.enter(5)
    replies = [worker.ask(Question(b"")) for _ in range(5)]
    begun.wait(10)
    with pytest.raises(Busy, match="5 images are waiting"):
        worker.enter(1)
    ending = threading.Thread(target=worker.close)
    ending.start()
    go.set()
    ending.join(10)
    assert [reply.result(1)["n"] for reply in replies] in ([1, 4, 4, 4, 4], [5] * 5, [2, 2, 3, 3, 3]), "side by side"
    worker.leave(5)
    assert worker.inside == 0


def test_a_failure_is_told_to_those_who_asked_and_the_next_are_answered() -> None:
    answers = iter([ValueError("broken"), [{"fine": True}]])

    def once(questions: Any) -> Any:
        found = next(answers)
        if isinstance(found, Exception):
            raise found
        return found

    worker = Worker(once, limit=2)
    with pytest.raises(ValueError, match="broken"):
        worker.ask(Question(b"")).result(10)
    assert worker.ask(Question(b"")).result(10) == {"fine": True}
    worker.close()


@posix
def test_the_command_ends_gracefully_when_asked_to(folder: Path) -> None:  # noqa: F811
    words = ["serve", str(folder / "model"), "--port=0"]
    server = subprocess.Popen([sys.executable, "-m", "lockgate", *words], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    where = server.stdout.readline().split()[0]
    assert httpx.post(f"{where}/predict", content=CAT).status_code == 200
    server.send_signal(signal.SIGTERM)
    out, _ = server.communicate(timeout=60)
    assert server.returncode == 0
    assert "everything that was asked has been answered" in out
