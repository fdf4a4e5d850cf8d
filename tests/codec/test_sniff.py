"""Recognition from first bytes: only what is certain, and as soon as it is."""

from __future__ import annotations

import struct

import pytest

from s4weights.codec.limits import MAX_SAFETENSORS_HEADER_BYTES, SNIFF_BYTES
from s4weights.codec.sniff import sniff
from s4weights.codec.types import CONTAINER_MAGIC, Kind
from tests.codec.samples import pack, safetensors_file, torch_file


def header(length: int, text: bytes = b'{"a":1}') -> bytes:
    return struct.pack("<Q", length) + text


def entry(name: bytes, method: int = 0) -> bytes:
    return b"PK\x03\x04" + struct.pack("<HHH", 0, 0x808, method) + bytes(16) + struct.pack("<HH", len(name), 0) + name


WHOLE = {
    "safetensors": (safetensors_file(), Kind.SAFETENSORS),
    "torch.save": (torch_file({"a": 1}), Kind.TORCH_ZIP),
    "torch.save with a root": (entry(b"epoch=3-step=400/data.pkl"), Kind.TORCH_ZIP),
    "container": (pack(b"x" * 100)[0], Kind.CONTAINER),
    "leading space": (header(20, b" \n\t{"), Kind.SAFETENSORS),
    "largest header": (header(MAX_SAFETENSORS_HEADER_BYTES), Kind.SAFETENSORS),
    "too large a header": (header(MAX_SAFETENSORS_HEADER_BYTES + 1), Kind.UNKNOWN),
    "header of 2^63": (header(1 << 63), Kind.UNKNOWN),
    "too short a header": (header(1), Kind.UNKNOWN),
    "no object": (header(20, b"[1]"), Kind.UNKNOWN),
    "only space": (header(20, b" " * SNIFF_BYTES), Kind.UNKNOWN),
    "deflated": (entry(b"archive/data.pkl", method=8), Kind.TORCH_ZIP),
    "other zip": (entry(b"word/document.xml"), Kind.UNKNOWN),
    "other zip with data": (entry(b"site/data/index.html"), Kind.UNKNOWN),
    "other method": (entry(b"archive/data.pkl", method=12), Kind.UNKNOWN),
    "TorchScript": (entry(b"silero/data/0"), Kind.TORCH_ZIP),
    "TorchScript with an extra file": (entry(b"silero/extra/notes.txt", method=8), Kind.TORCH_ZIP),
    "npz": (entry(b"layer/weight.npy"), Kind.NPZ),
    "compressed npz": (entry(b"weight.npy", method=8), Kind.UNKNOWN),
    "npy": (b"\x93NUMPY\1\0" + bytes(20), Kind.NPY),
    "GGUF": (b"GGUF\3\0\0\0" + bytes(16), Kind.GGUF),
    "big-endian GGUF": (b"GGUF\0\0\0\3" + bytes(16), Kind.GGUF),
    "GGUF of a version to come": (b"GGUF\x09\0\0\0" + bytes(16), Kind.UNKNOWN),
    "no root": (entry(b"data.pkl"), Kind.UNKNOWN),
    "endless name": (entry(b"a" * 65_535), Kind.UNKNOWN),
    "legacy torch": (torch_file({"a": 1}, _use_new_zipfile_serialization=False), Kind.TORCH_LEGACY),
    "legacy torch, protocol 4": (
        torch_file({"a": 1}, _use_new_zipfile_serialization=False, pickle_protocol=4),
        Kind.TORCH_LEGACY,
    ),
    "a pickle": (b"\x80\x02}q\0." + bytes(100), Kind.UNKNOWN),
    "another magic number": (b"\x80\x02\x8a\x0a\x6c\xfc" + bytes(100), Kind.UNKNOWN),
    "empty": (b"", Kind.UNKNOWN),
    "half a magic": (CONTAINER_MAGIC[:5], Kind.UNKNOWN),
    "half an entry": (entry(b"archive/data.pkl")[:40], Kind.UNKNOWN),
}


@pytest.mark.parametrize("name", WHOLE)
def test_whole_bodies_are_decided(name):
    body, kind = WHOLE[name]
    assert sniff(body, complete=True) is kind


@pytest.mark.parametrize("name", WHOLE)
def test_more_bytes_never_change_a_decision(name):
    body, kind = WHOLE[name]
    end = min(len(body), SNIFF_BYTES)
    # Every size where formats differ, some of those where only numbers are still looked for.
    decisions = [sniff(body[:size]) for size in [*range(min(end, 500)), *range(500, end, 331), end]]
    decided = [decision for decision in decisions if decision is not None]
    assert set(decided) <= {kind}
    assert None not in decisions[len(decisions) - len(decided) :]


@pytest.mark.parametrize("head", [bytes(SNIFF_BYTES), header(20, b" " * SNIFF_BYTES), entry(b"a" * 65_535)])
def test_no_more_than_sniff_bytes_are_asked_for(head):
    assert sniff(head[:SNIFF_BYTES]) is Kind.UNKNOWN


@pytest.mark.parametrize("make", [bytearray, memoryview])
def test_any_buffer_is_taken(make):
    assert sniff(make(safetensors_file())) is Kind.SAFETENSORS
