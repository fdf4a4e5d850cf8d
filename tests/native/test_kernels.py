"""The native kernels by themselves: known answers, both instruction sets, any buffer, many threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from s4weights.codec import _native

SKEWED = np.random.default_rng(1).geometric(0.3, 70_000).clip(0, 255).astype(np.uint8).tobytes()


@pytest.fixture(params=["avx2", "scalar"])
def simd(request):
    yield _native.set_simd(request.param)
    _native.set_simd("avx2")


def crc_by_bits(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


# RFC 3720, B.4, and the polynomial's usual check value.
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
        (b"123456789", 0xE3069283),
    ],
)
def test_crc32c_gives_the_known_answers(data, expected, simd):
    assert _native.crc32c(data) == expected


@pytest.mark.parametrize("size", [1, 7, 8, 9, 3071, 3072, 3073, 6144, 9221])
def test_crc32c_at_sizes_around_its_runs(size, simd):
    data = np.random.default_rng(size).bytes(size)
    assert _native.crc32c(data) == crc_by_bits(data)


@pytest.mark.parametrize("cut", [0, 1, 3072, 5000, 10_000])
def test_crc32c_continues(cut, simd):
    data = np.random.default_rng(2).bytes(10_000)
    assert _native.crc32c(data[cut:], _native.crc32c(data[:cut])) == _native.crc32c(data)


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 1000])
def test_histogram_counts_every_byte(size):
    plane = np.random.default_rng(size).bytes(size)
    assert _native.histogram(plane) == np.bincount(np.frombuffer(plane, np.uint8), minlength=256).tolist()


BUFFERS = {
    "bytearray": bytearray,
    "memoryview": memoryview,
    "unaligned": lambda data: memoryview(b"x" + data)[1:],
    "numpy": lambda data: np.frombuffer(data, np.uint8),
    "two dimensions": lambda data: np.frombuffer(data, "<u2").reshape(-1, 5),
}


@pytest.mark.parametrize("kind", BUFFERS)
def test_any_contiguous_buffer_is_read_as_it_lies(kind):
    data = SKEWED[:4_000]
    same = BUFFERS[kind](data)
    assert _native.crc32c(same) == _native.crc32c(data)
    assert _native.split_planes(same, 4, True) == _native.split_planes(data, 4, True)
    assert _native.encode_payload(same, 1, False) == _native.encode_payload(data, 1, False)


@pytest.mark.parametrize(("wrong", "error"), [(memoryview(b"abcd")[::2], BufferError), ("text", TypeError)])
def test_what_is_no_contiguous_buffer_is_refused(wrong, error):
    with pytest.raises(error):
        _native.crc32c(wrong)


@pytest.mark.parametrize("width", [0, 3, 16])
def test_widths_that_do_not_exist_are_refused(width):
    with pytest.raises(ValueError, match="width"):
        _native.split_planes(bytes(48), width, False)


@pytest.mark.parametrize("call", [_native.split_planes, _native.join_planes, _native.encode_payload])
def test_half_an_element_is_refused(call):
    with pytest.raises(ValueError, match="multiple of width"):
        call(bytes(7), 2, True)


@pytest.mark.parametrize("plane", [b"", b"a", b"a" * 1000])
def test_a_plane_without_two_symbols_is_refused(plane):
    with pytest.raises(ValueError, match="two different symbols"):
        _native.rans_encode(plane)


def test_unknown_instruction_sets_are_refused():
    with pytest.raises(ValueError, match="scalar or avx2"):
        _native.set_simd("avx3")


def outcome(stored: bytes, n: int) -> bytes | str:
    try:
        return _native.rans_decode(stored, n)
    except ValueError as error:
        return str(error)


def test_both_decoders_say_the_same_of_damaged_planes():
    stored, table = _native.rans_encode(SKEWED), 32 + 2 * len(set(SKEWED))
    wrong = 0
    for seed in range(150):
        rng = np.random.default_rng(seed)
        changed = bytearray(stored)
        # Past the table, so that most get as far as the words; a state may become anything.
        for at in rng.integers(table + 8, len(changed), 3):
            changed[at] = int(rng.integers(256))
        found = []
        for name in ("scalar", "avx2"):
            _native.set_simd(name)
            found.append(outcome(bytes(changed), len(SKEWED)))
        assert found[0] == found[1]
        wrong += isinstance(found[0], str)
    assert wrong > 100


@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_threads_do_not_disturb_one_another(width):
    frames = [np.random.default_rng(k).geometric(0.2, 32_000).clip(0, 255).astype(np.uint8) for k in range(8)]
    expected = [_native.encode_payload(frame, width, True) for frame in frames]

    def work(k: int) -> bool:
        _, payload = coded = _native.encode_payload(frames[k], width, True)
        return coded == expected[k] and _native.decode_payload(payload, width, True, 32_000) == frames[k].tobytes()

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, [k % 8 for k in range(64)]))
