"""
Kernels of the codec. Buffers are C-contiguous; the GIL is released while they work.
"""



def crc32c(data: object, initial: int = 0) -> int:
    """CRC32C (RFC 3720); initial continues an earlier one."""

def encode_payload(frame: object, width: int, octave_bits: int, columns: int, column: int, level: str, huffman: bool, bases: list[tuple[int, object]]) -> tuple[int, int | None, int, list[int], bytes] | None:
    """
    (predictor, number of its base, layout, modes, payload) of a frame, or None where it is not smaller. bases: kind and elements. Layout 0: the frame is what the base predicts, and the payload empty.
    """

def decode_payload(payload: object, width: int, octave_bits: int, predictor: int, layout: int, logical_bytes: int, base: object | None = None) -> bytes:
    """
    The frame. base: as many elements, where the predictor needs them. Raises ValueError on damage.
    """

def encode_bound_bytes(frame_bytes: int, width: int) -> int:
    """Room that encode_payload_into needs."""

def encode_payload_into(frame: object, width: int, octave_bits: int, columns: int, column: int, level: str, huffman: bool, bases: list[tuple[int, object]], out: object) -> tuple[int, int | None, int, list[int], int] | None:
    """encode_payload into out; the last member is the payload's length."""

def decode_payload_into(payload: object, width: int, octave_bits: int, predictor: int, layout: int, out: object, base: object | None = None) -> None:
    """
    decode_payload into out, which is the whole frame. Its bytes are undefined after an error.
    """

def verify_payload(payload: object, width: int, octave_bits: int, predictor: int, layout: int, frame: object, base: object | None = None) -> bool:
    """Whether the payload decodes to just this frame."""

def choose_modes(histograms: object, sizes: list[int], level: str, huffman: bool) -> list[tuple[int, int, int, int, int]]:
    """
    (mode, estimate, mask and value of bits, first of nibbles) of planes of so many bytes, each from the 256 counts (32 bits) of a sample or of all of it.
    """

def promise_rans(histograms: object) -> list[int]:
    """What rANS promises for planes counted whole."""

def normalise_histograms(histograms: object) -> bytes:
    """256 frequencies (16 bits) for each histogram of at least two symbols."""

def keep_freed_memory(bytes: int) -> bool:
    """
    For the whole process: give memory back to the system only beyond this, an arena. False where it cannot be set.
    """

def set_simd(name: str) -> str:
    """
    Use `scalar`, `avx2` or `avx512`, as far as the machine has it. Returns what is used.
    """
