"""Containers of every format version decode for ever, on every engine, and the document shows one as it is."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

from s4weights.codec.container import FrameHeader, read_bases
from s4weights.codec.decode import read_reference, read_tail
from s4weights.codec.engines import NativeEngine, ReferenceEngine
from s4weights.codec.types import ElementType, Layout, Predictor
from tests.codec.samples import unpack
from tests.golden import make_golden

FOLDER = Path(__file__).parent / "v1"
CASES = make_golden.cases()
FORMAT = Path(__file__).parents[2] / "docs" / "format.md"
NAMES = [
    *("twins", "delta", "delta-of-delta"),
    *("bf16", "f32-positive", "i64", "text", "noise", "zeros", "several-frames", "empty"),
    *("moments-fast", "moments-balanced", "moments-small"),
]


def test_no_vector_is_missing():
    manifest = json.loads((FOLDER / "manifest.json").read_text())
    assert sorted(manifest) == sorted(NAMES)
    assert sorted(path.stem for path in FOLDER.glob("*.s4w")) == sorted(NAMES)


@pytest.mark.case(37)
@pytest.mark.parametrize("engine", [NativeEngine(), ReferenceEngine()], ids=lambda one: one.name)
@pytest.mark.parametrize("name", NAMES)
def test_a_golden_container_decodes(name, engine):
    known = json.loads((FOLDER / "manifest.json").read_text())[name]
    body = unpack((FOLDER / f"{name}.s4w").read_bytes(), engine, [CASES[base].body for base in CASES[name].bases])
    assert (hashlib.sha256(body).hexdigest(), len(body)) == (known["sha256"], known["bytes"])


@pytest.mark.parametrize("name", NAMES)
def test_the_frames_of_a_golden_container_are_written_again_to_the_byte(name):
    golden = (FOLDER / f"{name}.s4w").read_bytes()
    container = make_golden.packed(name, NativeEngine())
    spans, again = (read_tail(one, object_bytes=len(one)).index.spans() for one in (golden, container))
    assert [(one.start, one.logical_bytes) for one in spans] == [(one.start, one.logical_bytes) for one in again]
    for span, other in zip(spans, again, strict=True):
        frame = golden[span.stored_start :][: span.stored_bytes]
        # zstd, of bytes without a type, promises to decode old frames, not to write the same ones.
        if FrameHeader.parse(frame).element is not ElementType.BYTES:
            assert container[other.stored_start :][: other.stored_bytes] == frame


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("twins", [(Predictor.NARROWED, Layout.RAW, 0), (Predictor.XOR, Layout.RAW, 0)]),
        (
            "delta",
            [
                (Predictor.DIFFERENCE, Layout.PLANES, 1),
                (Predictor.NARROWED, Layout.RAW, 0),
                (Predictor.XOR, Layout.RAW, 1),
            ],
        ),
        ("delta-of-delta", [(Predictor.XOR, Layout.RAW, 1)]),
    ],
)
def test_a_golden_container_refers_to_itself_and_to_others(name, expected):
    golden = (FOLDER / f"{name}.s4w").read_bytes()
    index = read_tail(golden, object_bytes=len(golden)).index
    found = []
    for span in index.spans():
        stored = golden[span.stored_start :][: span.stored_bytes]
        header, needed = FrameHeader.parse(stored), read_reference(stored)
        if needed is not None:
            found.append((header.predictor, header.layout, needed.reference.number))
    assert found == expected
    assert [base.key for base in read_bases(index.about)] == [f"{base}.s4w" for base in CASES[name].bases]


@pytest.mark.parametrize("manifest", [{}, {"zeros": {"sha256": "promised", "bytes": 64}}], ids=["lost", "kept"])
def test_containers_that_exist_are_not_written_again(monkeypatch, tmp_path, manifest):
    monkeypatch.setattr(make_golden, "FOLDER", tmp_path)
    (tmp_path / "zeros.s4w").write_bytes(b"promised")
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    assert make_golden.main() == 0
    assert (tmp_path / "zeros.s4w").read_bytes() == b"promised"
    written = json.loads((tmp_path / "manifest.json").read_text())
    assert sorted({*written, "zeros"}) == sorted(NAMES)
    assert written.get("zeros") == manifest.get("zeros")


def test_the_hexdump_in_the_document_is_the_golden_container():
    rows = re.findall(r"^([0-9a-f]{4}): ((?:[0-9a-f]{2} ?)+?)(?:  .*)?$", FORMAT.read_text(), re.MULTILINE)
    shown = b"".join(bytes.fromhex(octets) for _, octets in rows)
    assert [int(offset, 16) for offset, _ in rows][:1] == [0]
    position = 0
    for offset, octets in rows:
        assert int(offset, 16) == position
        position += len(bytes.fromhex(octets))
    assert shown == (FOLDER / "zeros.s4w").read_bytes()
