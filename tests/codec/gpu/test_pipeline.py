"""The pipeline on a device that is late, out of step and faulty: no frame lost, none sent unverified, none out of place."""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import torch

from s4weights.codec.decode import decode_frame
from s4weights.codec.encode import encode_frame
from s4weights.codec.engines import NativeEngine
from s4weights.codec.errors import ChecksumMismatch, FormatError
from s4weights.codec.gpu.encode_batch import CheckedPayload
from s4weights.codec.gpu.engine import GpuEngine
from s4weights.codec.gpu.slots import RingSize
from s4weights.codec.gpu.tensor_engine import TensorEngine
from s4weights.codec.types import NO_GRID, Base, BaseKind, ElementType, Frame, Grid, Layout, Level, Reference
from tests.codec.engines.bodies import moments, weights
from tests.codec.gpu.fake import NATIVE, FakeDevice, Faults, raising

SMALL = RingSize(slots=3, batch_bytes=1 << 20)
ROWS = 128 << 10


@contextmanager
def engine_on(device, size=SMALL, **options):
    engine = GpuEngine(device, size, gather_s=0.02, **options)
    try:
        yield engine
    finally:
        engine.close()


def frames(count, length=ROWS, element=ElementType.BF16):
    """Different from one another in every byte that matters."""
    body = weights(count * length // element.width, element)
    return [Frame(n * length, element, body[n * length : (n + 1) * length]) for n in range(count)]


def encode_all(engine, wanted, threads=8, level=Level.BALANCED):
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda frame: encode_frame(frame, engine, level), wanted))


def stored(frame):
    return frame.header + bytes(frame.payload)


def assert_native_bytes(wanted, coded, level=Level.BALANCED):
    for frame, one in zip(wanted, coded, strict=True):
        assert stored(one) == stored(encode_frame(frame, NATIVE, level))
        assert not one.fell_back


def test_every_frame_comes_back_in_its_place_however_late_the_device_is():
    device = FakeDevice(delay_s=0.01)
    wanted = frames(100)
    with engine_on(device) as engine:
        coded = encode_all(engine, wanted, threads=24)
        assert_native_bytes(wanted, coded)
        assert engine.counts == replace(
            engine.counts, frames=100, faults=0, fallbacks=0, off="", logical_bytes=100 * ROWS
        )
        # Several frames a batch: that is what the device is for.
        assert engine.counts.batches < 50
        with ThreadPoolExecutor(24) as pool:
            bodies = list(pool.map(lambda frame: decode_frame(stored(frame), engine), coded))
    assert bodies == [frame.data for frame in wanted]
    assert sum(device.codec.decoded) >= 200  # each one verified, and each one decoded


def test_frames_of_every_kind_share_the_device():
    device = FakeDevice()
    grid, rows = Grid(64, 0), moments(1024, 64, ElementType.F32)
    wanted = [
        *frames(6),
        *frames(3, element=ElementType.F32),
        *frames(2, element=ElementType.F64),
        Frame(0, ElementType.F32, rows, grid),
        Frame(0, ElementType.I64, np.arange(16_384, dtype="<i8").tobytes()),
        Frame(0, ElementType.U8, bytes(100_000)),
        Frame(0, ElementType.BF16, np.random.default_rng(1).bytes(ROWS)),
        Frame(0, ElementType.BYTES, b"a pickle of some length " * 9000),
        Frame(0, ElementType.BF16, frames(1)[0].data[:4096]),
    ]
    with engine_on(device) as engine:
        expected = 0
        for level in Level:
            coded = encode_all(engine, wanted, level=level)
            assert_native_bytes(wanted, coded, level)
            assert [decode_frame(stored(one), engine) for one in coded] == [frame.data for frame in wanted]
            # Bytes without a type and short frames are the processor's; what is stored raw needs nobody.
            expected += len(wanted) - 2
            expected += sum(
                one.element is not ElementType.BYTES and bool(one.modes) and one.logical_bytes > 4096 for one in coded
            )
        assert engine.counts.frames == expected
    assert set(device.codec.levels) == set(Level)


def test_frames_are_coded_against_bases_on_the_device():
    old, new = frames(2)
    near = bytes(memoryview(old.data)[:-64]) + new.data[-64:]
    narrow = frames(1, ROWS // 2)[0].data
    wide = (np.frombuffer(narrow, "<u2").astype("<u4") << 16).tobytes()
    wanted = [
        Frame(0, ElementType.BF16, near, bases=(Base(Reference(1, 0), BaseKind.SAME, old.data),)),
        Frame(0, ElementType.BF16, old.data, bases=(Base(Reference(1, 0), BaseKind.SAME, old.data),)),
        Frame(0, ElementType.BF16, narrow, bases=(Base(Reference(1, 0), BaseKind.WIDER, wide),)),
        Frame(0, ElementType.F32, wide, bases=(Base(Reference(1, 0), BaseKind.NARROWER, narrow),)),
    ]
    device = FakeDevice()
    with engine_on(device) as engine:
        coded = encode_all(engine, wanted)
        assert_native_bytes(wanted, coded)
        assert all(one.base is not None for one in coded)
        for frame, one in zip(wanted, coded, strict=True):
            assert decode_frame(stored(one), engine, base=frame.bases[0].data) == frame.data
        assert engine.counts.frames == 4 + sum(one.element is not ElementType.BYTES for one in coded)
    assert coded[1].predictor.needs_base
    assert len(coded[1].payload) == 16


def test_what_is_handed_out_says_what_it_was_compared_with():
    [frame] = frames(1)
    with engine_on(FakeDevice()) as engine:
        coded = engine.encode(frame.data, frame.element)
        assert isinstance(coded, CheckedPayload)
        assert engine.decodes_to(coded, frame.data)
        assert engine.decodes_to(replace(coded, checked=b""), frame.data)
        assert not engine.decodes_to(coded, bytes(len(frame.data)))


@pytest.mark.parametrize(
    "faults",
    [
        Faults(encode={1: raising(torch.OutOfMemoryError("no memory"))}),
        Faults(encode={1: raising(RuntimeError("CUDA error: an illegal memory access was encountered"))}),
        Faults(decode={1: raising(RuntimeError("launch failure"))}),
        Faults(decode={1: raising(FormatError("plane 0: expected ..."))}),
        Faults(wrong_payload={1}),
        Faults(wrong_decode={1}),
        Faults(torn_up={1}),
        Faults(torn_down={1}),
    ],
    ids=["memory", "launch", "launch in decode", "refused", "wrong payload", "wrong decode", "torn up", "torn down"],
)
def test_a_batch_that_fails_is_coded_by_the_processor_and_counted(faults, caplog):
    device, wanted = FakeDevice(faults), frames(40)
    with engine_on(device) as engine, caplog.at_level(logging.WARNING):
        assert_native_bytes(wanted, encode_all(engine, wanted))
        counts = engine.counts
    assert (counts.faults, counts.off) == (1, "")
    assert counts.fallbacks + counts.frames == 40
    assert 0 < counts.fallbacks <= 8
    assert [one for one in caplog.records if "coded by the processor" in one.message]


def test_a_wrong_copy_is_found_though_the_device_sees_none():
    """What was torn on its way is the same for the device's own comparison; only the sums tell."""
    device, wanted = FakeDevice(Faults(torn_up={0}, torn_down={1})), frames(20)
    with engine_on(device) as engine:
        coded = encode_all(engine, wanted)
        assert_native_bytes(wanted, coded)
        assert engine.counts.faults == 2


def test_three_faults_in_a_row_switch_the_engine_off(caplog):
    device = FakeDevice(Faults(encode={n: raising(RuntimeError("no more")) for n in range(2, 99)}))
    wanted = frames(80)
    with engine_on(device) as engine:
        assert_native_bytes(wanted, encode_all(engine, wanted, threads=4))
        counts = engine.counts
        assert counts.faults == 3
        assert "3 faults in a row, the last one RuntimeError: no more" in counts.off
        assert len(device.codec.encoded) <= 6  # those under way, and none after them
        assert counts.frames + counts.fallbacks <= 80
        # It stays off, and everything goes on without it.
        before = len(device.codec.encoded)
        assert_native_bytes(wanted[:3], encode_all(engine, wanted[:3]))
        assert len(device.codec.encoded) == before
    assert [one.levelname for one in caplog.records if "is switched off" in one.message][0] == "ERROR"


def test_faults_with_successes_between_them_do_not_switch_it_off():
    device = FakeDevice(Faults(encode={n: raising(RuntimeError("now and then")) for n in range(0, 99, 2)}))
    wanted = frames(60)
    with engine_on(device) as engine:
        assert_native_bytes(wanted, encode_all(engine, wanted, threads=3))
        assert engine.counts.faults > 3
        assert engine.counts.off == ""


def test_too_little_memory_for_the_ring_is_a_fault():
    device, wanted = FakeDevice(Faults(most_bytes=SMALL.device_bytes - 1)), frames(12)
    with engine_on(device) as engine:
        assert_native_bytes(wanted, encode_all(engine, wanted, threads=1))
        assert "expected 10485760 bytes of free memory, found 10485759" in engine.counts.off
    assert device.pinned_bytes == 0


def test_a_device_that_does_not_answer_is_given_up():
    gate = threading.Event()
    # Some in the batch, some in the queue, some that wait for a place in it.
    device, wanted = FakeDevice(Faults(encode={0: gate.wait})), frames(60)
    with engine_on(device, patience_s=0.5) as engine:
        coded = encode_all(engine, wanted, threads=60)
        assert_native_bytes(wanted, coded)
        assert engine.counts.off == "no answer for 0.5 s"
        gate.set()


def test_a_device_that_answers_too_late_changes_no_tensor():
    gate = threading.Event()
    device = FakeDevice(Faults(decode={0: gate.wait}, wrong_decode={0}))
    (frame,) = frames(1)
    coded = NATIVE.encode(frame.data, frame.element)
    tensor = torch.zeros(ROWS, dtype=torch.uint8)
    with engine_on(device, patience_s=0.2) as engine:
        used = TensorEngine(engine, tensor)
        arguments = (coded.payload, coded.element, coded.predictor, coded.layout, coded.planes, ROWS)
        assert used.decode(*arguments) == frame.data
        assert engine.counts.off == "no answer for 0.2 s"
        # The engine's end waits for what its thread does.
        gate.set()
    assert device.codec.decoded == [1]
    assert bytes(tensor.numpy()) == frame.data


def test_a_thread_that_ends_keeps_nobody_waiting():
    device, wanted = FakeDevice(Faults(encode={0: raising(SystemExit())})), frames(10)
    with engine_on(device) as engine, _quiet():
        assert_native_bytes(wanted, encode_all(engine, wanted))
        assert "its thread ended" in engine.counts.off


@contextmanager
def _quiet():
    hook, threading.excepthook = threading.excepthook, lambda _: None
    try:
        yield
    finally:
        threading.excepthook = hook


def test_memory_is_the_ring_however_much_waits():
    """Many writers, a device that is slow: what is on the device, pinned, and waiting stays within its bounds."""
    device, wanted = FakeDevice(delay_s=0.02), frames(120)
    most = 0
    with engine_on(device) as engine:

        def watch():
            nonlocal most
            while not done.wait(0.001):
                most = max(most, engine._pipeline._queue.waiting_bytes)

        done = threading.Event()
        watching = threading.Thread(target=watch)
        watching.start()
        coded = encode_all(engine, wanted, threads=60)
        done.set()
        watching.join()
        assert_native_bytes(wanted, coded)
    assert device.pinned_bytes == 2 * SMALL.slots * SMALL.batch_bytes
    assert device.given_bytes == 2 * SMALL.slots * SMALL.batch_bytes
    assert 0 < most <= SMALL.slots * SMALL.batch_bytes + ROWS


def test_a_frame_that_fits_no_slot_is_the_processors():
    [frame] = frames(1, length=SMALL.batch_bytes + 2)
    device = FakeDevice()
    with engine_on(device) as engine:
        assert_native_bytes([frame], encode_all(engine, [frame]))
    assert device.codec.encoded == []


def test_one_frame_alone_does_not_wait_for_others():
    [frame] = frames(1)
    with engine_on(FakeDevice()) as engine:
        encode_frame(frame, engine)
        started_s = time.monotonic()
        encode_frame(frame, engine)
        assert time.monotonic() - started_s < 5


def test_frames_are_encoded_from_where_they_lie():
    wanted = frames(16)
    device = FakeDevice()
    with engine_on(device) as engine:
        whole = torch.frombuffer(bytearray(b"".join(frame.data for frame in wanted)), dtype=torch.uint8)
        tensors = whole.split(ROWS)

        def encode(number):
            frame = wanted[number]
            coded = engine.encode_resident(frame.data, frame.element, NO_GRID, Level.BALANCED, (), tensors[number])
            assert isinstance(coded, CheckedPayload)
            return coded

        with ThreadPoolExecutor(16) as pool:
            coded = list(pool.map(encode, range(16)))
        for frame, one in zip(wanted, coded, strict=True):
            assert one.payload == NATIVE.encode(frame.data, frame.element).payload
        assert device.up_bytes == 0
        # A tensor that changed since its bytes came down is not what is stored.
        whole[5] ^= 1
        again = engine.encode_resident(wanted[0].data, ElementType.BF16, NO_GRID, Level.BALANCED, (), tensors[0])
        assert not isinstance(again, CheckedPayload)
        assert again.payload == coded[0].payload
        assert engine.counts.faults == 1


def test_a_damaged_frame_is_refused_by_itself():
    wanted = frames(8)
    with engine_on(FakeDevice()) as engine:
        coded = [bytes(NATIVE.encode(frame.data, frame.element).payload) for frame in wanted]
        parts = [NATIVE.encode(frame.data, frame.element) for frame in wanted]
        coded[3] = coded[3][:-7]

        def decode(number):
            one = parts[number]
            try:
                return engine.decode(
                    coded[number], one.element, one.predictor, one.layout, one.planes, len(wanted[number].data)
                )
            except FormatError as error:
                return str(error)

        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(decode, range(8)))
        assert "expected" in found.pop(3)
        assert found == [frame.data for number, frame in enumerate(wanted) if number != 3]
        assert (engine.counts.faults, engine.counts.off) == (0, "")


def test_sound_frames_that_the_device_refuses_are_faults():
    device = FakeDevice(Faults(decode={n: raising(FormatError("plane 0: no")) for n in range(99)}))
    wanted = frames(4)
    stored_frames = [stored(encode_frame(frame, NativeEngine())) for frame in wanted]
    with engine_on(device) as engine:
        assert [decode_frame(one, engine) for one in stored_frames] == [frame.data for frame in wanted]
        assert engine.counts.off


def test_a_frame_that_the_device_decodes_wrong_is_decoded_again():
    device = FakeDevice(Faults(wrong_decode={0, 2}))
    [frame] = frames(1)
    sound = stored(encode_frame(frame, NativeEngine()))
    with engine_on(device) as engine:
        assert [decode_frame(sound, engine) for _ in range(4)] == [frame.data] * 4
        assert (engine.counts.faults, engine.counts.off) == (2, "")
        # Where the frame itself is not what was written, the device is not to blame.
        damaged = bytearray(sound)
        damaged[24] ^= 1
        with pytest.raises(ChecksumMismatch):
            decode_frame(bytes(damaged), engine)
        assert engine.counts.faults == 2


def test_a_closed_engine_goes_on_without_its_device():
    wanted = frames(4)
    device = FakeDevice()
    with engine_on(device) as engine:
        encode_all(engine, wanted)
    assert_native_bytes(wanted, encode_all(engine, wanted))
    assert sum(device.codec.encoded) == 4


def test_rings_are_as_large_as_the_memory_that_they_may_take():
    assert RingSize.within().device_bytes == 320 << 20
    assert RingSize.within(1 << 30).batch_bytes == 64 << 20
    assert RingSize.within(1).batch_bytes == 4 << 20


def test_raw_frames_are_the_frames():
    noise = np.random.default_rng(3).bytes(ROWS)
    with engine_on(FakeDevice()) as engine:
        coded = engine.encode(noise, ElementType.U8)
    assert coded.layout is Layout.RAW
    assert coded.payload is noise
