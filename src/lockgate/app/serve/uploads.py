"""Bodies of requests: bytes as they are, or the files of a form; never more of them in memory than allowed."""

from __future__ import annotations

from email.message import Message
from email.parser import BytesParser
from email.policy import HTTP
from typing import NamedTuple

from fastapi import Request

from lockgate.errors import DataError, LockgateError

MOST_BYTES = 10 * 2**20
"""Of an image."""
MOST_BATCH_BYTES = 4 * MOST_BYTES
"""Of all images of one request."""
DRAINED = 8 * MOST_BYTES
"""Bytes of too large an upload that are read and thrown away, so that its sender comes to read why it is refused."""


class TooLarge(LockgateError):
    """An upload of too many bytes, or images."""


class Upload(NamedTuple):
    """One image file that was sent."""

    name: str
    data: bytes


async def drain(request: Request) -> None:
    """Read what is sent and throw it away."""
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > DRAINED:
            return


async def body(request: Request, most: int = MOST_BYTES) -> bytes:
    """The bytes that are sent, never more than ``most`` of them in memory."""
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size <= most:
            parts.append(part)
        elif size > max(DRAINED, most):
            break
        else:
            parts.clear()
    if size > most:
        raise TooLarge(f"More than {most // 2**20} MB were sent; wanted at most that. Shrink it and try again.")
    if not size:
        raise DataError(
            "Nothing was sent; wanted the bytes of an image file as the body of the request, or a form with files."
        )
    return b"".join(parts)


def uploads(data: bytes, content_type: str) -> list[Upload]:
    """The image files in a body: those of a form, or the body itself."""
    if not content_type.lower().startswith("multipart/"):
        return [Upload("What was sent", data)]
    header = Message()
    header["content-type"] = content_type
    boundary = header.get_boundary()
    if not boundary:
        raise DataError("The form has no boundary in its Content-Type; wanted what curl -F or a browser sends.")
    found = [_file(part) for part in _sections(data, boundary.encode("latin-1", "replace"))]
    files = [file for file in found if file is not None]
    if not files:
        raise DataError("The form has no file; wanted a field that holds an image file: curl -F image=@cat.png.")
    return files


def _sections(data: bytes, boundary: bytes) -> list[bytes]:
    """What stands between the boundaries (RFC 2046, 5.1.1)."""
    _, *parts = (b"\r\n" + data).split(b"\r\n--" + boundary)
    return [part for part in parts if not part.startswith(b"--")]


def _file(section: bytes) -> Upload | None:
    """A part of a form, if it is a file."""
    headers, separator, content = section.partition(b"\r\n\r\n")
    if not separator:
        return None
    name = BytesParser(policy=HTTP).parsebytes(headers.lstrip(b" \t\r\n") + b"\r\n\r\n").get_filename()
    return None if name is None else Upload(name or "a file without a name", content)
