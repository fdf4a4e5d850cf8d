"""Planes of nvCOMP's ANS read on a device, so that the rest of a frame is for any engine."""

from __future__ import annotations

import threading

import torch

from ..engines.payload import join_payload, read_planes
from ..entropy import nvcomp_ans
from ..errors import EngineUnavailable, FormatError, UnsupportedVersion
from ..types import Buffer, Mode
from .nvcomp import PageCoder

_coders = threading.local()


def has_ans(payload: Buffer, planes: int) -> bool:
    """Whether one of a payload's planes is nvCOMP's. payload: without levels in front."""
    try:
        return any(mode is Mode.NVCOMP_ANS for mode, _ in read_planes(payload, planes))
    except FormatError:
        return False


def open_planes(payload: Buffer, planes: int, n: int, place: torch.device) -> bytes:
    """The same payload with these planes raw. payload: its checksum compared. n: bytes of a plane. Raises: FormatError."""
    found = []
    for mode, stored in read_planes(payload, planes):
        is_ans = mode is Mode.NVCOMP_ANS
        found.append((Mode.RAW, _decode(stored, n, place)) if is_ans else (mode, stored))
    return join_payload(b"", found)


def _decode(stored: Buffer, n: int, place: torch.device) -> bytes:
    major, pages = nvcomp_ans.read_pages(stored, n)
    try:
        coder = getattr(_coders, "ans", None) or PageCoder("ANS")
    except EngineUnavailable as error:
        raise UnsupportedVersion(f"{nvcomp_ans.missing(stored)} ({error})") from None
    _coders.ans = coder
    if coder.major != major:
        raise UnsupportedVersion(f"{nvcomp_ans.missing(stored)} (nvCOMP {coder.major} is here)")
    whole = torch.frombuffer(bytearray(stored), dtype=torch.uint8).to(place)
    made = coder.decode([whole[at : at + length] for at, length, _ in pages], [size for _, _, size in pages])
    return bytes(torch.cat(made).cpu().numpy())
