"""unpack -r: a folder or prefix that was copied without the proxy becomes what clients had written."""

from __future__ import annotations

import json
import os

import pytest

from s4weights.cli import main
from s4weights.files import pack_file
from s4weights.measure.sources import FileSource
from s4weights.restore import Copied, Plan, restore_all
from tests.codec.samples import safetensors_file
from tests.e2e.proxy_process import ProxyProcess
from tests.servers import ACCESS_KEY, SECRET_KEY


def run(capsys, *arguments: object) -> tuple[int, str, str]:
    code = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture
def body(tmp_path):
    path = tmp_path / "body"
    path.write_bytes(safetensors_file())
    return path.read_bytes()


@pytest.fixture
def synced(tmp_path, body):
    """As a sync of a bucket would leave it."""
    folder = tmp_path / "synced"
    (folder / "run" / "step-1").mkdir(parents=True)
    (folder / ".s4weights" / "pins").mkdir(parents=True)
    (folder / ".s4weights" / "pins" / "x").write_bytes(b"ours")
    (folder / ".s4weights-calls").write_bytes(b"")
    pack_file(tmp_path / "body", folder / "run" / "step-1" / "model.safetensors")
    pack_file(tmp_path / "body", folder / "own.s4w")
    (folder / "config.json").write_bytes(b"{}")
    (folder / "empty").write_bytes(b"")
    (folder / "large").write_bytes(os.urandom(20 << 20))
    return folder


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_containers_are_decoded_and_everything_else_is_as_it_was(synced, tmp_path, body, capsys):
    code, out, _ = run(capsys, "unpack", "-r", synced, tmp_path / "back")
    assert (code, "1 decoded and verified, 4 copied, 0 failed" in out) == (0, True)
    kept = {name: data for name, data in files(synced).items() if not name.startswith(".s4weights")}
    assert files(tmp_path / "back") == {**kept, "run/step-1/model.safetensors": body}


def test_one_object_a_file(synced, tmp_path, body, capsys):
    code, out, _ = run(capsys, "unpack", "-r", synced, "-o", tmp_path / "back", "--json")
    rows = {row["target"].removeprefix(f"{tmp_path}/back/"): row for row in map(json.loads, out.splitlines())}
    assert code == 0
    assert rows["config.json"]["kind"] == "copied"
    found = rows["run/step-1/model.safetensors"]
    assert (found["kind"], found["logical_bytes"], found["verified"]) == ("container", len(body), True)
    assert found["stored_bytes"] == (synced / "run" / "step-1" / "model.safetensors").stat().st_size
    assert found["source"] == str(synced / "run" / "step-1" / "model.safetensors")


@pytest.mark.parametrize("place", ["start", "middle", "end", "cut"])
def test_a_damaged_container_is_named_and_leaves_nothing_while_the_rest_is_written(synced, tmp_path, capsys, place):
    damaged = synced / "run" / "step-1" / "model.safetensors"
    data = bytearray(damaged.read_bytes())
    if place == "cut":
        del data[-1:]
    else:
        data[{"start": 12, "middle": len(data) // 2, "end": len(data) - 30}[place]] ^= 1
    damaged.write_bytes(data)
    code, out, err = run(capsys, "unpack", "-r", synced, tmp_path / "back")
    assert (code, "1 failed" in out) == (1, True)
    assert str(damaged) in err
    assert sorted(files(tmp_path / "back")) == ["config.json", "empty", "large", "own.s4w"]
    assert list((tmp_path / "back" / "run" / "step-1").iterdir()) == []


def test_what_exists_stays_unless_it_is_forced(synced, tmp_path, body, capsys):
    (tmp_path / "back").mkdir()
    (tmp_path / "back" / "config.json").write_bytes(b"mine")
    code, _, err = run(capsys, "unpack", "-r", synced, tmp_path / "back")
    assert (code, "config.json exists: use --force" in err) == (1, True)
    assert (tmp_path / "back" / "config.json").read_bytes() == b"mine"
    assert run(capsys, "unpack", "-r", synced, tmp_path / "back", "--force")[0] == 0
    assert (tmp_path / "back" / "config.json").read_bytes() == b"{}"


def test_links_are_not_written_through(synced, tmp_path, capsys):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "back").mkdir()
    (tmp_path / "back" / "run").symlink_to(tmp_path / "elsewhere")
    code, _, err = run(capsys, "unpack", "-r", synced, tmp_path / "back")
    assert (code, "leads out of" in err) == (1, True)
    assert list((tmp_path / "elsewhere").rglob("*")) == []


@pytest.mark.parametrize("name", ["../out", "a/../../out", "/out", "a//out", "a/./out", "out/", "", "a\0out", ".."])
def test_names_that_are_no_files_below_the_target_are_refused(synced, tmp_path, name):
    plans = [Plan(name, FileSource(synced / "config.json"))]
    [one] = restore_all(Copied(plans, []), tmp_path / "deep" / "back")
    assert one.report is None
    assert "expected a name" in one.error
    assert not (tmp_path / "deep").exists()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["-r", "{synced}"], "expected the folder to write to"),
        (["-r", "{synced}", "{synced}/inside"], "expected a place outside of"),
        (["-r", "{synced}/config.json", "x"], "expected a folder or s3://BUCKET/PREFIX"),
        (["-r", "{synced}", "x", "-o", "y"], "expected TARGET or -o, found both"),
        (["-r", "s3:///x", "y"], "found no bucket"),
        (["{synced}"], "-r unpacks all of it"),
    ],
)
def test_wrong_use_is_named(synced, capsys, arguments, text):
    code, _, err = run(capsys, "unpack", *(argument.format(synced=synced) for argument in arguments))
    assert code == 1
    assert text in err


@pytest.mark.e2e
def test_a_prefix_of_a_bucket_without_the_proxy(seaweedfs, tmp_path, body, capsys, monkeypatch):
    proxy = ProxyProcess(seaweedfs.endpoint, tmp_path / "state", seaweedfs.environment())
    proxy.start()
    client, straight = proxy.client(), seaweedfs.client()
    straight.create_bucket(Bucket="unpack")
    pack_file(tmp_path / "body", tmp_path / "packed")
    written = {"ck/a/model.pt": body, "ck/own": (tmp_path / "packed").read_bytes(), "ck/readme": b"text", "other": b"x"}
    for key, data in written.items():
        client.put_object(Bucket="unpack", Key=key, Body=data)
    proxy.stop()
    assert straight.head_object(Bucket="unpack", Key="ck/a/model.pt")["ContentLength"] < len(body)
    for name, value in (
        *(("AWS_ENDPOINT_URL", seaweedfs.endpoint), ("AWS_ACCESS_KEY_ID", ACCESS_KEY)),
        *(("AWS_SECRET_ACCESS_KEY", SECRET_KEY), ("AWS_DEFAULT_REGION", "us-east-1")),
    ):
        monkeypatch.setenv(name, value)
    assert run(capsys, "unpack", "-r", "s3://unpack/ck/", tmp_path / "back")[0] == 0
    assert files(tmp_path / "back") == {
        name.removeprefix("ck/"): data for name, data in written.items() if name.startswith("ck/")
    }
