"""safetensors as it is in the wild: what fits the specification is typed, all of it comes back."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.codec.samples import pack, safetensors_file, safetensors_raw, typed, unpack

DATA = np.random.default_rng(0).bytes(40_000)


def tensor(first: int, last: int, dtype: str = "F32", **more: object) -> dict[str, object]:
    return {"dtype": dtype, "shape": [(last - first) // 4], "data_offsets": [first, last], **more}


def test_a_real_file():
    body = safetensors_file()
    container, encoder = pack(body)
    assert unpack(container) == body
    assert typed(encoder) == {
        "layer.0.weight": ("BF16", 120_000),
        "layer.0.bias": ("F32", 800),
        "layer.1.weight": ("F16", 120_000),
        "ids": ("I64", 160_000),
        "mask": ("BOOL", 9_000),
        "f8": ("F8_E4M3", 9_000),
        "scalar": ("F32", 4),
    }
    shapes = {name: shape for _, _, _, name, shape in encoder.segments}
    assert shapes["layer.0.weight"] == [300, 200]


ODD = {
    "trailing bytes": ({"a": tensor(0, 20_000)}, {"a": 20_000}),
    "hole": ({"a": tensor(0, 8_000), "b": tensor(16_000, 40_000)}, {"a": 8_000, "b": 24_000}),
    "out of order": ({"b": tensor(20_000, 40_000), "a": tensor(0, 20_000)}, {"a": 20_000, "b": 20_000}),
    "overlap": ({"a": tensor(0, 20_000), "b": tensor(10_000, 40_000)}, {"a": 20_000, "b": 20_000}),
    "misaligned": ({"a": tensor(0, 3, "U8"), "b": tensor(3, 40_000 - 1)}, {"a": 3, "b": 39_996}),
    "equal offsets": ({"e": tensor(0, 0), "a": tensor(0, 40_000), "f": tensor(40_000, 40_000)}, {"a": 40_000}),
    "beyond the end": ({"a": tensor(0, 80_000)}, {"a": 40_000}),
    "shape larger than offsets": ({"a": tensor(0, 40_000, shape=[10**9])}, {"a": 40_000}),
    "extra fields": ({"a": tensor(0, 40_000, extra={"x": 1})}, {"a": 40_000}),
    "metadata empty": ({"__metadata__": {}, "a": tensor(0, 40_000)}, {"a": 40_000}),
    "metadata of ints": ({"__metadata__": {"a": 1}, "a": tensor(0, 40_000)}, {"a": 40_000}),
    "metadata as a tensor": ({"__metadata__": tensor(0, 8), "a": tensor(8, 40_000)}, {"a": 39_992}),
    "unknown type": ({"a": tensor(0, 20_000, "F3"), "b": tensor(20_000, 40_000)}, {"b": 20_000}),
    "negative": ({"a": tensor(-4, 40_000)}, {}),
    "backwards": ({"a": tensor(40_000, 0)}, {}),
    "floats": ({"a": {"dtype": "F32", "shape": [], "data_offsets": [0.0, 40_000.0]}}, {}),
    "huge": ({"a": tensor(0, 1 << 70)}, {}),
    "booleans": ({"a": {"dtype": "F32", "shape": [], "data_offsets": [False, True]}}, {}),
    "not a tensor": ({"a": 5, "b": None, "c": []}, {}),
    "a list": ([1, 2], {}),
}


@pytest.mark.case(10)
@pytest.mark.parametrize("name", ODD)
def test_odd_headers(name):
    header, expected = ODD[name]
    body = safetensors_raw(header, DATA)
    container, encoder = pack(body)
    assert unpack(container) == body
    assert {tensor: size for tensor, (_, size) in typed(encoder).items()} == expected


TEXTS = {
    "leading space": (b"   " + json.dumps({"a": tensor(0, 40_000)}).encode(), 1),
    "duplicate keys": (b'{"a":%s,"a":%s}' % ((json.dumps(tensor(0, 40_000)).encode(),) * 2), 1),
    "not JSON": (b"{nonsense", 0),
    "not UTF-8": (b'{"\xff":1}', 0),
    "deep": (b"{" + b'"a":{' * 100_000, 0),
    "deep lists": (b'{"a":' + b"[" * 100_000, 0),
    "NaN": (b'{"a":{"dtype":"F32","shape":[NaN],"data_offsets":[0,40000]}}', 1),
    "many digits": (b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,%s]}}' % (b"9" * 5_000), 0),
}


@pytest.mark.case(10)
@pytest.mark.parametrize("name", TEXTS)
def test_odd_texts(name):
    text, tensors = TEXTS[name]
    body = safetensors_raw(text, DATA)
    container, encoder = pack(body)
    assert unpack(container) == body
    assert len(typed(encoder)) == tensors


@pytest.mark.case(40)
@pytest.mark.parametrize("length", [0, 1, (128 << 20) + 1, 1 << 63, (1 << 64) - 1])
def test_header_lengths_that_cannot_be(length):
    body = length.to_bytes(8, "little") + b"{}" + DATA
    container, encoder = pack(body)
    assert unpack(container) == body
    assert typed(encoder) == {}


@pytest.mark.parametrize("value", [b"[]", b"{}", b"10"])
def test_headers_of_more_values_than_the_limit_stay_untyped(monkeypatch, value):
    monkeypatch.setattr("s4weights.codec.segments.safetensors_header.MAX_SAFETENSORS_VALUES", 1_000)
    values = {count: b"[" + (value + b",") * count + b"0]" for count in (400, 1_001)}
    found = {}
    for count, junk in values.items():
        text = b'{"x":%s,"a":%s}' % (junk, json.dumps(tensor(0, 40_000)).encode())
        body = safetensors_raw(text, DATA)
        container, encoder = pack(body)
        assert unpack(container) == body
        found[count] = len(typed(encoder))
    assert found == {400: 1, 1_001: 0}


@pytest.mark.parametrize("cut", [0, 1, 7, 8, 9, 100, 999, 1_000, 1_001, 21_000])
def test_files_that_end_early(cut):
    body = safetensors_file()[:cut]
    assert unpack(pack(body)[0]) == body


def test_a_header_that_is_longer_than_the_body():
    body = (1 << 20).to_bytes(8, "little") + b"{" + DATA
    assert unpack(pack(body)[0]) == body
