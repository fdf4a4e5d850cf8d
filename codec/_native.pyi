"""
Kernels of the codec. Buffers are C-contiguous; the GIL is released while they work.
"""



def crc32c(data: object, initial: int = 0) -> int:
    """CRC32C (RFC 3720); initial continues an earlier one."""

def split_planes(words: object, width: int, rotated: bool) -> bytes:
    """Planes back to back, plane 0 first."""

def join_planes(planes: object, width: int, rotated: bool) -> bytes:
    """The inverse of split_planes."""

def histogram(plane: object) -> list[int]:
    """How often each of the 256 byte values occurs."""

def rans_encode(plane: object) -> bytes:
    """One plane of at least two different symbols."""

def rans_decode(stored: object, n: int) -> bytes:
    """Exactly n symbols. Raises ValueError on damage."""

def encode_payload(frame: object, width: int, rotated: bool) -> tuple[list[int], bytes] | None:
    """(modes, payload) of a frame, or None where it is not smaller."""

def decode_payload(payload: object, width: int, rotated: bool, logical_bytes: int) -> bytes:
    """The frame. Raises ValueError on damage."""

def set_simd(name: str) -> str:
    """
    Use `scalar` or `avx2`, as far as the machine has it. Returns what is used.
    """
