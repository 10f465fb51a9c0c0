"""The web application: one page, what the model knows, and an answer for an image. It reads no file but the model's.

    GET  /          the page
    GET  /model     tasks, classes, image size
    POST /predict   the bytes of an image file -> classes with task and confidence, and the gates that opened

No route takes a path. An upload is never written to disk, and is decoded only after its size is known to be harmless.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse
from starlette.concurrency import run_in_threadpool
from starlette.middleware.trustedhost import TrustedHostMiddleware

from lockgate.app.serve.model import ServedModel
from lockgate.errors import DataError, LockgateError, UnknownNameError
from lockgate.version import __version__

MOST_BYTES = 10 * 2**20
"""Of an upload."""
DRAINED = 8 * MOST_BYTES
"""Bytes of too large an upload that are read and thrown away, so that its sender comes to read why it is refused."""


class TooLarge(LockgateError):
    """An upload of too many bytes."""


def make_app(path: Path, hosts: Sequence[str] = ("*",)) -> FastAPI:
    """The application for the model or run in ``path``; it answers to the names ``hosts`` only."""
    answering = ServedModel(path)
    app = FastAPI(title="Lockgate", version=__version__, docs_url=None, redoc_url=None)  # those pages fetch scripts
    template = _template()

    @app.get("/", response_class=HTMLResponse)
    def page() -> HTMLResponse:
        nonce = secrets.token_urlsafe(16)
        policy = (
            f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'unsafe-inline'; img-src data: blob:; "
            "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        return HTMLResponse(template.replace("{{ nonce }}", nonce), headers={"Content-Security-Policy": policy})

    @app.get("/model")
    def model() -> dict[str, Any]:
        return answering.about()

    @app.post("/predict")
    async def predict(
        request: Request, task: str | None = None, top: Annotated[int, Query(ge=1, le=100)] = 5
    ) -> dict[str, Any]:
        data = await _body(request)
        return await run_in_threadpool(answering.answer, data, task or None, top)

    @app.exception_handler(LockgateError)
    def refuse(request: Request, error: LockgateError) -> JSONResponse:
        codes: dict[type[LockgateError], int] = {DataError: 415, UnknownNameError: 404, TooLarge: 413}
        return JSONResponse({"error": str(error)}, codes.get(type(error), 500))

    @app.middleware("http")
    async def plain(request: Request, call_next: Any) -> Any:
        response = await call_next(request)
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Cache-Control"] = "no-store"
        return response

    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False)
    return app


async def _body(request: Request) -> bytes:
    """The uploaded bytes, never more than allowed of them in memory."""
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size <= MOST_BYTES:
            parts.append(part)
        elif size > DRAINED:
            break
        else:
            parts.clear()
    if size > MOST_BYTES:
        raise TooLarge(
            f"The image has more than {MOST_BYTES // 2**20} MB; wanted at most that. Shrink it and try again."
        )
    if not size:
        raise DataError("Nothing was sent; wanted the bytes of an image file as the body of the request.")
    return b"".join(parts)


def _template() -> str:
    """The page with its style, which it shares with the report."""
    here = Path(__file__).parent
    style = (here.parents[1] / "report" / "style.html").read_text(encoding="utf-8")
    return (here / "page.html").read_text(encoding="utf-8").replace("{{ style }}", style)
