"""``lockgate serve``: a page and a JSON endpoint that answer for a model."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path

from lockgate.errors import LockgateError


def serve(path: Path, host: str, port: int) -> None:
    """Answer on ``host`` and ``port`` until stopped."""
    try:
        import uvicorn

        from lockgate.app.serve.app import make_app
    except ModuleNotFoundError as error:
        raise LockgateError(
            f"`lockgate serve` needs the package {error.name}; get it with `pip install 'lockgate[serve]'`."
        ) from error
    # A name that leads to this machine is asked for by name only if it is one of these: else any page in a browser
    # could read what is served here, through a name of its own.
    local = ("127.0.0.1", "localhost")
    hosts = local if host in local else ("*",)
    app = make_app(path, hosts)  # so that a bad model is known before the port is taken
    config = uvicorn.Config(app, access_log=False, server_header=False, log_level="warning")
    with _listening(host, port) as listening, contextlib.suppress(KeyboardInterrupt):  # the way to stop it
        name = f"[{host}]" if ":" in host else host
        print(f"http://{name}:{listening.getsockname()[1]} answers for {path}; Ctrl-C stops it", flush=True)
        uvicorn.Server(config).run(sockets=[listening])


def _listening(host: str, port: int) -> socket.socket:
    """A socket on ``host`` and ``port``, or an error that says why not."""
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise LockgateError(
            f"Cannot listen on {host}, port {port}: {error}. Choose others with `--host` and `--port`."
        ) from error
