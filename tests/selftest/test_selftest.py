"""The self-test passes here, and fails where an engine, a vector or a GPU is not as it must be."""

from __future__ import annotations

import dataclasses
import json

import pytest
import torch
from tests.codec.gpu.fake import FakeDevice, Faults, raising
from tests.golden import make_frames
from tests.native.payloads import INSTRUCTION_SETS

from s4weights.cli import main
from s4weights.codec.engines import NativeEngine
from s4weights.codec.gpu import usable
from s4weights.codec.gpu.engine import GpuEngine
from s4weights.codec.gpu.slots import RingSize
from s4weights.codec.limits import FRAME_BYTES, MIN_TYPED_BYTES
from s4weights.codec.types import ElementType, Layout, Level
from s4weights.selftest import run as selftest
from s4weights.selftest.golden import Vector, vectors
from s4weights.selftest.patterns import PATTERNS, block_cases, block_counts, small_cases, small_counts


class Wrong(NativeEngine):
    """Decodes one byte of bf16 wrong, and verifies as if it did not."""

    def decode(self, payload, element, *arguments):
        body = super().decode(payload, element, *arguments)
        return bytes([body[0] ^ 1]) + body[1:] if element is ElementType.BF16 else body


class Careless(NativeEngine):
    """Writes every frame without coding it."""

    def encode(self, data, element, **options):
        coded = super().encode(data, element, **options)
        return dataclasses.replace(coded, element=element, layout=Layout.RAW, modes=(), payload=data)


class Forgetful(NativeEngine):
    """Never finds that a frame came back."""

    def decodes_to(self, coded, data, base=None):
        return False


def with_contender(monkeypatch, engine, **options):
    """The self-test's engines, and one more; few frames."""
    usual, missing = selftest.contenders("native")
    more = selftest.Contender("broken", engine, **options)
    monkeypatch.setattr(selftest, "contenders", lambda name: ([*usual, more], missing))
    few = [case for case in small_cases(thorough=False) if case.frame.element in (ElementType.BF16, ElementType.U8)]
    monkeypatch.setattr(selftest, "small_cases", lambda thorough: iter(few[::7]))
    monkeypatch.setattr(selftest, "block_cases", lambda thorough: iter(few[1:3]))
    return selftest.run()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_engine_of_this_machine_gives_back_every_byte(capsys):
    assert main(["selftest", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["ok"], report["failed"], report["failures"]) == (True, 0, [])
    assert report["engines"]["native"] == report["engines"]["reference"] == {"runs": True, "why": ""}
    assert report["golden"] == len(list(vectors()))
    assert report["cases"] > 1_500


def test_a_sound_engine_passes(monkeypatch):
    outcome = with_contender(monkeypatch, NativeEngine(), writes_as="reference")
    assert (outcome.ok, outcome.failures) == (True, [])


def test_an_engine_that_decodes_a_wrong_byte_is_found(monkeypatch):
    outcome = with_contender(monkeypatch, Wrong())
    assert not outcome.ok
    assert any(text.startswith("golden bf16.s4w, read by broken: ") for text in outcome.failures)
    assert any("BF16" in text and "written by reference, read by broken: " in text for text in outcome.failures)
    assert not any("U8" in text for text in outcome.failures)


def test_an_engine_that_writes_other_bytes_than_it_promises_is_found(monkeypatch):
    outcome = with_contender(monkeypatch, Careless(), writes_as="reference")
    assert not outcome.ok
    assert any("broken does not write what reference writes" in text for text in outcome.failures)


def test_an_engine_whose_frames_do_not_come_back_is_found(monkeypatch):
    outcome = with_contender(monkeypatch, Forgetful())
    assert any("broken does not give back its own frame" in text for text in outcome.failures)


def test_a_vector_that_is_damaged_is_found():
    [one] = [one for one in vectors() if one.name == "bf16.s4w"]
    assert one.fault(NativeEngine()) == ""
    changed = bytearray(one.stored)
    changed[len(changed) // 2] ^= 1
    assert "expected" in Vector(one.name, bytes(changed), one.sha256).fault(NativeEngine())
    assert "expected SHA-256" in Vector(one.name, one.stored, "00").fault(NativeEngine())


# These frames are read with bytes that a vector does not bring.
_FROM_BASES = ("copy-", "difference-", "narrowed-", "widened-", "xor-", "rounded-")


def test_the_vectors_are_the_golden_ones():
    names = {one.name for one in vectors()}
    alone = {name for name in make_frames.cases() if not name.startswith(_FROM_BASES)}
    assert {f"{name}.frame" for name in alone} <= names
    assert len(alone) > 40
    assert {"bf16.s4w", "moments-small.s4w"} <= names


def test_where_the_gpu_is_required_its_absence_fails_and_says_why(monkeypatch, capsys):
    monkeypatch.setattr(selftest, "contenders", lambda name: ([], {"reference": "", "gpu": "no driver"}))
    assert main(["selftest", "--require-gpu", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["ok"], report["failures"]) == (False, ["the GPU's engine does not run: no driver"])
    assert main(["selftest", "--require-gpu"]) == 1
    assert "FAILED     the GPU's engine does not run: no driver" in capsys.readouterr().out


def test_nothing_tried_is_not_a_success():
    assert not selftest.Outcome({}).ok


def test_native_is_tried_in_every_form_that_the_machine_has():
    names = [one.name for one in selftest.contenders("native")[0]]
    assert names == ["reference", *(f"native {simd}" for simd in reversed(INSTRUCTION_SETS))]


@pytest.mark.parametrize("thorough", [False, True])
def test_every_pattern_of_every_type_meets_every_size(thorough):
    for cases, counts in ((small_cases, small_counts), (block_cases, lambda one: block_counts(one, thorough=True))):
        met = {}
        for case in sizes_only(cases, thorough):
            met.setdefault((case[0], case[1]), set()).add(case[2])
        for element in ElementType:
            for pattern in PATTERNS:
                found = met[pattern.__name__, element]
                assert found <= set(counts(element))
                assert not thorough or found == set(counts(element))
            every = set().union(*(met[pattern.__name__, element] for pattern in PATTERNS))
            assert every == set(counts(element))
    frames = [case for case in sizes_only(block_cases, thorough) if case[2] * case[1].width == FRAME_BYTES]
    assert {case[1] for case in frames} == set(ElementType)
    assert any(case[2] * case[1].width == MIN_TYPED_BYTES for case in sizes_only(small_cases, thorough))
    assert {case[3] for case in sizes_only(small_cases, thorough)} == set(Level)


def sizes_only(cases, thorough):
    """(pattern, element, count, level) of each, without making its bytes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "s4weights.selftest.patterns._case",
            lambda pattern, count, element, level, name="": (name or pattern.__name__, element, count, level),
        )
        return list(cases(thorough=thorough))


def few_cases(monkeypatch):
    few = [case for case in small_cases(thorough=False) if case.frame.element in (ElementType.BF16, ElementType.U8)]
    monkeypatch.setattr(selftest, "small_cases", lambda thorough: iter(few[::9]))
    monkeypatch.setattr(selftest, "block_cases", lambda thorough: iter(few[1:3]))


@pytest.fixture
def gpu(monkeypatch):
    """The GPU's engine on a device that is none, with these faults."""
    engines = []

    def make(faults=None):
        engine = GpuEngine(FakeDevice(faults, delay_s=0.0001), RingSize(3, 2 << 20), gather_s=0)
        monkeypatch.setattr(usable, "shared_engine", lambda *_: engine)
        engines.append(engine)
        return engine

    yield make
    for engine in engines:
        engine.close()


def test_a_gpu_is_held_to_the_processors_bytes(gpu, monkeypatch, capsys):
    engine = gpu()
    few_cases(monkeypatch)
    assert main(["selftest", "--engine", "gpu", "--require-gpu", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["engines"]["gpu"] == {"runs": True, "why": ""}
    # The shortest frames, and the golden vectors, went to the device too.
    assert report["device_frames"] == engine.counts.frames > report["cases"]
    assert engine.least_bytes > 1


@pytest.mark.parametrize(
    ("faults", "message"),
    [
        (Faults(encode={3: raising(RuntimeError("launch"))}), "the device did not code everything"),
        (Faults(wrong_decode=set(range(0, 999, 3))), "the device did not code everything"),
    ],
)
def test_a_gpu_that_leaves_work_to_the_processor_fails(faults, message, gpu, monkeypatch, capsys):
    gpu(faults)
    few_cases(monkeypatch)
    assert main(["selftest", "--engine", "gpu", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert any(message in text for text in report["failures"])


def test_a_gpu_that_writes_other_bytes_fails(gpu, monkeypatch, capsys):
    engine = gpu()
    few_cases(monkeypatch)
    monkeypatch.setattr("tests.codec.gpu.fake.NATIVE", NativeEngine())  # with Huffman codes
    assert main(["selftest", "--engine", "gpu", "--json"]) == 1
    failures = json.loads(capsys.readouterr().out)["failures"]
    assert any("gpu does not write what native without Huffman writes" in text for text in failures)
    assert engine.counts.faults == 0


def test_without_a_gpu_the_engine_that_is_asked_for_is_named(capsys):
    if torch.cuda.is_available():
        pytest.skip("there is one")
    assert main(["selftest", "--engine", "gpu", "--require-gpu"]) == 1
    assert "s4weights selftest: gpu: " in capsys.readouterr().err
