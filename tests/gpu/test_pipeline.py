"""The kernels behind the pipeline: on the GPU as in service; interpreted, on the device of the tests that is late."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from s4weights.codec.decode import decode_frame
from s4weights.codec.encode import encode_frame
from s4weights.codec.gpu.engine import GpuEngine
from s4weights.codec.gpu.slots import RingSize
from s4weights.codec.types import Base, BaseKind, ElementType, Frame, Grid, Reference
from tests.codec.engines.bodies import moments, weights
from tests.codec.gpu.fake import NATIVE, FakeDevice
from tests.gpu.conftest import INTERPRETED

BF16, F16, F32 = ElementType.BF16, ElementType.F16, ElementType.F32


@pytest.fixture
def engine(codec, device) -> Iterator[GpuEngine]:
    if INTERPRETED:
        used = FakeDevice()
        used.codec = codec
    else:
        from s4weights.codec.gpu.cuda import CudaDevice

        used = CudaDevice(device, codec)
    made = GpuEngine(used, RingSize(3, 1 << 20), gather_s=0.05)
    made.least_bytes = 1
    yield made
    made.close()


def test_frames_go_through_the_pipeline_as_native_codes_them(engine):
    older = weights(2000, BF16, 1)
    wanted = [
        Frame(0, BF16, weights(2000, BF16)),
        Frame(0, F32, moments(40, 50, F32, products=2), Grid(50)),
        Frame(0, F16, weights(1001, F16)),
        Frame(0, BF16, weights(2000, BF16), bases=(Base(Reference(1, 0), BaseKind.SAME, older),)),
        Frame(0, F32, np.random.default_rng(0).bytes(4000)),
    ]
    with ThreadPoolExecutor(len(wanted)) as pool:
        coded = list(pool.map(lambda frame: encode_frame(frame, engine), wanted))
        for frame, one in zip(wanted, coded, strict=True):
            expected = encode_frame(frame, NATIVE)
            assert (one.header, bytes(one.payload)) == (expected.header, bytes(expected.payload))
        assert engine.counts.frames == len(wanted)
        stored = [one.header + bytes(one.payload) for one in coded]
        bases = [None if one.base is None else older for one in coded]
        bodies = list(pool.map(lambda one, base: decode_frame(one, engine, base=base), stored, bases))
    assert bodies == [frame.data for frame in wanted]
    assert (engine.counts.faults, engine.counts.fallbacks, engine.counts.off) == (0, 0, "")
