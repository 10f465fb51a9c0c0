"""``lockgate serve``: a page and a JSON endpoint that answer for a model."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable
from pathlib import Path

from lockgate.errors import LockgateError

GRACE = 15
"""Seconds that requests have to end when the server is asked to stop."""
TOKEN = "LOCKGATE_TOKEN"
"""Environment variable: who asks must know it. Not a flag: everybody on a machine sees those."""


def serve(
    path: Path,
    host: str,
    port: int,
    queue: int | None = None,
    token_file: Path | None = None,
    say: Callable[[str], None] = print,
) -> None:
    """Answer on ``host`` and ``port`` until stopped; what has been asked by then is answered.

    ``queue`` images may wait. With a ``token_file``, or a token in the environment, whoever asks must know it.
    """
    token = read_token(token_file)
    try:
        import uvicorn

        from lockgate.app.serve.app import QUEUE, make_app
    except ModuleNotFoundError as error:
        raise LockgateError(
            f"`lockgate serve` needs the package {error.name}; get it with `pip install 'lockgate[serve]'`."
        ) from error
    # A name that leads to this machine is asked for by name only if it is one of these: else any page in a browser
    # could read what is served here, through a name of its own.
    local = ("127.0.0.1", "localhost")
    hosts = local if host in local else ("*",)
    app = make_app(path, hosts, QUEUE if queue is None else queue, token)  # a bad model is known before a port is taken
    config = uvicorn.Config(
        app, access_log=False, server_header=False, log_level="warning", timeout_graceful_shutdown=GRACE
    )
    with _listening(host, port) as listening, contextlib.suppress(KeyboardInterrupt):  # the way to stop it
        name = f"[{host}]" if ":" in host else host
        reach = "" if host in local else ", to everybody who can reach this machine (--token-file keeps others out)"
        guarded = ", to those who know the token" if token else reach
        say(f"http://{name}:{listening.getsockname()[1]} answers for {path}{guarded}; Ctrl-C stops it")
        uvicorn.Server(config).run(sockets=[listening])
    say(f"{path} is no longer served; everything that was asked has been answered")


def read_token(file: Path | None) -> str | None:
    """The token from a file, else from the environment; None: nobody needs one.

    A variable that is there and empty is a secret that got lost on its way: nobody meant to answer everybody.
    """
    if file is None and TOKEN not in os.environ:
        return None
    try:
        token = (os.environ[TOKEN] if file is None else file.read_text(encoding="utf-8")).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise LockgateError(f"Cannot read the token in {file}: {error}. Write it there as one line of text.") from error
    if not token or not token.isascii() or not token.isprintable():
        remedy = f"Set {TOKEN} to it, or unset it" if file is None else "Write it there"
        raise LockgateError(f"{file or TOKEN} holds no token; wanted one line of printable ASCII. {remedy}.")
    return token


def _listening(host: str, port: int) -> socket.socket:
    """A socket on ``host`` and ``port``, or an error that says why not."""
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise LockgateError(
            f"Cannot listen on {host}, port {port}: {error}. Choose others with `--host` and `--port`."
        ) from error
