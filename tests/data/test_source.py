from __future__ import annotations

import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from lockgate.data.source import Release, base_folder, fetch, find, locate
from lockgate.errors import DataError

CONTENT = b"the official bytes"
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Handler(BaseHTTPRequestHandler):
    """/good/ serves the file, /bad/ other bytes, /short/ fewer bytes than it promises, anything else 404."""

    def do_GET(self) -> None:
        self.server.asked.append(self.path)  # type: ignore[attr-defined]
        kind = self.path.split("/")[1]
        body = {"good": CONTENT, "bad": b"other bytes", "short": CONTENT[:5]}.get(kind)
        self.send_response(404 if body is None else 200)
        self.send_header("Content-Length", str(len(CONTENT) if kind == "short" else len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def server():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.asked = []  # type: ignore[attr-defined]
    server.url = f"http://127.0.0.1:{server.server_port}"  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def release(server, *kinds: str) -> Release:
    return Release("file.bin", SHA256, tuple(f"{server.url}/{kind}/" for kind in kinds), ("file.raw",))


def test_second_mirror_serves_when_the_first_has_no_file(server):
    path = fetch(release(server, "none", "good"), "set")
    assert path.read_bytes() == CONTENT
    assert path.parent.name == "set"
    assert server.asked == ["/none/file.bin", "/good/file.bin"]


def test_second_mirror_serves_when_the_first_serves_other_bytes(server):
    assert fetch(release(server, "bad", "short", "good"), "set").read_bytes() == CONTENT


def test_fetched_file_is_not_fetched_again(server):
    file = release(server, "good")
    assert fetch(file, "set") == fetch(file, "set")
    assert len(server.asked) == 1


def test_wrong_checksum_is_named_and_leaves_no_file(server, lonely):
    with pytest.raises(DataError) as caught:
        fetch(release(server, "bad"), "set")
    assert SHA256 in str(caught.value)
    assert hashlib.sha256(b"other bytes").hexdigest() in str(caught.value)
    assert not [path for path in lonely.rglob("*") if path.is_file()]


def test_all_mirrors_failing_names_file_urls_errors_and_remedy(server):
    with pytest.raises(DataError) as caught:
        fetch(release(server, "none", "short"), "set")
    message = str(caught.value)
    for part in ("file.bin", f"{server.url}/none/file.bin: 404", f"{server.url}/short/file.bin: ", "DIR/set/"):
        assert part in message
    assert "--data-dir DIR or set LOCKGATE_DATA=DIR" in message


def test_damaged_cached_file_is_named_and_left_alone(server):
    file = release(server, "good")
    path = fetch(file, "set")
    path.write_bytes(b"damaged")
    with pytest.raises(DataError, match=rf"{path} has SHA-256 .* move it away"):
        fetch(file, "set")
    assert path.read_bytes() == b"damaged"
    assert len(server.asked) == 1


@pytest.mark.parametrize("place", ["file.bin", "set/file.bin", "set/file.raw", "SET/raw/file.bin"])
def test_local_file_is_found_and_not_fetched(server, kept, seal, place):
    (kept / place).parent.mkdir(parents=True, exist_ok=True)
    (kept / place).write_bytes(b"not the official bytes: structure is what readers check")
    seal()
    assert locate([release(server, "good")], kept, ("set", "SET/raw", "")) == [kept / place]
    assert server.asked == []


def test_explicit_folder_without_the_file_is_an_error_and_fetches_nothing(server, kept, seal):
    seal()
    with pytest.raises(DataError) as caught:
        locate([release(server, "good")], kept, ("set", ""))
    message = str(caught.value)
    for part in ("file.bin or file.raw", f"  - {kept / 'set'}\n", f"  - {kept}\n", "leave --data-dir out"):
        assert part in message
    assert server.asked == []


def test_environment_folder_is_used_first_and_falls_back_to_fetching(server, kept, seal, monkeypatch):
    (kept / "file.raw").write_bytes(b"mine")
    seal()
    monkeypatch.setenv("LOCKGATE_DATA", str(kept))
    other = Release("other.bin", SHA256, (f"{server.url}/good/",))
    mine, fetched = locate([release(server, "good"), other], None, ("set", ""))
    assert mine == kept / "file.raw"
    assert fetched.read_bytes() == CONTENT
    assert kept not in fetched.parents


def test_data_dir_goes_before_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("LOCKGATE_DATA", "/nowhere")
    assert base_folder(tmp_path) == tmp_path
    assert base_folder(None) == Path("/nowhere")
    monkeypatch.setenv("LOCKGATE_DATA", "")
    assert base_folder(None) is None


def test_tilde_is_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert base_folder(Path("~")) == tmp_path


def test_data_dir_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(DataError, match=r"nowhere is not a folder.*--data-dir"):
        base_folder(tmp_path / "nowhere")


def test_find_prefers_earlier_folders_and_ignores_folders_of_that_name(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x").write_text(folder)
    (tmp_path / "y").mkdir()
    assert find(["x"], tmp_path, ("b", "a")) == tmp_path / "b" / "x"
    assert find(["y"], tmp_path, ("",)) is None
    assert find(["x"], None, ("",)) is None
