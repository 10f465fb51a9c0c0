"""``lockgate serve``: a page and a JSON endpoint that answer for a model."""

from __future__ import annotations

import contextlib
from pathlib import Path

from lockgate.errors import LockgateError


def serve(path: Path, host: str, port: int) -> None:
    """Answer on ``host`` and ``port`` until stopped."""
    try:
        import uvicorn

        from lockgate.serve.app import make_app
    except ModuleNotFoundError as error:
        raise LockgateError(
            f"`lockgate serve` needs the package {error.name}; get it with `pip install 'lockgate[serve]'`."
        ) from error
    app = make_app(path)  # so that a bad model is known before the port is taken
    with contextlib.suppress(KeyboardInterrupt):  # the way to stop it
        uvicorn.run(app, host=host, port=port, access_log=False, server_header=False)
