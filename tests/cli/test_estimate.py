"""`s4weights estimate`: its range holds what `s4weights pack` then writes; it reads little, and changes nothing."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from s4weights.cli import main
from s4weights.codec.container import HEADER_BYTES
from s4weights.codec.encode import Encoder
from s4weights.codec.engines import choose_engine
from s4weights.files import encode_all, pack_file
from s4weights.measure.estimate import MIN_SAMPLE_BYTES, estimate
from s4weights.measure.sources import open_sources
from tests.codec.samples import safetensors_file, torch_file, trained_state
from tests.measure.checkpoints import save_all

ENGINE = choose_engine()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Checkpoints, the first of them larger than the samples; and small files of every type."""
    found = save_all(tmp_path_factory.mktemp("trained"), width=256, layers=6)
    assert found["mixed.pt"].stat().st_size > 1.4 * MIN_SAMPLE_BYTES
    folder = tmp_path_factory.mktemp("types")
    (folder / "types.safetensors").write_bytes(safetensors_file())
    (folder / "types.pt").write_bytes(torch_file(trained_state()))
    return found | {path.name: path for path in folder.iterdir()}


NAMES = ["mixed.pt", "bf16.safetensors", "fp32.safetensors", "types.safetensors", "types.pt"]


@pytest.fixture(scope="module")
def stored(files, tmp_path_factory):
    """What each takes by itself: twins are left out, as estimates leave them out."""
    return {name: _packed_alone(files[name]) for name in NAMES}


def _packed_alone(path: Path) -> int:
    encoder = Encoder()
    chunks = iter([path.read_bytes()])
    stored = sum(frame.stored_bytes for frame in encode_all(encoder, chunks, ENGINE))
    return HEADER_BYTES + stored + len(encoder.finish())


def run(capsys, *arguments: object) -> tuple[int, str, str]:
    code = main(["estimate", *map(str, arguments)])
    out, err = capsys.readouterr()
    return code, out, err


def rows_of(capsys, *arguments: object) -> tuple[list[dict], dict]:
    code, out, err = run(capsys, *arguments, "--json")
    assert code == 0, err
    *rows, whole = map(json.loads, out.splitlines())
    return rows, whole


@pytest.mark.parametrize("name", NAMES)
def test_the_range_holds_what_pack_writes(files, stored, capsys, name):
    rows, whole = rows_of(capsys, files[name], "--max-bytes", MIN_SAMPLE_BYTES)
    assert whole["stored_bytes_low"] <= stored[name] <= whole["stored_bytes_high"]
    assert whole["stored_bytes_high"] - whole["stored_bytes_low"] < 0.03 * stored[name]
    assert whole["logical_bytes"] == files[name].stat().st_size == sum(row["logical_bytes"] for row in rows)
    assert whole["estimate"] is True
    assert whole["confidence"] == 0.9


@pytest.mark.parametrize("seed", range(1, 5))
def test_the_range_holds_it_whatever_is_drawn(files, stored, seed):
    sources = open_sources(str(files["mixed.pt"]))
    total = estimate(sources, ENGINE, sample_bytes=MIN_SAMPLE_BYTES, seed=seed).total
    assert total.sampled < total.pieces
    assert total.low < total.stored_bytes < total.high
    assert total.low <= stored["mixed.pt"] <= total.high


def test_components_are_told_apart_and_only_samples_are_read(files, capsys):
    rows, whole = rows_of(capsys, files["mixed.pt"], "--max-bytes", MIN_SAMPLE_BYTES)
    found = {(row["component"], row["type"]): row for row in rows}
    assert set(found) == {
        ("model weights", "BF16"),
        ("master weights", "F32"),
        ("optimizer m", "F32"),
        ("optimizer v", "F32"),
        ("headers and small tensors", None),
    }
    assert found["model weights", "BF16"]["saved_bytes"] > 0.3 * found["model weights", "BF16"]["logical_bytes"]
    assert all(row["gains"] and 0 < row["pieces_encoded"] <= row["pieces"] for row in rows)
    assert 0 < whole["read_bytes"] < MIN_SAMPLE_BYTES + (1 << 20) < whole["logical_bytes"]


def test_the_same_file_gives_the_same_estimate(files, capsys):
    assert rows_of(capsys, files["mixed.pt"]) == rows_of(capsys, files["mixed.pt"])


def test_a_folder_counts_what_is_unknown_packed_or_random_as_it_is(files, tmp_path, capsys):
    shutil.copy(files["bf16.safetensors"], tmp_path / "model.safetensors")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "train.log").write_bytes(b"step 1\n" * 5000)
    (tmp_path / "empty").touch()
    packed = pack_file(files["types.pt"], tmp_path / "types.pt.s4w").stored_bytes
    rows, whole = rows_of(capsys, tmp_path)
    found = {row["component"]: row for row in rows}
    assert (found["not recognised"]["logical_bytes"], found["not recognised"]["bodies"]) == (35_000, 2)
    assert (found["already packed"]["logical_bytes"], found["already packed"]["bodies"]) == (packed, 1)
    assert found["already packed"]["saved_bytes"] == found["not recognised"]["saved_bytes"] == 0
    assert whole["saved_bytes"] <= found["model weights"]["saved_bytes"] + 20_000
    assert whole["bodies"] == 4


def test_the_table_says_what_it_is_and_the_price(files, tmp_path, capsys):
    (tmp_path / "noise").write_bytes(os.urandom(5000))
    shutil.copy(files["bf16.safetensors"], tmp_path / "model.safetensors")
    code, out, _ = run(capsys, tmp_path)
    assert code == 0
    for text in ("model weights", "BF16", "90% range", "not recognised, 1 body", "nothing", "0.023 USD"):
        assert text in out
    for text in ("S3 Standard, us-east-1", "An estimate from", "not a promise"):
        assert text in out


def test_another_price_is_used(files, capsys):
    cheap, dear = (rows_of(capsys, files["fp32.safetensors"], "--price", price)[1] for price in ("1", "10"))
    assert dear["usd_per_gb_month"] == 10
    assert cheap["saved_usd_month"] == pytest.approx(cheap["saved_bytes"] / 2**30, abs=1e-6)
    assert dear["saved_usd_month"] == pytest.approx(10 * cheap["saved_usd_month"], rel=1e-3)
    assert "us-east-1" not in run(capsys, files["fp32.safetensors"], "--price", "1")[1]


@pytest.mark.parametrize("price", ["-1", "nan", "inf", "much"])
def test_a_price_that_cannot_be_is_wrong_usage(files, capsys, price):
    with pytest.raises(SystemExit) as stop:
        main(["estimate", str(files["mixed.pt"]), "--price", price])
    assert stop.value.code == 2
    assert "expected a price" in capsys.readouterr().err


def test_what_is_not_there_is_named(tmp_path, capsys):
    for place, text in ((tmp_path / "none.pt", "none.pt"), (tmp_path, "found none"), ("s3://", "found no bucket")):
        code, out, err = run(capsys, place)
        assert (code, out) == (1, "")
        assert text in err


def test_too_few_samples_are_refused(files, capsys):
    code, _, err = run(capsys, files["mixed.pt"], "--max-bytes", 1000)
    assert code == 1
    assert "expected at least" in err


@pytest.fixture
def bucket(seaweedfs, monkeypatch):
    """A bucket of a real S3 server, reached as AWS's tools reach it."""
    for name, value in {**seaweedfs.environment(), "AWS_ENDPOINT_URL": seaweedfs.endpoint}.items():
        monkeypatch.setenv(name, value)
    client = seaweedfs.client()
    client.create_bucket(Bucket="estimates")
    yield client
    for row in client.list_objects_v2(Bucket="estimates").get("Contents", []):
        client.delete_object(Bucket="estimates", Key=row["Key"])
    client.delete_bucket(Bucket="estimates")


@pytest.mark.e2e
def test_objects_below_a_prefix_are_read_by_range(files, stored, bucket, capsys):
    for name in ("mixed.pt", "bf16.safetensors"):
        bucket.upload_file(str(files[name]), "estimates", f"run/step 1/{name}")
    bucket.put_object(Bucket="estimates", Key="other/elsewhere", Body=b"not below the prefix")
    rows, whole = rows_of(capsys, "s3://estimates/run/", "--max-bytes", MIN_SAMPLE_BYTES)
    assert whole["stored_bytes_low"] <= stored["mixed.pt"] + stored["bf16.safetensors"] <= whole["stored_bytes_high"]
    assert whole["bodies"] == 2
    assert whole["read_bytes"] < whole["logical_bytes"]
    assert sum(row["logical_bytes"] for row in rows if row["component"] == "model weights") > 14_000_000


@pytest.mark.e2e
@pytest.mark.parametrize("place", ["s3://estimates/nothing", "s3://no-such-bucket/x"])
def test_a_prefix_without_objects_is_named(bucket, capsys, place):
    code, _, err = run(capsys, place)
    assert code == 1
    assert place in err
