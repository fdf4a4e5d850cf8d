"""S3's XML documents, written and read."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias
from xml.sax.saxutils import escape

from s4weights.proxy.checksums.algorithms import ELEMENTS
from s4weights.proxy.errors import S3Error
from s4weights.proxy.upstream.protocol import NO_CONDITIONS, Conditions, Part

NAMESPACE: Final = "http://s3.amazonaws.com/doc/2006-03-01/"
# A thousand keys of a kibibyte, or ten thousand parts: S3's own bounds, with room.
MAX_DOCUMENT_BYTES: Final = 4 << 20
MAX_DELETE_KEYS: Final = 1_000
# An element takes some hundred bytes however short it is written. Ten thousand parts with a checksum have 80,000 marks; with
# all that S3 knows of a part, 160,000.
_MAX_MARKS: Final = 200_000
_MAX_TAGS: Final = 10
_DECLARATION: Final = '<?xml version="1.0" encoding="UTF-8"?>\n'
# Characters that XML 1.0 does not allow even escaped; S3 writes their references all the same.
_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\r]")
# An error that no parser reads tells nothing: there they are replaced.
_UNREADABLE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_SPECIAL: Final = re.compile('[&<>"\x00-\x08\x0b\x0c\x0e-\x1f\x7f\r]')

Tree: TypeAlias = str | Mapping[str, "Tree | None"] | Iterable[Mapping[str, "Tree | None"]]
"""A text; children by name (None: left out); or several elements of the name they stand under."""


def document(name: str, tree: Mapping[str, Tree | None], *, namespace: bool = True) -> bytes:
    """Write a document."""
    attribute = f' xmlns="{NAMESPACE}"' if namespace else ""
    return f"{_DECLARATION}<{name}{attribute}>{_children(tree)}</{name}>".encode(errors="replace")


def element_document(root: ElementTree.Element) -> bytes:
    """Write a document that was read, and changed."""
    ElementTree.register_namespace("", NAMESPACE)
    return f"{_DECLARATION}{_references(ElementTree.tostring(root, 'unicode'))}".encode(errors="replace")


def error_document(error: S3Error, *, resource: str, request_id: str, host_id: str) -> bytes:
    """Write an error as S3 does."""
    tree = {
        "Code": error.code,
        "Message": error.message,
        **{name: _UNREADABLE.sub("\ufffd", text) for name, text in error.fields.items()},
        "Resource": resource,
        "RequestId": request_id,
        "HostId": host_id,
    }
    return document("Error", tree, namespace=False)


def _children(tree: Mapping[str, Tree | None]) -> str:
    return "".join(_element(name, value) for name, value in tree.items() if value is not None)


def _element(name: str, value: Tree) -> str:
    if isinstance(value, str):
        return f"<{name}>{_text(value)}</{name}>"
    if isinstance(value, Mapping):
        return f"<{name}>{_children(value)}</{name}>"
    return "".join(f"<{name}>{_children(item)}</{name}>" for item in value)


def _text(value: str) -> str:
    if _SPECIAL.search(value) is None:
        return value
    return _references(escape(value, {'"': "&quot;"}))


def _references(text: str) -> str:
    return _CONTROL.sub(lambda match: f"&#x{ord(match[0]):x};", text)


@dataclass(frozen=True, slots=True)
class DeleteTarget:
    """One object of DeleteObjects, and what must hold for it."""

    key: str
    version_id: str | None = None
    conditions: Conditions = NO_CONDITIONS


@dataclass(frozen=True, slots=True)
class DeleteRequest:
    """What DeleteObjects asks for, and whether to answer failures only."""

    objects: list[DeleteTarget]
    quiet: bool


def parse_complete(data: bytes) -> list[Part]:
    """CompleteMultipartUpload's parts as listed. Raises: S3Error MalformedXML."""
    root = _parse(data, "CompleteMultipartUpload")
    parts = []
    for element in root.iterfind("Part"):
        number, etag = element.findtext("PartNumber"), element.findtext("ETag")
        if number is None or etag is None or not number.strip().isascii() or not number.strip().isdigit():
            raise S3Error("MalformedXML")
        checksums = {header: text for name, header in ELEMENTS.items() if (text := element.findtext(name))}
        parts.append(Part(int(number.strip()[:9]), etag.strip().strip('"'), checksums=checksums))
    if not parts:
        raise S3Error("MalformedXML")
    return parts


def parse_delete(data: bytes) -> DeleteRequest:
    """Raises: S3Error MalformedXML."""
    root = _parse(data, "Delete")
    objects = []
    for element in root.iterfind("Object"):
        key = element.findtext("Key")
        if key is None:
            raise S3Error("MalformedXML")
        conditions = Conditions(
            if_match=element.findtext("ETag"),
            if_match_size=element.findtext("Size"),
            if_match_modified=element.findtext("LastModifiedTime"),
        )
        objects.append(DeleteTarget(key, element.findtext("VersionId"), conditions))
    if not 1 <= len(objects) <= MAX_DELETE_KEYS:
        raise S3Error("MalformedXML")
    return DeleteRequest(objects, (root.findtext("Quiet") or "").strip().lower() == "true")


def parse_tagging(data: bytes) -> dict[str, str]:
    """A set of tags, as in the field of a form. Raises: S3Error MalformedXML, InvalidTag."""
    rows = _parse(data, "Tagging").findall("TagSet/Tag")
    tags = {row.findtext("Key") or "": row.findtext("Value") or "" for row in rows}
    if "" in tags or len(tags) < len(rows):
        raise S3Error("InvalidTag", "A tag needs a key of its own.", status=400)
    if len(tags) > _MAX_TAGS:
        raise S3Error("BadRequest", f"Object tags cannot be greater than {_MAX_TAGS}.", status=400)
    return tags


def _parse(data: bytes, name: str) -> ElementTree.Element:
    # No S3 document has a document type; without one there are no entities to expand.
    # Decoded here, as UTF-8 alone: expat would also take UTF-16, in which the bytes of "<!" do not show.
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise S3Error("MalformedXML") from None
    if "<!" in text.replace("<!--", "") or text.count("<") > _MAX_MARKS:
        raise S3Error("MalformedXML")
    try:
        root = ElementTree.fromstring(text)  # noqa: S314 - no document type, bounded size
    except ElementTree.ParseError:
        raise S3Error("MalformedXML") from None
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    if root.tag != name:
        raise S3Error("MalformedXML")
    return root
