"""The codec's benchmark measures what it says: every tensor of a role, the right bound, the right quotients."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from s4weights.codec.decode import iter_body
from s4weights.codec.engines import NativeEngine
from s4weights.codec.limits import FRAME_BYTES
from s4weights.codec.types import ElementType, Frame
from s4weights.measure.candidate import COPY, DECODE, ENCODE, ENGINE_DECODE, ENGINE_VERIFIED, VERIFIED
from s4weights.measure.rounds import Result

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
ENGINE = NativeEngine()


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory) -> Path:
    """Names and order as a mixed run's: model, optimizer, master."""
    torch.manual_seed(0)
    weights = {f"layer.{number}.weight": torch.randn(128, 256) * 0.02 for number in range(2)}
    moments = {
        number: {"step": torch.tensor(3.0), "exp_avg": weight * 1e-3, "exp_avg_sq": weight.square() * 1e-6}
        for number, weight in enumerate(weights.values())
    }
    state = {
        "model": {name: weight.bfloat16() for name, weight in weights.items()},
        "optimizer": {"state": moments, "param_groups": [{"params": [0, 1]}]},
        "master": weights,
    }
    path = tmp_path_factory.mktemp("checkpoint") / "mixed.pt"
    torch.save(state, path)
    return path


def joined(frames: list[Frame]) -> bytes:
    return b"".join(frame.data for frame in frames)


def tensor_bytes(tensors: list[torch.Tensor]) -> bytes:
    return b"".join(tensor.view(torch.uint8).numpy().tobytes() for tensor in tensors)


def test_rows_hold_every_tensor_of_their_role_and_type(checkpoint):
    from codec_rows import ADAM_M, ADAM_V, BF16_M, BF16_MODEL, BF16_V, MASTER, checkpoint_rows

    rows = {row.name: row for row in checkpoint_rows(checkpoint)}
    state = torch.load(checkpoint, weights_only=True)
    moments = state["optimizer"]["state"].values()
    expected = {
        BF16_MODEL: list(state["model"].values()),
        MASTER: list(state["master"].values()),
        ADAM_M: [one["exp_avg"] for one in moments],
        ADAM_V: [one["exp_avg_sq"] for one in moments],
        BF16_M: [one["exp_avg"].bfloat16() for one in moments],
        BF16_V: [one["exp_avg_sq"].bfloat16() for one in moments],
    }
    assert set(rows) == set(expected)
    for name, tensors in expected.items():
        assert joined(rows[name].frames) == tensor_bytes(tensors), name
        assert {frame.element for frame in rows[name].frames} == {rows[name].element}
        assert {frame.grid.columns for frame in rows[name].frames} == {256}


def test_fp16_is_rounded_as_torch_rounds():
    from codec_rows import to_f16

    values = torch.randn(1000)
    assert to_f16(tensor_bytes([values])) == tensor_bytes([values.half()])


@pytest.mark.parametrize(
    ("words", "bits"),
    [
        (np.full(1 << 16, 0x3F80), 0),
        (np.arange(1 << 16), 16),
        (np.arange(1 << 16) & 0x8000, 1),
        (np.arange(1 << 16) & 0x7F80, 8),
        (np.arange(1 << 16) & 0x007F, 7),
    ],
    ids=["constant", "all", "sign", "exponent", "mantissa"],
)
def test_the_bound_is_the_entropy_of_the_fields(words, bits):
    from codec_rows import order0_bound

    frame = Frame(0, ElementType.BF16, words.astype("<u2").tobytes())
    assert order0_bound([frame], ElementType.BF16) == pytest.approx(len(words) * bits / 8)


@pytest.mark.parametrize("limit", [1, 10, 33, 99, 100, 1000])
def test_frames_that_are_measured_are_spread_over_all(limit):
    from codec_rows import thin_out

    frames = [Frame(number, ElementType.U8, b"x") for number in range(100)]
    starts = [frame.start for frame in thin_out(frames, limit)]
    assert len(starts) == min(limit, 100)
    assert len(set(starts)) == len(starts)
    gaps = np.diff([-1, *starts, 100])
    assert max(gaps) <= 100 / len(starts) + 1


def result(candidate: str, stored: int, **seconds: float) -> Result:
    steps = {
        "encode": ENCODE, "verified": VERIFIED, "compare": ENGINE_VERIFIED,
        "decode": DECODE, "engine_decode": ENGINE_DECODE, "copy": COPY,
    }  # fmt: skip
    named = {steps[name]: value for name, value in seconds.items()}
    return Result("", "", candidate, 1000, stored, named, {step: value / 2 for step, value in named.items()}, True)


def test_size_is_held_against_the_smallest_peer_that_works():
    from codec_targets import size_targets

    broken = result("pcodec", 1)
    broken.failure = "it failed"
    results = [
        result("s4weights small", 600),
        result("s4weights balanced", 610),
        result("zipnn", 620),
        result("openzl", 605),
        result("memcpy", 1000),
        broken,
    ]
    whole = {"s4weights balanced": 965, "zipnn": 1000, "zipnn, one array of fp32": 990}
    small, balanced, file = size_targets({"row": {one.candidate: one for one in results}}, whole)
    assert (small.found, small.is_met) == (pytest.approx(600 / 605), True)
    assert (balanced.found, balanced.is_met) == (pytest.approx(610 / 605), True)
    assert (file.found, file.is_met) == (pytest.approx(965 / 990), True)
    results[1].stored_bytes = 612
    whole["s4weights balanced"] = 966
    small, balanced, file = size_targets({"row": {one.candidate: one for one in results}}, whole)
    assert (small.is_met, balanced.is_met, file.is_met) == (True, False, False)


def test_medians_and_fastest_rounds_decide_and_what_was_not_measured_is_not_met():
    from codec_rows import BF16_MODEL
    from codec_targets import speed_targets

    ours = result("s4weights balanced", 600, encode=1, compare=2, verified=2.5, engine_decode=1, decode=1.5)
    results = {one.candidate: one for one in (ours, result("zipnn", 620, encode=4, decode=1.5), result("memcpy", 1000))}
    found = {one.name: one for one in speed_targets({BF16_MODEL: results}) if not one.is_stretch}
    encode = found[f"{BF16_MODEL}: `balanced` encode, engine, by zipnn's"]
    assert (encode.found, encode.least, encode.is_met) == (4, 4, True)
    decode = found[f"{BF16_MODEL}: `balanced` decode, engine, by zipnn's"]
    assert (decode.found, decode.is_met, decode.cells()[-1]) == (1.5, False, "**no**")
    ours.least[ENGINE_DECODE] = 0.1
    decode = next(one for one in speed_targets({BF16_MODEL: results}) if one.name == decode.name)
    assert (decode.is_met, decode.cells()[-1]) == (False, "by fastest rounds only")
    results["zipnn"].seconds[DECODE], ours.least[ENGINE_DECODE] = 1.7, 0.5
    decode = next(one for one in speed_targets({BF16_MODEL: results}) if one.name == decode.name)
    assert (decode.is_met, decode.cells()[-1]) == (False, "by medians only")
    copied = found[f"{BF16_MODEL}: `balanced` decode, engine, by memcpy"]
    assert (copied.found, copied.is_met, copied.cells()[-1]) == (None, False, "not measured")


def test_whole_files_are_measured_as_containers_that_open(checkpoint, tmp_path):
    from codec_bodies import pack, whole_sizes

    body = checkpoint.read_bytes()
    container, _, _ = pack(body, ENGINE)
    path = tmp_path / "container"
    path.write_bytes(container)
    with path.open("rb") as file:
        assert b"".join(iter_body(file, ENGINE)) == body
    sizes = whole_sizes(body, ENGINE, peers=("zstd",))
    assert sizes["s4weights balanced"] == len(container)
    assert sizes["s4weights small"] <= sizes["s4weights balanced"] < sizes["zstd-1 + byte shuffle"] < len(body)


def test_no_frame_takes_more_than_its_header_above_raw():
    from codec_bodies import above_raw

    noise = os.urandom(FRAME_BYTES + 12)
    bodies = {"bytes": (ElementType.BYTES, noise), "fp32": (ElementType.F32, noise)}
    assert above_raw(bodies, ENGINE) == 40


def test_two_threads_are_held_against_one_in_pairs():
    from codec_bodies import Threads

    threads = Threads("x", 1, one=[2.0, 9.0, 4.0], two=[1.0, 9.0, 2.5])
    assert threads.gain == pytest.approx(1.6)
    assert threads.least_gain == 2.0
    assert not threads.target().is_met


def test_everything_is_measured_and_written_for_people_and_machines(checkpoint, tmp_path, monkeypatch):
    import codec_bench
    import codec_bodies
    import results
    from codec_rows import MASTER, checkpoint_rows

    monkeypatch.setattr(results, "RESULTS", tmp_path / "RESULTS.md")
    monkeypatch.setattr(codec_bench, "RECORD", tmp_path / "record.json")
    results.write_section("Size and speed of the codec", "old")
    rows = [row for row in checkpoint_rows(checkpoint) if row.name == MASTER]
    found = codec_bench.measure_all(checkpoint, rows, 1, 64 << 10, peers=("zstd",))
    targets = list(found.targets())
    about = {"machine": "here", "peers": "zstd", "runs": 1, "sample_mib": 1, "checkpoint": checkpoint.name}
    codec_bench.write_results(found, targets, about)
    text = (tmp_path / "RESULTS.md").read_text()
    assert text.count("\n## Codec: ") == 4
    assert "\nold\n" not in text
    assert set(codec_bodies.INCOMPRESSIBLE) < set(found.bodies)
    record = json.loads((tmp_path / "record.json").read_text())
    assert [one["target"] for one in record["targets"]] == [one.name for one in targets]
    measured = [one for one in record["rows"] if one["kind"] == "speed" and one["candidate"] == "s4weights balanced"]
    assert [one["row"] for one in measured] == [MASTER]
    speeds = measured[0]["gb_s"]
    assert set(speeds) == {ENCODE, VERIFIED, DECODE, ENGINE_VERIFIED, ENGINE_DECODE}
    assert min(speeds.values()) > 0
    assert all(measured[0]["gb_s_fastest_rounds"][step] >= speed for step, speed in speeds.items())
    assert all(one["identical"] for one in record["rows"])


def test_levels_of_rows_and_columns_are_found():
    from entropy_bench import conditional_bits, describe, entropy_bits, level_of_each

    rng = np.random.default_rng(0)
    exponents = 100 + rng.integers(0, 9, (64, 1)) + rng.integers(0, 9, (1, 48))
    assert np.array_equal(level_of_each(exponents), exponents)
    assert conditional_bits(exponents, exponents) == pytest.approx(0, abs=1e-6)
    assert entropy_bits(np.arange(256)) == pytest.approx(256 * 8)
    words = (exponents.astype(np.uint32) << 23) | rng.integers(0, 1 << 16, exponents.shape).astype(np.uint32)
    found = describe([words, words])
    assert found["minus round(row + column level)"] == found["sign"] == found["mantissa, upper 7 bits"] == 0
    assert found["exponent, one table for all"] == found["table a tensor"] > 2


def test_the_model_is_its_master_rounded(checkpoint):
    from codec_rows import components
    from entropy_bench import rounding_exceptions

    found = components(checkpoint)
    model, master = found["model weights", ElementType.BF16], found["master weights", ElementType.F32]
    assert rounding_exceptions(model, master) == (0, 2 * 128 * 256)


def test_every_hash_is_measured():
    from hash_bench import HASHES, measure_hashes

    speeds = measure_hashes(mib=1, runs=2)
    assert set(speeds) == {"memcpy", *HASHES}
    assert all(0 < usual <= fastest for usual, fastest in speeds.values())
