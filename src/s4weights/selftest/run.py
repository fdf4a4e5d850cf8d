"""Every engine encodes and every engine decodes; whatever differs is a failure."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from s4weights.codec import _native
from s4weights.codec.decode import decode_frame
from s4weights.codec.encode import encode_frame
from s4weights.codec.engines import DeviceEngine, Engine, NativeEngine, ReferenceEngine, choose_engine
from s4weights.codec.errors import ConfigError, EngineUnavailable, FormatError
from s4weights.codec.types import EncodedFrame

from .golden import Vector, vectors
from .patterns import Case, block_cases, small_cases

# A broken machine fails everywhere; the first ones say enough.
_MOST_FAILURES: Final = 100
# Whose bytes a GPU writes: the native engine's, which then has no Huffman codes.
_AS_A_GPU: Final = "native without Huffman"


@dataclass(frozen=True, slots=True)
class Contender:
    """An engine in one of its forms. simd: of the native kernels; writes_as: whose bytes its own must equal, if any's."""

    name: str
    engine: Engine
    simd: str = ""
    writes_as: str = ""

    def encode(self, case: Case) -> EncodedFrame:
        """Encoded, and verified by this engine."""
        self._select()
        return encode_frame(case.frame, self.engine, case.level)

    def decode(self, stored: bytes) -> bytes:
        """Raises: FormatError."""
        self._select()
        return decode_frame(stored, self.engine)

    def fault(self, vector: Vector) -> str:
        """See Vector."""
        self._select()
        return vector.fault(self.engine)

    def _select(self) -> None:
        if self.simd:
            _native.set_simd(self.simd)


@dataclass(slots=True)
class Outcome:
    """engines: name to empty, or to why it is missing. failures: what, in which engine."""

    engines: dict[str, str]
    cases: int = 0
    encoded_bytes: int = 0
    golden: int = 0
    failures: list[str] = field(default_factory=list)
    failed: int = 0
    device_frames: int = 0
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether everything was bit-exact, and something was tried."""
        return not self.failed and self.cases > 0 and self.golden > 0

    def fail(self, what: str) -> None:
        """Count a failure; the first ones are kept."""
        self.failed += 1
        if len(self.failures) < _MOST_FAILURES:
            self.failures.append(what)


def contenders(name: str) -> tuple[list[Contender], dict[str, str]]:
    """Those to be compared, the reference first, and by engine why one is missing.

    name: auto for all that run here; else that one beside the reference, and beside what runs everywhere.
    Raises: ConfigError, EngineUnavailable where the one that was named is missing.
    """
    found = [Contender("reference", ReferenceEngine())]
    missing = {"reference": ""}
    if name in ("auto", "native", "gpu"):
        sets = [_native.set_simd(simd) for simd in ("avx512", "avx2", "scalar")]
        found += [
            Contender(f"native {simd}", NativeEngine(), simd, writes_as="reference") for simd in dict.fromkeys(sets)
        ]
        missing["native"] = ""
    if name in ("auto", "gpu"):
        try:
            found.append(Contender("gpu", choose_engine("gpu"), writes_as=_AS_A_GPU))
            found.append(Contender(_AS_A_GPU, NativeEngine(huffman=False), writes_as=_AS_A_GPU))
            missing["gpu"] = ""
        except (ConfigError, EngineUnavailable) as error:
            if name == "gpu":
                raise
            missing["gpu"] = str(error)
    if name not in ("auto", "native", "gpu", "reference"):
        raise ConfigError(f"engine: expected auto, native, reference or gpu, found {name!r}")
    return found, missing


def run(
    name: str = "auto",
    *,
    require_gpu: bool = False,
    thorough: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """The self-test. tell: is given the name of each stage as it begins. Raises: as contenders; OSError."""
    started_s = time.monotonic()
    found, missing = contenders(name)
    outcome = Outcome(missing)
    if require_gpu and missing.get("gpu", "not asked for"):
        outcome.fail(f"the GPU's engine does not run: {missing.get('gpu', f'not part of {name}')}")
        return outcome
    # The reference takes seconds for a large frame, so it has few of them.
    slow = [one for one in found if one.name == "reference"]
    quick = [one for one in found if one.name != "reference"] or slow
    with _whole_device(found, outcome):
        _run(found, quick, is_slow=quick is slow, thorough=thorough, tell=tell, outcome=outcome)
    outcome.seconds = time.monotonic() - started_s
    return outcome


def _run(
    found: Sequence[Contender],
    quick: Sequence[Contender],
    *,
    is_slow: bool,
    thorough: bool,
    tell: Callable[[str], None],
    outcome: Outcome,
) -> None:
    try:
        tell(f"golden vectors, on {', '.join(one.name for one in found)}")
        _golden(found, vectors(), outcome)
        tell("small frames")
        _compare(found, small_cases(thorough=thorough), outcome)
        if not is_slow:
            tell("frames around blocks and their own end")
            _compare(quick, block_cases(thorough=thorough), outcome)
    finally:
        _native.set_simd("avx512")


@contextmanager
def _whole_device(found: Sequence[Contender], outcome: Outcome) -> Iterator[None]:
    """Give a device the shortest frames too; what it leaves to the processor for a fault is a failure here."""
    engine = next((one.engine for one in found if isinstance(one.engine, DeviceEngine)), None)
    if engine is None:
        yield
        return
    before, least_bytes = engine.counts, engine.least_bytes
    engine.least_bytes = 1
    try:
        yield
    finally:
        engine.least_bytes = least_bytes
        counts = engine.counts
        outcome.device_frames = counts.frames - before.frames
        if counts.off or counts.faults > before.faults:
            why = counts.off or f"{counts.faults - before.faults} faults, which the log names"
            outcome.fail(f"the device did not code everything that it was given: {why}")
        elif not outcome.device_frames:
            outcome.fail("the device was given nothing")


def _golden(found: Sequence[Contender], known: Iterable[Vector], outcome: Outcome) -> None:
    for vector in known:
        outcome.golden += 1
        for one in found:
            if fault := one.fault(vector):
                outcome.fail(f"golden {vector.name}, read by {one.name}: {fault}")


def _compare(found: Sequence[Contender], cases: Iterator[Case], outcome: Outcome) -> None:
    for case in cases:
        outcome.cases += 1
        outcome.encoded_bytes += len(case.frame.data)
        written = {}
        for one in found:
            encoded = one.encode(case)
            if encoded.fell_back:
                outcome.fail(f"{case.name}: {one.name} does not give back its own frame")
            written[one.name] = encoded.header + bytes(encoded.payload)
        for one in found:
            if one.writes_as and written[one.name] != written.get(one.writes_as, written[one.name]):
                outcome.fail(f"{case.name}: {one.name} does not write what {one.writes_as} writes")
        # Native forms equal one another also where the reference is left out.
        twins = {written[one.name] for one in found if one.writes_as == "reference"}
        if len(twins) > 1:
            outcome.fail(f"{case.name}: the native forms write {len(twins)} different frames")
        _read_all(found, case, written, outcome)


def _read_all(found: Sequence[Contender], case: Case, written: dict[str, bytes], outcome: Outcome) -> None:
    writers: dict[bytes, str] = {}
    for writer, stored in written.items():
        writers.setdefault(stored, writer)
    for stored, writer in writers.items():
        for one in found:
            try:
                fault = "" if one.decode(stored) == case.frame.data else "other bytes"
            except FormatError as error:
                fault = str(error)
            if fault:
                outcome.fail(f"{case.name}: written by {writer}, read by {one.name}: {fault}")
