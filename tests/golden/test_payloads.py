"""Payloads of every type decode for ever, and every engine writes them to the byte."""

from __future__ import annotations

import pytest

from s4weights.codec.engines import NativeEngine, ReferenceEngine
from s4weights.codec.engines.payload import layout_of, read_planes
from s4weights.codec.types import ElementType, Mode
from tests.golden import make_payloads

ENGINES = [NativeEngine(), ReferenceEngine()]


def stored(element: ElementType) -> bytes:
    return (make_payloads.FOLDER / f"{element.name.lower()}.payload").read_bytes()


def test_no_payload_is_missing():
    assert {path.stem for path in make_payloads.FOLDER.iterdir()} == {element.name.lower() for element in ElementType}


@pytest.mark.parametrize("engine", ENGINES, ids=lambda one: one.name)
@pytest.mark.parametrize("element", list(ElementType), ids=lambda one: one.name)
def test_a_golden_payload_decodes(element, engine):
    data = make_payloads.logical(element)
    assert engine.decode(stored(element), element, layout_of(element), element.width, len(data)) == data


# zstd promises to decode old frames, not to write the same ones.
@pytest.mark.parametrize("engine", ENGINES, ids=lambda one: one.name)
@pytest.mark.parametrize("element", list(ElementType)[1:], ids=lambda one: one.name)
def test_a_golden_payload_is_written_again_to_the_byte(element, engine):
    assert make_payloads.payload(element, engine) == stored(element)


def test_the_payloads_have_every_mode():
    assert {mode for element in ElementType for mode, _ in read_planes(stored(element), element.width)} == set(Mode)


def test_payloads_that_exist_are_not_written_again(monkeypatch, tmp_path):
    monkeypatch.setattr(make_payloads, "FOLDER", tmp_path)
    (tmp_path / "bf16.payload").write_bytes(b"promised")
    assert make_payloads.main() == 0
    assert (tmp_path / "bf16.payload").read_bytes() == b"promised"
    assert (tmp_path / "f32.payload").read_bytes() == stored(ElementType.F32)
