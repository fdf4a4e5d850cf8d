"""Whether there is a device here that the engine can work on, and the one engine that a process has for it."""

from __future__ import annotations

import atexit
import importlib
import importlib.util
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ..engines.native import NativeEngine
from ..errors import EngineUnavailable
from ..limits import GPU_MEMORY_BYTES
from ..types import ElementType

# torch is imported only once somebody wants a device.
if TYPE_CHECKING:
    from .device import Device
    from .engine import GpuEngine

# bf16 and the atomics of the kernels: Ampere and later.
_LEAST_CAPABILITY: Final = (8, 0)
_PROOF_BYTES: Final = 192 << 10


class _Shared:
    """One engine: its memory is the training's, and its thread the device's only one."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.engine: GpuEngine | None = None


_shared = _Shared()


def _after_fork() -> None:
    # A child has neither the parent's thread nor its CUDA context.
    global _shared
    _shared = _Shared()


os.register_at_fork(after_in_child=_after_fork)


@atexit.register
def _at_exit() -> None:
    if _shared.engine is not None:
        _shared.engine.close()


def shared_engine(memory_bytes: int = GPU_MEMORY_BYTES, entropy: str = "open") -> GpuEngine:
    """The process's engine, made and proved when it is first asked for. memory_bytes, entropy: the first call's count.

    Raises: EngineUnavailable, which names what is missing.
    """
    shared = _shared
    with shared.lock:
        if shared.engine is None or shared.engine.counts.off == "closed":
            device = open_device()
            from .engine import GpuEngine
            from .slots import RingSize

            engine = GpuEngine(device, RingSize.within(memory_bytes), entropy=entropy)
            try:
                with _faults_named():
                    prove(engine, same_bytes=entropy == "open")
            except BaseException:
                engine.close()
                raise
            shared.engine = engine
        return shared.engine


@contextmanager
def _faults_named() -> Iterator[None]:
    """What torch, triton and the driver raise where CUDA does not start, as EngineUnavailable."""
    try:
        yield
    except (RuntimeError, AssertionError, OSError) as error:
        raise EngineUnavailable(f"gpu: CUDA does not start: {type(error).__name__}: {error}") from error


@_faults_named()
def open_device() -> Device:
    """The device that is current in torch. Raises: EngineUnavailable, which names what is missing."""
    torch = _import("torch", "pip install 's4weights[torch]'")
    if torch.version.cuda is None:
        raise EngineUnavailable(f"gpu: expected a torch that is built for CUDA, found torch {torch.__version__}")
    _import("triton", "it comes with torch for CUDA")
    if not torch.cuda.is_available():
        raise EngineUnavailable("gpu: expected an NVIDIA GPU and its driver, found none that torch can use")
    device = torch.device("cuda", torch.cuda.current_device())
    capability = torch.cuda.get_device_capability(device)
    if capability < _LEAST_CAPABILITY:
        name = torch.cuda.get_device_name(device)
        expected, found = (".".join(map(str, one)) for one in (_LEAST_CAPABILITY, capability))
        raise EngineUnavailable(f"gpu: expected compute capability {expected} or more, found {found} ({name})")
    from .cuda import CudaDevice

    codec = _import(".frame_codec", "the package is not whole").TritonFrameCodec(device)
    return CudaDevice(device, codec)


def prove(engine: GpuEngine, *, same_bytes: bool = True) -> None:
    """Have the device code a few frames there and back. Raises: EngineUnavailable.

    same_bytes: to those that the processor makes of them.
    """
    native = NativeEngine(huffman=False)
    values = np.random.default_rng(7).normal(0, 0.02, _PROOF_BYTES // 4).astype("<f4")
    for element, data in (
        (ElementType.F32, values.tobytes()),
        (ElementType.BF16, (values.view("<u4") >> 16).astype("<u2").tobytes()),
    ):
        coded = engine.encode(data, element)
        expected = native.encode(data, element)
        if same_bytes and (coded.modes, bytes(coded.payload)) != (expected.modes, bytes(expected.payload)):
            raise EngineUnavailable(f"gpu: expected the processor's bytes of {element.name}, found others")
        if engine.decode(coded.payload, element, coded.predictor, coded.layout, coded.planes, len(data)) != data:
            raise EngineUnavailable(f"gpu: expected {element.name} to come back, found other bytes")
        if engine.counts.faults or engine.counts.off:
            found = engine.health.last_fault or engine.counts.off
            raise EngineUnavailable(f"gpu: expected {engine.device.name} to code a frame, found {found}")


def may_be_usable() -> bool:
    """Whether it is worth importing torch to find out: a driver is there, and torch and triton are installed."""
    has_driver = any(os.path.exists(path) for path in ("/dev/nvidiactl", "/dev/dxg"))
    return has_driver and all(importlib.util.find_spec(name) is not None for name in ("torch", "triton"))


def _import(name: str, remedy: str) -> Any:
    try:
        return importlib.import_module(name, __package__)
    except ImportError as error:
        raise EngineUnavailable(f"gpu: {error.name or name} is missing ({error}): {remedy}") from None
