"""One thread a device: batches go up, are coded, and come down, each in a slot of the ring, all three at once."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ..limits import GPU_GATHER_S
from .batches import Batch, Streams
from .decode_batch import DecodeBatch
from .device import Device
from .encode_batch import EncodeBatch
from .frame_jobs import DecodeJob, EncodeJob, Job, JobQueue
from .health import Health
from .plane_stage import PlaneStage
from .slots import RingSize, Slot, make_slots

_log = logging.getLogger(__name__)
_CLOSE_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class _Waiting:
    """Batches in order. staged: on their way up. leaving: on their way down."""

    staged: deque[Batch]
    leaving: deque[Batch]

    def __bool__(self) -> bool:
        return bool(self.staged or self.leaving)


class Pipeline:
    """Takes jobs from any thread; each one's `done` has its outcome, or None where the caller must do without the device."""

    def __init__(
        self,
        device: Device,
        size: RingSize,
        health: Health,
        *,
        gather_s: float = GPU_GATHER_S,
        make_stage: Callable[[], PlaneStage | None] = lambda: None,
    ) -> None:
        """make_stage: called in the pipeline's own thread."""
        self._make_stage = make_stage
        self.size = size
        self._device = device
        self._health = health
        self._gather_s = gather_s
        # As much again as the ring has may wait; whoever has more waits with it.
        self._queue = JobQueue(size.slots * size.batch_bytes)
        self._free: deque[Slot] = deque()
        self._has_slots = False
        self._streams: Streams | None = None
        self._under_way = _Waiting(deque(), deque())
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def submit(self, job: Job) -> bool:
        """Give a job; waits while too much waits already. False: it is not taken."""
        if job.room_bytes > self.size.batch_bytes or self._health.is_off:
            return False
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=f"codec {self._device.name}", daemon=True)
                self._thread.start()
        return self._queue.put(job)

    def abandon(self) -> None:
        """The device does not answer: whoever waits for a place, or in the queue, goes on without it."""
        _give_back(self._queue.close())

    def close(self) -> None:
        """End what is under way; what only waits is given back."""
        _give_back(self._queue.close())
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_CLOSE_S)

    def _run(self) -> None:
        try:
            while self._step():
                pass
        except BaseException as error:
            _log.exception("the thread of %s has ended", self._device.name)
            self._health.switch_off(f"its thread ended: {error}")
            raise
        finally:
            _give_back(self._queue.close())
            for batch in (*self._under_way.staged, *self._under_way.leaving):
                _give_back(batch.jobs)
            self._free.clear()

    def _step(self) -> bool:
        """One step of one batch; False where there is nothing to do, and never will be."""
        under_way = self._under_way
        if (self._free or not self._has_slots) and (jobs := self._take()):
            self._begin(jobs)
        elif under_way.staged:
            batch = under_way.staged.popleft()
            if self._try(batch, batch.compute):
                under_way.leaving.append(batch)
            while under_way.leaving and under_way.leaving[0].is_back():
                self._finish()
        elif under_way.leaving:
            self._finish()
        elif self._queue.is_closed:
            return False
        return True

    def _take(self) -> Sequence[Job]:
        """What waits, where there is a batch of it; with nothing else to do, wait for it."""
        if self._health.is_off:
            _give_back(self._queue.close())
            return ()
        room = self.size.batch_bytes
        if not self._under_way:
            return self._queue.take(room, self._gather_s, may_wait=True)
        return self._queue.take(room, 0, may_wait=False) if self._queue.waiting_bytes >= room // 2 else ()

    def _begin(self, jobs: Sequence[Job]) -> None:
        try:
            if not self._has_slots:
                device = self._device
                self._streams = Streams(device, device.stream(), device.stream(), device.stream())
                with self._streams.compute.current():
                    self._streams.stage = self._make_stage()
                self._free.extend(make_slots(device, self.size))
                self._has_slots = True
        except Exception as error:
            self._health.failed(error, len(jobs))
            _give_back(jobs)
            return
        assert self._streams is not None
        batch = _batch(self._streams, self._free.popleft(), jobs)
        if self._try(batch, batch.send):
            self._under_way.staged.append(batch)

    def _finish(self) -> None:
        batch = self._under_way.leaving.popleft()
        if self._try(batch, batch.finish):
            self._health.succeeded(len(batch.jobs), sum(job.logical_bytes for job in batch.jobs))
            self._release(batch.slot)
            batch.hand_out()

    def _try(self, batch: Batch, step: Callable[[], None]) -> bool:
        """Whether a step went well. Where not, the batch is over: its jobs are given back, its slot is free again."""
        try:
            step()
        except Exception as error:
            self._health.failed(error, len(batch.jobs))
            # First the slot: a caller goes on with its own tensors as soon as it has its job back.
            self._release(batch.slot, batch.abandon)
            _give_back(batch.jobs)
            return False
        except BaseException:
            # For `_run` to give back.
            self._under_way.leaving.append(batch)
            raise
        return True

    def _release(self, slot: Slot, abandon: Callable[[], None] = lambda: None) -> None:
        try:
            abandon()
            slot.settle()
        except Exception as error:
            # Something may still be written there, and nobody knows until when.
            self._health.switch_off(f"what it was given cannot be waited for: {error}")
            _give_back(self._queue.close())
            return
        slot.clear()
        self._free.append(slot)


def _batch(streams: Streams, slot: Slot, jobs: Sequence[Job]) -> Batch:
    if isinstance(jobs[0], EncodeJob):
        return EncodeBatch(streams, slot, [job for job in jobs if isinstance(job, EncodeJob)])
    return DecodeBatch(streams, slot, [job for job in jobs if isinstance(job, DecodeJob)])


def _give_back(jobs: Sequence[Job]) -> None:
    for job in jobs:
        if not job.done.done():
            job.done.set_result(None)
