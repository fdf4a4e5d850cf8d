"""multipart/form-data as browsers post it: fields first, then one file, which streams. Source: RFC 7578; AWS, POST Object."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from typing import Final

from s4weights.proxy.errors import S3Error

# S3's own bound on all of a form but its file.
_MAX_FIELDS_BYTES: Final = 20 << 10
# Of the headers of one field.
_MAX_HEAD_BYTES: Final = 4 << 10
_MAX_FIELDS: Final = 100
_BOUNDARY: Final = re.compile(
    r'multipart/form-data\s*;.*?\bboundary=(?:"([^"]{1,200})"|([^\s;"]{1,200})(?![^\s;]))', re.IGNORECASE
)
_NAME: Final = re.compile(r'\bname="([^"]*)"')
_FILE_NAME: Final = re.compile(r'\bfilename="([^"]*)"')


def boundary_of(content_type: str) -> str | None:
    """The boundary of a form, None where it is no form."""
    match = _BOUNDARY.match(content_type.strip())
    return (match[1] or match[2]) if match else None


class Form:
    """Call `read_fields`, then iterate over the bytes of the file."""

    def __init__(self, source: AsyncIterator[bytes], boundary: str) -> None:
        self.fields: dict[str, str] = {}
        """By name in lower case."""
        self.file_name = ""
        self._source = source
        self._data = bytearray(b"\r\n")
        self._delimiter = f"\r\n--{boundary}".encode()

    async def read_fields(self) -> Mapping[str, str]:
        """Everything before the file. Raises: S3Error where there is none, or too much before it."""
        await self._skip_to_delimiter()
        seen_bytes = 0
        for _ in range(_MAX_FIELDS):
            head = await self._until(b"\r\n\r\n", _MAX_HEAD_BYTES)
            name, file_name = self._names(head)
            if name == "file":
                self.file_name = re.split(r"[/\\]", file_name)[-1]
                return self.fields
            value = await self._until(self._delimiter, _MAX_FIELDS_BYTES - seen_bytes)
            seen_bytes += len(value)
            self.fields[name] = _decode(value)
            await self._end_line()
        raise _malformed(f"More than {_MAX_FIELDS} fields.")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """The file. What follows it is ignored, as S3 does. Raises: S3Error where the form ends within it."""
        keep = len(self._delimiter) - 1
        while True:
            at = self._data.find(self._delimiter)
            if at >= 0:
                yield bytes(self._data[:at])
                break
            ready = len(self._data) - keep
            if ready > 0:
                piece = bytes(self._data[:ready])
                del self._data[:ready]
                yield piece
            await self._more()
        async for _ in self._source:
            pass

    async def _skip_to_delimiter(self) -> None:
        await self._until(self._delimiter, _MAX_HEAD_BYTES)
        await self._end_line()

    async def _end_line(self) -> None:
        """Past the end of a delimiter's line."""
        while len(self._data) < 2:
            await self._more()
        if self._data[:2] == b"--":
            raise S3Error("InvalidArgument", "POST requires exactly one file upload per request.", ArgumentName="file")
        if self._data[:2] != b"\r\n":
            raise _malformed("A boundary is followed by something else.")
        del self._data[:2]

    async def _until(self, mark: bytes, most: int) -> bytes:
        while (at := self._data.find(mark)) < 0:
            if len(self._data) > most + len(mark):
                break
            await self._more()
        if at < 0 or at > most:
            raise S3Error("MaxPostPreDataLengthExceededError", "The form is too long before its file.", status=400)
        found = bytes(self._data[:at])
        del self._data[: at + len(mark)]
        return found

    async def _more(self) -> None:
        piece = await anext(self._source, b"")
        if not piece:
            raise _malformed("The form ends before its last boundary.")
        self._data += piece

    def _names(self, head: bytes) -> tuple[str, str]:
        for line in _decode(head).split("\r\n"):
            header, _, value = line.partition(":")
            name = _NAME.search(value)
            if header.strip().lower() == "content-disposition" and name:
                file_name = _FILE_NAME.search(value)
                return name[1].lower(), file_name[1] if file_name else ""
        raise _malformed("A field without a name.")


def _decode(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise _malformed("A field is not UTF-8.") from None


def _malformed(why: str) -> S3Error:
    return S3Error(
        "MalformedPOSTRequest",
        f"The body of your POST request is not well-formed multipart/form-data. {why}",
        status=400,
    )
