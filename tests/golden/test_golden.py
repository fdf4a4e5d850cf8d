"""Containers of every format version decode for ever, on every engine, and the document shows one as it is."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

from s4weights.codec.engines import NativeEngine, ReferenceEngine
from tests.codec.samples import unpack
from tests.golden import make_golden

FOLDER = Path(__file__).parent / "v1"
FORMAT = Path(__file__).parents[2] / "docs" / "format.md"
NAMES = ["bf16", "f32-positive", "i64", "text", "noise", "zeros", "empty"]


def test_no_vector_is_missing():
    manifest = json.loads((FOLDER / "manifest.json").read_text())
    assert sorted(manifest) == sorted(NAMES)
    assert sorted(path.stem for path in FOLDER.glob("*.s4w")) == sorted(NAMES)


@pytest.mark.parametrize("engine", [NativeEngine(), ReferenceEngine()], ids=lambda one: one.name)
@pytest.mark.parametrize("name", NAMES)
def test_a_golden_container_decodes(name, engine):
    known = json.loads((FOLDER / "manifest.json").read_text())[name]
    body = unpack((FOLDER / f"{name}.s4w").read_bytes(), engine)
    assert (hashlib.sha256(body).hexdigest(), len(body)) == (known["sha256"], known["bytes"])


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
