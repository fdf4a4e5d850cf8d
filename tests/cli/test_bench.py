"""`s4weights bench`: everyone on the same bytes, compared, with what went wrong named."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec

import pytest

from s4weights.cli import main
from s4weights.measure.ours import LEVELS
from s4weights.measure.peers import PEERS, missing_peers
from tests.codec.samples import safetensors_raw
from tests.measure.checkpoints import save_all

OURS = [f"s4weights {level}" for level in LEVELS]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return save_all(tmp_path_factory.mktemp("trained"), width=128, layers=1)


def run(capsys, *arguments: object) -> tuple[int, str, str]:
    code = main(["bench", "--runs", "1", *map(str, arguments)])
    out, err = capsys.readouterr()
    return code, out, err


def rows_of(capsys, *arguments: object) -> tuple[list[dict], dict]:
    code, out, err = run(capsys, *arguments, "--json")
    assert code == 0, err
    *rows, machine = map(json.loads, out.splitlines())
    return rows, machine


def check(rows: list[dict]) -> None:
    """What is true of every row."""
    assert all(row["identical"] and row["failure"] is None for row in rows)
    for row in rows:
        if row["candidate"] == "memcpy":
            assert row["copy_gb_s"] > 0
        else:
            assert row["encode_gb_s"] > 0
            assert row["decode_gb_s"] > 0
            assert row["ratio"] == pytest.approx(row["logical_bytes"] / row["stored_bytes"], abs=1e-3)
            assert (row["encode_verified_gb_s"] is not None) is row["candidate"].startswith("s4weights")


def test_every_component_is_measured_and_summed_up(files, capsys):
    rows, machine = rows_of(capsys, files["mixed.pt"], "--peers", "zstd")
    check(rows)
    components = {(row["component"], row["type"]): row["logical_bytes"] for row in rows}
    assert {("model weights", "BF16"), ("optimizer m", "F32"), ("optimizer v", "F32"), ("all", None)} <= set(components)
    total = components.pop(("all", None))
    assert total == sum(components.values()) == machine["measured_bytes"] > 0.9 * machine["source_bytes"]
    assert {row["candidate"] for row in rows} == {"memcpy", *OURS, "zstd-1", "zstd-1 + byte shuffle"}
    assert len(rows) == 5 * (3 + len(OURS))
    assert (machine["synthetic"], machine["threads"], machine["runs"]) == (False, 1, 1)


def test_one_level_is_measured_when_asked(files, capsys):
    rows, _ = rows_of(capsys, files["bf16.safetensors"], "--level", "balanced", "--peers")
    assert [row["candidate"] for row in rows] == ["memcpy", "s4weights balanced"]


def test_every_peer_that_is_installed_is_measured(files, capsys):
    rows, machine = rows_of(capsys, files["bf16.safetensors"])
    check(rows)
    assert len(rows) == 2 + len(OURS) + len(PEERS) - len(missing_peers())
    assert machine["not_installed"] == missing_peers()
    assert len({row["logical_bytes"] for row in rows}) == 1
    assert all(row["ratio"] > 1.3 for row in rows if row["candidate"].startswith("s4weights"))


def test_without_a_file_a_synthetic_checkpoint_is_measured_and_said_to_be_one(capsys):
    code, out, _ = run(capsys, "--max-bytes", 4 << 20, "--peers", "zstd")
    assert code == 0
    for text in (
        "synthetic checkpoint (real ones differ)",
        "s4weights",
        "memcpy",
        "zstd-1 + byte shuffle",
        "optimizer v",
    ):
        assert text in out


def test_what_has_no_room_is_named(files, capsys):
    rows, machine = rows_of(capsys, files["mixed.pt"], "--max-bytes", 1 << 20, "--peers", "zstd")
    assert {f"{row['component']} {row['type']}" for row in rows} & set(machine["left_out"]) == set()
    assert len(machine["left_out"]) >= 1
    assert machine["left_out"][0] in run(capsys, files["mixed.pt"], "--max-bytes", 1 << 20, "--peers")[1]


def test_of_a_larger_file_pieces_are_measured(files, capsys):
    _, machine = rows_of(capsys, files["fp32.safetensors"], "--max-bytes", 1 << 20, "--peers")
    assert 500_000 <= machine["measured_bytes"] <= 1 << 20
    assert machine["source_bytes"] == files["fp32.safetensors"].stat().st_size


@pytest.mark.e2e
def test_an_object_is_read_by_range(files, seaweedfs, monkeypatch, capsys):
    for name, value in {**seaweedfs.environment(), "AWS_ENDPOINT_URL": seaweedfs.endpoint}.items():
        monkeypatch.setenv(name, value)
    seaweedfs.client().create_bucket(Bucket="benches")
    seaweedfs.client().upload_file(str(files["mixed.pt"]), "benches", "a/mixed.pt")
    rows, machine = rows_of(capsys, "s3://benches/a/mixed.pt", "--max-bytes", 2 << 20, "--peers")
    assert machine["source"] == "s3://benches/a/mixed.pt"
    assert 0 < machine["measured_bytes"] <= 2 << 20
    assert {row["candidate"] for row in rows} == {"memcpy", *OURS}
    code, _, err = run(capsys, "s3://benches/a/none.pt")
    assert code == 1
    assert "s3://benches/a/none.pt" in err


@pytest.mark.skipif(find_spec("matplotlib") is None, reason="matplotlib is not installed")
@pytest.mark.filterwarnings("default")
def test_a_picture_is_written_when_asked(files, tmp_path, capsys):
    target = tmp_path / "bench.png"
    code, _, err = run(capsys, files["bf16.safetensors"], "--plot", target, "--peers", "zstd")
    assert code == 0
    assert str(target) in err
    data = target.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert int.from_bytes(data[16:20]) > int.from_bytes(data[20:24]) > 300


def test_without_matplotlib_a_picture_is_refused_before_anything_is_measured(files, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    code, out, err = run(capsys, files["bf16.safetensors"], "--plot", tmp_path / "bench.png", "--peers")
    assert (code, out) == (1, "")
    assert "matplotlib is missing" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"no checkpoint", "recognised as: unknown"),
        (safetensors_raw({"w": {"dtype": "BF16", "shape": [8], "data_offsets": [0, 16]}}, bytes(16)), "safetensors"),
    ],
    ids=["unknown", "small tensors only"],
)
def test_a_file_without_large_tensors_is_refused(tmp_path, capsys, body, text):
    (tmp_path / "body").write_bytes(body)
    code, _, err = run(capsys, tmp_path / "body")
    assert code == 1
    assert text in err
    assert "expected a checkpoint" in err


@pytest.mark.parametrize("runs", ["0", "-1", "x"])
def test_rounds_that_cannot_be_are_wrong_usage(capsys, runs):
    with pytest.raises(SystemExit) as stop:
        main(["bench", "--runs", runs])
    assert stop.value.code == 2
    assert "expected a whole number from" in capsys.readouterr().err
