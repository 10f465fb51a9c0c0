"""The web application: one page, what the model knows, and answers for images. It reads no file but the model's.

    GET  /          the page
    GET  /model     tasks, classes, image size
    POST /predict   one image (its bytes, or a form with a file) -> classes with task and confidence
    POST /batch     a form with files -> the same for each, or why it could not be read
    GET  /health    whether it answers
    GET  /metrics   what it has done, for Prometheus

No route takes a path. An upload is never written to disk, and is decoded only after its size is known to be harmless.
Whoever finds no room in the queue is told so with 503, and nobody is left without an answer.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware

from lockgate.app.serve.metrics import Metrics
from lockgate.app.serve.model import ServedModel
from lockgate.app.serve.uploads import MOST_BATCH_BYTES, MOST_BYTES, TooLarge, Upload, body, drain, uploads
from lockgate.app.serve.worker import Busy, Question, Worker
from lockgate.errors import DataError, LockgateError, UnknownNameError
from lockgate.version import __version__

QUEUE = 256
"""Images that may wait for an answer."""
OPEN_ROUTES = ("/", "/health")
"""What needs no token: the page holds nothing of the model, and asks for one."""
CODES: dict[type[LockgateError], int] = {DataError: 415, UnknownNameError: 404, TooLarge: 413, Busy: 503}
ROUTES = "GET /, /model, /health, /metrics; POST /predict, /batch"
Top = Annotated[int, Query(ge=1, le=100)]


class Service:
    """A served model, the thread that asks it, and the counts."""

    def __init__(self, path: Path, limit: int) -> None:
        self.metrics = Metrics()
        self.model = ServedModel(path, self._reloaded)
        self.worker = Worker(self.model.answer, limit)
        self.stopping = False

    def _reloaded(self) -> None:
        self.metrics.reloads += 1

    @asynccontextmanager
    async def images(self, request: Request, most: int) -> AsyncIterator[list[Upload]]:
        """The images of a request, as long as they are needed. There must be room for one, and for its bytes, before
        any are read; what is refused is read and thrown away, so that its sender comes to read why."""
        declared = request.headers.get("content-length", "")
        size = min(int(declared), most) if declared.isdecimal() else most
        try:
            self.worker.enter(1, size)
        except Busy:
            await drain(request)
            raise
        try:
            yield uploads(await body(request, most), request.headers.get("content-type", ""))
        finally:
            self.worker.leave(1, size)

    async def ask(
        self, files: Sequence[Upload], task: str | None, top: int, details: bool
    ) -> list[dict[str, Any] | LockgateError]:
        """What each image shows, or why there is no answer; ``Busy`` if there is no room for all of them."""
        began, more = time.monotonic(), len(files) - 1  # the first has room already
        self.worker.enter(more)
        try:
            replies = [self.worker.ask(Question(file.data, file.name, task, top, details)) for file in files]
            found = await asyncio.gather(*map(asyncio.wrap_future, replies), return_exceptions=True)
        finally:
            self.worker.leave(more)
        self.metrics.answered(len(files), time.monotonic() - began)
        for reply in found:
            if isinstance(reply, BaseException) and not isinstance(reply, LockgateError):
                raise reply
        return [reply for reply in found if isinstance(reply, (dict, LockgateError))]


def make_app(path: Path, hosts: Sequence[str] = ("*",), limit: int = QUEUE, token: str | None = None) -> FastAPI:
    """The application for the model or run in ``path``; it answers to the names ``hosts`` only, to those with ``token``
    if one is given, and lets ``limit`` images wait."""
    service = Service(path, limit)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        service.stopping = True
        await run_in_threadpool(service.worker.close)

    # Its own pages about itself fetch scripts from elsewhere.
    app = FastAPI(title="Lockgate", version=__version__, docs_url=None, redoc_url=None, lifespan=lifespan)
    _add_pages(app, service)
    _add_answers(app, service)
    _add_rules(app, service, token)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False)
    return app


def _add_pages(app: FastAPI, service: Service) -> None:
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
        return service.model.about()

    @app.get("/health")
    async def health() -> JSONResponse:
        stale = bool(service.model.stale)
        status = "stopping" if service.stopping else "stale" if stale else "ok"
        return JSONResponse({"status": status, "waiting": service.worker.inside}, 503 if service.stopping else 200)

    @app.get("/metrics")
    def metrics() -> PlainTextResponse:
        tasks, worker = len(service.model.about()["tasks"]), service.worker
        return PlainTextResponse(service.metrics.text(worker.inside, worker.limit, tasks))


def _add_answers(app: FastAPI, service: Service) -> None:
    @app.post("/predict")
    async def predict(request: Request, task: str | None = None, top: Top = 5, details: bool = False) -> dict[str, Any]:
        async with service.images(request, MOST_BYTES) as files:
            if len(files) > 1:
                raise DataError(f"{len(files)} files were sent; wanted one here. Send several to /batch.")
            (reply,) = await service.ask(files, task or None, top, details)
        if isinstance(reply, LockgateError):
            raise reply
        return reply

    @app.post("/batch")
    async def batch(request: Request, task: str | None = None, top: Top = 1) -> dict[str, Any]:
        async with service.images(request, MOST_BATCH_BYTES) as files:
            if len(files) > service.worker.limit:
                raise TooLarge(f"{len(files)} images were sent; wanted at most {service.worker.limit} at a time.")
            replies = await service.ask(files, task or None, top, details=False)
        unknown = next((reply for reply in replies if isinstance(reply, UnknownNameError)), None)
        if unknown is not None:  # the question was wrong, not an image
            raise unknown
        results = [
            {"image": file.name, **({"error": str(reply)} if isinstance(reply, LockgateError) else reply)}
            for file, reply in zip(files, replies, strict=True)
        ]
        return {"results": results}


def _add_rules(app: FastAPI, service: Service, token: str | None) -> None:
    """Errors in words, headers of every response, who may ask, and the count of what was asked."""

    @app.exception_handler(LockgateError)
    def refuse(request: Request, error: LockgateError) -> JSONResponse:
        headers = {"Retry-After": "1"} if isinstance(error, Busy) else None
        return JSONResponse({"error": str(error)}, CODES.get(type(error), 500), headers)

    @app.exception_handler(RequestValidationError)
    def wrong(request: Request, error: RequestValidationError) -> JSONResponse:
        found = [(str(e["loc"][-1]), e["msg"], str(e["input"])) for e in error.errors()]
        told = [f"{name!r}: {said[0].lower()}{said[1:]}. Got {given!r} instead." for name, said, given in found]
        return JSONResponse({"error": " ".join(told)}, 422)

    @app.exception_handler(HTTPException)
    def nothing(request: Request, error: HTTPException) -> JSONResponse:
        asked, wanted = f"{request.method} {request.url.path}", (error.headers or {}).get("Allow")
        remedy = f"wanted {wanted} there" if wanted else f"wanted one of {ROUTES}"
        return JSONResponse({"error": f"{asked} is not answered; {remedy}."}, error.status_code, error.headers)

    @app.middleware("http")
    async def plain(request: Request, call_next: Any) -> Any:
        path = request.url.path
        if token is None or path in OPEN_ROUTES or _allowed(request, token):
            response = await call_next(request)
        else:
            await drain(request)
            told = "Wanted the header `Authorization: Bearer TOKEN` with the token that the server was started with."
            response = JSONResponse({"error": told}, 401, {"WWW-Authenticate": "Bearer"})
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Cache-Control"] = "no-store"
        known = any(getattr(route, "path", None) == path for route in app.routes)
        service.metrics.request(path if known else "other", response.status_code)
        return response


def _allowed(request: Request, token: str) -> bool:
    given = request.headers.get("authorization", "")
    return secrets.compare_digest(given.encode("utf-8", "replace"), f"Bearer {token}".encode())


def _template() -> str:
    """The page with its style, which it shares with the report."""
    here = Path(__file__).parent
    style = (here.parents[1] / "report" / "style.html").read_text(encoding="utf-8")
    return (here / "page.html").read_text(encoding="utf-8").replace("{{ style }}", style)
