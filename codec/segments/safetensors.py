"""safetensors: a JSON header that says where every tensor lies. A proxy is no validator: odd files stay odd.

Source: https://github.com/huggingface/safetensors (format section of its README).
"""

from __future__ import annotations

from ..limits import MAX_SAFETENSORS_HEADER_BYTES
from .safetensors_header import HeaderScanner
from .stream import Step, Stream


def read_safetensors(stream: Stream) -> Step[bool]:
    """Take a file; what follows its last tensor is bytes."""
    head = yield from stream.read(8)
    header_bytes = int.from_bytes(head, "little")
    if header_bytes > MAX_SAFETENSORS_HEADER_BYTES:
        return False
    end = stream.at + header_bytes
    scanner = HeaderScanner()
    while stream.at < end:
        text = yield from stream.some(end - stream.at)
        scanner.feed(text)
    # A tensor is announced when its first byte is next, not before: there may be a million.
    for start, length, element, name, shape in scanner.tensors():
        yield from stream.skip_to(end + start)
        stream.add(end + start, length, element, name, shape)
    return False
