"""`lockgate serve` under twice the load that it holds, killed and started again in the middle.

    python benchmarks/serve_load.py [--seconds 300] [--queue 64] [--connections 128]

First the server is asked as fast as it answers; then, for so many seconds, twice as often. Every reply is compared with
what the network itself says, everything that is not answered is counted by what came instead, and the memory of the
server is read from /metrics. Half-way it is killed with SIGKILL and started again: what fails then, and only then, may
fail to connect.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from lockgate import ContinualClassifier
from lockgate.app.trained import open_trained

SIDE, CLASSES, TASKS = 12, 3, 3
PROBE = 2.0
"""Seconds in which the rate that the server holds is found."""


@dataclass
class Found:
    """What became of the requests."""

    replies: Counter[str] = field(default_factory=Counter)
    wrong: int = 0
    lost: int = 0
    """Not answered at all, while the server was up."""
    down: int = 0
    """Not answered while it was killed and started again."""
    memory: list[int] = field(default_factory=list)
    rate: float = 0.0
    offered: float = 0.0
    restarted: float = 0.0

    def text(self) -> str:
        """All of it in a few lines."""
        counts = ", ".join(f"{count:,} x {code}" for code, count in sorted(self.replies.items()))
        grown = self.memory[-1] / self.memory[0] - 1 if self.memory else float("nan")
        return (
            f"held {self.rate:.0f} answers/s, was asked {self.offered:.0f} times/s\n"
            f"{counts}; wrong {self.wrong}, lost {self.lost}, while it was down {self.down} "
            f"(for {self.restarted:.1f} s)\n"
            f"memory after the restart {self.memory[0] / 2**20:.0f} MB, at the end {self.memory[-1] / 2**20:.0f} MB "
            f"({100 * grown:+.1f} %)"
        )


def pictures(seed: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Noisy images of a few patterns, (N, H, W), and the number of each one's pattern."""
    patterns = np.random.default_rng(seed).integers(0, 2, (CLASSES, SIDE, SIDE)) * 150
    rng = np.random.default_rng(seed + 1000)
    labels = np.arange(count) % CLASSES
    return (patterns[labels] + rng.integers(0, 100, (count, SIDE, SIDE))).astype(np.uint8), labels


def teach(folder: Path) -> Path:
    """A model of a few tasks."""
    model = ContinualClassifier(folder / "model", width=16, epochs=3, verbose=False)
    for task in range(TASKS):
        x, y = pictures(task, 60)
        model.learn(x, [f"{task}-{label}" for label in y], name=f"task {task}")
    return folder / "model"


def questions(model: Path, count: int = 30) -> list[tuple[bytes, str]]:
    """Requests, each with the class that the network itself gives its image."""
    trained, made = open_trained(model), []
    for task in range(TASKS):
        x, _ = pictures(task, count)
        answers = trained.ask(torch.from_numpy(x)[:, None])
        for image, answer in zip(x, answers, strict=True):
            file = io.BytesIO()
            Image.fromarray(image).save(file, format="png")
            body = file.getvalue()
            head = f"POST /predict?top=1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
            made.append((head.encode() + body, answer[0].name))
    return made


class Server:
    """The command in a process of its own, on one port."""

    def __init__(self, model: Path, queue: int) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self._words = ["serve", str(model), f"--port={self.port}", f"--queue={queue}", "--quiet"]

    async def start(self) -> None:
        """Start it, and wait until it answers."""
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen([sys.executable, "-m", "lockgate", *self._words], env=environment)
        while True:
            try:
                if (await self.get("/health"))[0] == 200:
                    return
            except OSError:
                await asyncio.sleep(0.05)

    async def get(self, path: str) -> tuple[int, bytes]:
        """A page."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            return await exchange(reader, writer, f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        finally:
            writer.close()

    async def memory(self) -> int:
        """Bytes of the process."""
        _, text = await self.get("/metrics")
        found = re.search(rb"^process_resident_memory_bytes (\d+)$", text, re.M)
        assert found
        return int(found[1])


async def exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> tuple[int, bytes]:
    """Send a request; the status and the body that come back."""
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head.lower())
    assert length
    return int(head.split()[1]), await reader.readexactly(int(length[1]))


class Load:
    """Connections that ask, each one question at a time: ``rate`` times a second in all, or as fast as they can."""

    def __init__(self, server: Server, asked: list[tuple[bytes, str]], connections: int) -> None:
        self.server, self.asked, self.connections = server, asked, connections
        self.up = True

    async def run(self, seconds: float, found: Found, rate: float | None = None) -> int:
        """Ask; how many questions were asked."""
        self.end, self._rate, self._count, self._begin = time.monotonic() + seconds, rate, 0, time.monotonic()
        await asyncio.gather(*(self._connection(found) for _ in range(self.connections)))
        return self._count

    async def _connection(self, found: Found) -> None:
        rng = random.Random(id(asyncio.current_task()))
        reader = writer = None
        while (now := time.monotonic()) < self.end:
            if self._rate is not None:  # the next place in the schedule, whichever connection is free
                due = self._begin + self._count / self._rate
                self._count += 1
                await asyncio.sleep(max(0.0, due - now))
            else:
                self._count += 1
            request, wanted = rng.choice(self.asked)
            up = self.up
            try:
                if writer is None:
                    reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port)
                assert reader is not None
                code, body = await exchange(reader, writer, request)
            except (OSError, asyncio.IncompleteReadError):
                writer = None
                both = up and self.up and self.server.process.poll() is None
                found.lost, found.down = found.lost + both, found.down + (not both)
                await asyncio.sleep(0.05)
                continue
            found.replies[str(code)] += 1
            if code == 200 and json.loads(body)["answers"][0]["class"] != wanted:
                found.wrong += 1
        if writer is not None:
            writer.close()


async def measure(folder: Path, seconds: float, queue: int, connections: int) -> Found:
    """Everything, on a model made in ``folder``."""
    model = teach(folder)
    asked, server, found = questions(model), Server(model, queue), Found()
    await server.start()
    try:
        held = Load(server, asked, min(queue, connections) // 2)
        warm = Found()
        await held.run(PROBE, warm)
        found.rate = warm.replies["200"] / PROBE
        load = Load(server, asked, connections)

        async def kill() -> None:
            await asyncio.sleep(seconds / 2)
            load.up = False
            began = time.monotonic()
            server.process.send_signal(signal.SIGKILL)
            server.process.wait()
            await server.start()
            found.restarted, load.up = time.monotonic() - began, True
            load.end = time.monotonic() + seconds / 2
            for _ in range(9):
                await asyncio.sleep(seconds / 20)
                found.memory.append(await server.memory())

        began = time.monotonic()
        count, _ = await asyncio.gather(load.run(2 * seconds + 60, found, 2 * found.rate), kill())
        found.offered = count / (time.monotonic() - began)
    finally:
        server.process.terminate()
        server.process.wait(30)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--queue", type=int, default=64)
    parser.add_argument("--connections", type=int, default=128)
    given = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(measure(Path(folder), given.seconds, given.queue, given.connections))
    print(found.text())
    if found.wrong or found.lost:
        sys.exit(1)


if __name__ == "__main__":
    main()
