"""GDeflate as NVIDIA's own compressor writes it, at each of its levels, is read by every engine."""

from __future__ import annotations

import json
import struct
import zipfile

import pytest

from s4weights.codec.engines import NativeEngine, ReferenceEngine
from s4weights.codec.types import ElementType, Layout, Mode, Predictor
from tests.golden import make_gdeflate

INPUTS = make_gdeflate.inputs()
# The reference takes a microsecond for what the kernels do in a nanosecond.
MAX_REFERENCE_BYTES = 300


@pytest.fixture(scope="module")
def pages() -> dict[str, list[bytes]]:
    """Of each input, by level."""
    with zipfile.ZipFile(make_gdeflate.FILE) as archive:
        index = json.loads(archive.read("index.json"))
        return {name: [archive.read(member) for member in members] for name, members in index.items()}


def payload(page: bytes) -> bytes:
    """A frame of one plane of one page."""
    return struct.pack("<B3xII", Mode.GDEFLATE, 4 + len(page), len(page)) + page


def test_at_least_200_inputs_at_every_level(pages):
    assert sorted(pages) == sorted(INPUTS)
    assert len(pages) >= 200
    assert {len(levels) for levels in pages.values()} == {13}


@pytest.mark.parametrize("engine", [NativeEngine(), ReferenceEngine()], ids=lambda one: one.name)
def test_each_decodes(pages, engine):
    for name, data in INPUTS.items():
        for level, page in enumerate(pages[name]):
            if engine.name == "reference" and level not in (0, 1, 6, 12) and len(page) > MAX_REFERENCE_BYTES:
                continue
            for element in (ElementType.U8, ElementType.BYTES):
                found = engine.decode(payload(page), element, Predictor.NONE, Layout.PLANES, 1, len(data))
                assert found == data, f"{name}, level {level}"


def test_vectors_that_exist_are_not_written_again(monkeypatch, tmp_path):
    monkeypatch.setattr(make_gdeflate, "FILE", tmp_path / "gdeflate.zip")
    make_gdeflate.FILE.write_bytes(b"promised")
    make_gdeflate.main("no library is needed")
    assert make_gdeflate.FILE.read_bytes() == b"promised"
