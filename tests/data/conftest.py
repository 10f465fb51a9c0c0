"""What the tests of data sets share: tiny files written by hand, real data if there is some, and a promise."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest


def fingerprint(folder: Path) -> dict[str, str]:
    """Every path under a folder with the hash of its content."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        for path in sorted(folder.rglob("*"))
    }


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Path]:
    """A data folder. Call ``seal`` once it is written: after the test, nothing in it may have changed."""
    folder = tmp_path / "data"
    folder.mkdir()
    yield folder
    seal = tmp_path / "seal"
    assert seal.exists(), "the test did not seal its folder"
    assert repr(fingerprint(folder)) == seal.read_text()


@pytest.fixture
def seal(tmp_path: Path, kept: Path):
    return lambda: (tmp_path / "seal").write_text(repr(fingerprint(kept)))


@pytest.fixture(autouse=True)
def lonely(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest):
    """No test sees the user's cache or reaches the net: an empty cache, and a proxy that nobody listens at."""
    cache = tmp_path_factory.mktemp("cache")
    for name in ("HOME", "XDG_CACHE_HOME"):  # macOS and Linux
        monkeypatch.setenv(name, str(cache))
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "127.0.0.1")
    if "real_data" not in request.fixturenames:
        monkeypatch.delenv("LOCKGATE_DATA", raising=False)
    return cache


@pytest.fixture
def real_data() -> Path:
    folder = os.environ.get("LOCKGATE_DATA")
    if not folder:
        pytest.skip(
            "needs real data: set LOCKGATE_DATA to a folder with mnist/, cifar-10-batches-bin/, svhn/, imagenet50/"
        )
    return Path(folder)
