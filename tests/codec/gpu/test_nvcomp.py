"""nvCOMP beside the kernels: GDeflate where it gains, ANS where it is asked for, and names for what is missing.

Its module is a stand-in (fake_nvcomp.py), but the GDeflate that it writes is that of nvCOMP's own library.
"""

from __future__ import annotations

import importlib
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from s4weights.codec.decode import decode_frame
from s4weights.codec.encode import encode_frame
from s4weights.codec.engines import NativeEngine, ReferenceEngine, choose_engine
from s4weights.codec.entropy import nvcomp_ans
from s4weights.codec.errors import ConfigError, EngineUnavailable, FormatError, Truncated, UnsupportedVersion
from s4weights.codec.gpu import ans_planes, nvcomp
from s4weights.codec.gpu.engine import GpuEngine
from s4weights.codec.gpu.nvcomp import PageCoder, load_nvcomp
from s4weights.codec.gpu.slots import RingSize
from s4weights.codec.gpu.split import split_planes
from s4weights.codec.planes import split_planes as reference_planes
from s4weights.codec.types import Base, BaseKind, ElementType, Frame, Layout, Level, Mode, Reference
from tests.codec.engines.bodies import weights
from tests.codec.gpu import fake_nvcomp
from tests.codec.gpu.fake import NATIVE, FakeDevice

LENGTH = 300_000


@pytest.fixture
def engine_with(monkeypatch):
    monkeypatch.setattr(nvcomp, "load_nvcomp", lambda: fake_nvcomp)
    monkeypatch.setattr(ans_planes, "_coders", SimpleNamespace())
    made = []

    def make(entropy):
        made.append(GpuEngine(FakeDevice(), RingSize(3, 2 << 20), entropy=entropy))
        return made[-1]

    yield make
    for engine in made:
        engine.close()


def stored(frame):
    return frame.header + bytes(frame.payload)


def periodic() -> Frame:
    """Elements in a period that no rANS sees."""
    rng = np.random.default_rng(3)
    body = np.resize(rng.integers(0, 1 << 16, 4_001).astype("<u2"), LENGTH // 2)
    return Frame(0, ElementType.U16, body.tobytes())


def near_frames() -> tuple[Frame, Frame]:
    """A frame and what it became: few elements changed, in runs."""
    old = weights(LENGTH // 2, ElementType.BF16)
    words = np.frombuffer(old, "<u2").copy()
    for at in range(0, len(words), 3_000):
        words[at : at + 300] ^= 21
    base = Base(Reference(1, 0), BaseKind.SAME, old)
    return Frame(0, ElementType.BF16, words.tobytes(), bases=(base,)), Frame(0, ElementType.BF16, old)


def test_gdeflate_is_written_where_it_gains_and_every_engine_reads_it(engine_with):
    engine = engine_with("gdeflate")
    delta, plain = near_frames()
    for frame, gains in ((periodic(), True), (delta, True), (plain, False)):
        for level in (Level.BALANCED, Level.SMALL):
            coded = encode_frame(frame, engine, level)
            native = encode_frame(frame, NATIVE, level)
            assert not coded.fell_back
            assert (Mode.GDEFLATE in coded.modes) == (gains and native.element is not ElementType.BYTES)
            if Mode.GDEFLATE in coded.modes:
                assert coded.stored_bytes < native.stored_bytes
            else:
                assert stored(coded) == stored(native)
            base = frame.bases[0].data if coded.base is not None else None
            for reader in (NativeEngine(), ReferenceEngine(), engine):
                assert decode_frame(stored(coded), reader, base=base) == frame.data
    assert (engine.counts.faults, engine.counts.off) == (0, "")


def test_frames_with_gdeflate_are_verified_by_the_processor(engine_with, monkeypatch):
    monkeypatch.setattr(fake_nvcomp.Codec, "_encode", lambda self, page: bytes(200))
    coded = encode_frame(periodic(), engine_with("gdeflate"), Level.FAST)
    assert coded.fell_back
    assert decode_frame(stored(coded), NativeEngine()) == periodic().data


def test_exponents_by_nvcomp_are_stamped_and_read_by_nvcomp_alone(engine_with):
    engine = engine_with("nvcomp-ans")
    frame = Frame(0, ElementType.BF16, weights(LENGTH // 2, ElementType.BF16))
    coded = encode_frame(frame, engine)
    assert coded.modes[-1] is Mode.NVCOMP_ANS
    assert not coded.fell_back
    assert engine.counts.faults == 0
    assert decode_frame(stored(coded), engine) == frame.data
    for reader in (NativeEngine(), ReferenceEngine()):
        with pytest.raises(UnsupportedVersion, match=r"nvCOMP 6\.x \(nvidia-nvcomp-cu12 .*repack") as caught:
            decode_frame(stored(coded), reader, where="key")
        assert str(caught.value).startswith("key: frame: plane 1")
    # What such an engine reads, it writes in the open format unless it is told otherwise.
    again = encode_frame(Frame(0, frame.element, decode_frame(stored(coded), engine)), engine_with("open"))
    assert decode_frame(stored(again), NativeEngine()) == frame.data


def test_another_version_of_nvcomp_is_named(engine_with, monkeypatch):
    engine = engine_with("nvcomp-ans")
    frame = Frame(0, ElementType.BF16, weights(LENGTH // 2, ElementType.BF16))
    coded = encode_frame(frame, engine)
    monkeypatch.setattr(fake_nvcomp, "__version__", "7.1.2")
    monkeypatch.setattr(ans_planes, "_coders", SimpleNamespace())
    with pytest.raises(UnsupportedVersion, match=r"nvCOMP 6\.x .*\(nvCOMP 7 is here\)"):
        decode_frame(stored(coded), engine)


def test_without_nvcomp_what_is_missing_is_named(engine_with, monkeypatch):
    engine = engine_with("nvcomp-ans")
    coded = engine.encode(weights(LENGTH // 2, ElementType.BF16), ElementType.BF16)
    monkeypatch.setattr(nvcomp, "load_nvcomp", load_nvcomp)
    monkeypatch.setattr(ans_planes, "_coders", SimpleNamespace())
    with pytest.raises(UnsupportedVersion, match=r"repack.*\(nvCOMP 6.*: no ANS on this machine"):
        engine.decode(coded.payload, coded.element, coded.predictor, coded.layout, coded.planes, LENGTH)


def test_a_machine_without_a_driver_is_named():
    """With the real wheel."""
    if torch.cuda.is_available():
        pytest.skip("there is one")
    for algorithm in ("GDeflate", "ANS"):
        with pytest.raises(EngineUnavailable, match=rf"nvCOMP 6.*: no {algorithm} on this machine: CUDA"):
            PageCoder(algorithm)


def test_a_missing_or_old_wheel_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "nvidia.nvcomp", SimpleNamespace(__version__="5.0.1"))
    with pytest.raises(EngineUnavailable, match=r"expected version 6 or later, found 5\.0\.1"):
        load_nvcomp()

    def import_module(name):
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(importlib, "import_module", import_module)
    with pytest.raises(EngineUnavailable, match=r"the wheel is missing .*pip install 's4weights\[gpu\]'"):
        load_nvcomp()


def test_an_engine_without_its_coder_does_not_begin(monkeypatch):
    """Asked for coders that are not there, a device codes nothing; the processor does."""
    device = FakeDevice()
    engine = GpuEngine(device, RingSize(3, 2 << 20), entropy="nvcomp-ans")
    frame = Frame(0, ElementType.BF16, weights(LENGTH // 2, ElementType.BF16))
    assert stored(encode_frame(frame, engine)) == stored(encode_frame(frame, NATIVE))
    assert "EngineUnavailable: nvCOMP 6" in engine.health.last_fault
    assert device.codec.encoded == []
    engine.close()


def test_coders_of_a_gpu_need_the_gpus_engine():
    for name in ("native", "reference"):
        with pytest.raises(ConfigError, match="entropy: expected open, or with the gpu engine"):
            choose_engine(name, entropy="nvcomp-ans")
    with pytest.raises(ConfigError, match="found 'lzma'"):
        choose_engine("auto", entropy="lzma")


SPLITS = [(ElementType.U8, Layout.PLANES), (ElementType.I64, Layout.PLANES)] + [
    (element, layout)
    for element in (ElementType.BF16, ElementType.F32, ElementType.F64)
    for layout in Layout
    if layout is not Layout.RAW
]


@pytest.mark.parametrize(("element", "layout"), SPLITS)
def test_planes_are_those_of_the_reference(element, layout):
    data = np.random.default_rng(1).bytes(999 * element.width)
    found = split_planes(torch.frombuffer(bytearray(data), dtype=torch.uint8), element, layout)
    assert [bytes(one.numpy()) for one in found] == [bytes(one) for one in reference_planes(data, element, layout)]


def test_a_plane_that_contradicts_itself_is_refused():
    sound = b"\x06\0\0\0" + (5).to_bytes(4, "little") + (3).to_bytes(4, "little") + b"abcdefgh"
    assert nvcomp_ans.read_pages(sound, 65_540) == (6, [(12, 5, 65_536), (17, 3, 4)])
    with pytest.raises(Truncated):
        nvcomp_ans.read_pages(sound[:10], 65_540)
    with pytest.raises(UnsupportedVersion, match="zero bytes, found 000100"):
        nvcomp_ans.read_pages(sound[:2] + b"\1" + sound[3:], 65_540)
    for damaged in (sound[:-1], sound + b"x", sound[:4] + bytes(4) + sound[8:]):
        with pytest.raises(FormatError, match="expected"):
            nvcomp_ans.read_pages(damaged, 65_540)


def test_pages_go_there_and_back_in_zeroed_buffers():
    pages = [torch.randint(0, 9, (size,), dtype=torch.uint8) for size in (65_536, 1, 777)]
    for algorithm in ("ANS", "GDeflate"):
        coder = PageCoder(algorithm, fake_nvcomp)
        coded = coder.encode(pages)
        assert all(map(torch.equal, coder.decode(coded, [65_536, 1, 777]), pages))
    with pytest.raises(FormatError, match="ANS page"):
        PageCoder("ANS", fake_nvcomp).decode([torch.zeros(90, dtype=torch.uint8)], [5])
    assert PageCoder("ANS", fake_nvcomp).encode([]) == PageCoder("ANS", fake_nvcomp).decode([], []) == []
