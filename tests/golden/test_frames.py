"""Frames of every type, level, mode and predictor decode for ever, and every engine writes them to the byte."""

from __future__ import annotations

from functools import cache

import pytest

from s4weights.codec.container import FRAME_HEADER_BYTES, REFERENCE_BYTES, FrameHeader
from s4weights.codec.decode import decode_frame, read_reference
from s4weights.codec.engines import NativeEngine, ReferenceEngine
from s4weights.codec.engines.payload import stored_modes
from s4weights.codec.types import Buffer, ElementType, Layout, Level, Mode, Predictor
from tests.codec.document import decode_payload
from tests.golden import make_frames

CASES = make_frames.cases()
ENGINES = pytest.mark.parametrize("engine", [NativeEngine(), ReferenceEngine()], ids=lambda one: one.name)


@cache
def stored(name: str) -> bytes:
    return (make_frames.FOLDER / f"{name}.frame").read_bytes()


@cache
def modes(name: str) -> tuple[Mode, ...]:
    header = FrameHeader.parse(stored(name))
    payload = stored(name)[FRAME_HEADER_BYTES:]
    return () if header.layout is Layout.RAW else stored_modes(payload, header.predictor, header.planes)


def base_of(name: str) -> Buffer | None:
    """What the stored frame refers to, of what was offered."""
    needed = read_reference(stored(name))
    found = [one.data for one in CASES[name].bases if needed is not None and one.reference == needed.reference]
    return found[0] if found else None


def test_no_frame_is_missing():
    assert {path.stem for path in make_frames.FOLDER.iterdir()} == set(CASES)
    assert {(case.element, case.level) for case in CASES.values()} == {(e, v) for e in ElementType for v in Level}


@ENGINES
@pytest.mark.parametrize("name", CASES)
def test_a_golden_frame_decodes(name, engine):
    assert decode_frame(stored(name), engine, base=base_of(name)) == CASES[name].data


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.bases and Mode.ZSTD not in modes(name)])
def test_a_frame_from_a_base_is_what_the_document_says(name):
    header, base = FrameHeader.parse(stored(name)), base_of(name)
    assert base is not None
    payload = stored(name)[FRAME_HEADER_BYTES + REFERENCE_BYTES :]
    n = header.logical_bytes // header.element.width
    found = decode_payload(payload, header.element, header.predictor, header.layout, n, bytes(base))
    assert found == CASES[name].data


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.bases])
def test_the_predictor_is_the_one_that_the_frame_was_made_for(name):
    header = FrameHeader.parse(stored(name))
    made_for, _, rest = name.partition("-")
    if made_for == "copy":
        expected = (Predictor.NARROWED if rest == "narrowed" else Predictor.XOR, Layout.RAW)
        assert (header.predictor, header.layout) == expected
    else:
        assert header.predictor is Predictor[made_for.upper()]
    if len(CASES[name].bases) == 2:
        assert read_reference(stored(name)).reference == CASES[name].bases[1].reference


# zstd promises to decode old frames, not to write the same ones.
@ENGINES
@pytest.mark.parametrize("name", [name for name in CASES if Mode.ZSTD not in modes(name)])
def test_a_golden_frame_is_written_again_to_the_byte(name, engine):
    assert CASES[name].stored(engine) == stored(name)


def test_the_frames_have_every_mode_layout_and_predictor():
    headers = {name: FrameHeader.parse(stored(name)) for name in CASES}
    payloads = {name: stored(name)[FRAME_HEADER_BYTES:] for name in CASES}
    assert {mode for name in CASES for mode in modes(name)} == set(Mode) - {Mode.GDEFLATE, Mode.NVCOMP_ANS}
    assert {header.layout for header in headers.values()} == set(Layout)
    assert {header.element for header in headers.values()} == set(ElementType)
    heads = [payloads[name][:12] for name, header in headers.items() if header.predictor is Predictor.LEVELS]
    columns = {int.from_bytes(head[:4], "little") for head in heads}
    assert columns == {0, 48, 1_100}
    assert {int.from_bytes(head[4:8], "little") for head in heads} == {0, 13}
    assert max(head[10] for head in heads) >= 1
    # Rows and columns, in front of the planes.
    assert (payloads["exact-levels-balanced"][12], payloads["exact-levels-balanced"][20]) == (Mode.RANS, Mode.RANS)


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("blocks-fast", Mode.NIBBLES),
        ("blocks-balanced", Mode.HUFFMAN),
        ("blocks-small", Mode.RANS),
        ("rare-fast", Mode.BITS),
        ("rare-balanced", Mode.RANS),
    ],
)
def test_planes_of_two_blocks_are_stored_with_every_mode_that_has_blocks(name, mode):
    assert modes(name) == (Mode.CONSTANT, mode)


def test_frames_that_exist_are_not_written_again(monkeypatch, tmp_path):
    monkeypatch.setattr(make_frames, "FOLDER", tmp_path)
    (tmp_path / "bf16-fast.frame").write_bytes(b"promised")
    assert make_frames.main() == 0
    assert (tmp_path / "bf16-fast.frame").read_bytes() == b"promised"
    assert (tmp_path / "f32-small.frame").read_bytes() == stored("f32-small")
