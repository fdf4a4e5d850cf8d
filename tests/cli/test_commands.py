"""pack, unpack, inspect, config: results, exit codes, and files that are whole or not there."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from s4weights.cli import main
from tests.codec.samples import safetensors_file, torch_file, trained_state


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(safetensors_file())
    return path


def run(capsys, *arguments: object) -> tuple[int, str, str]:
    code = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_pack_and_unpack(source, capsys):
    body = source.read_bytes()
    code, out, _ = run(capsys, "pack", source)
    assert code == 0
    assert "ratio" in out
    assert "verified" in out
    packed = source.with_name("model.safetensors.s4w")
    assert packed.stat().st_size < 0.9 * len(body)
    source.unlink()
    assert run(capsys, "unpack", packed)[0] == 0
    assert source.read_bytes() == body


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_reports_as_json(source, tmp_path, capsys, engine):
    code, out, _ = run(capsys, "pack", source, "-o", tmp_path / "x", "--json", "--engine", engine)
    report = json.loads(out)
    assert code == 0
    assert report["logical_bytes"] == source.stat().st_size
    assert report["stored_bytes"] == (tmp_path / "x").stat().st_size
    assert (report["kind"], report["engine"], report["verified"]) == ("safetensors", engine, True)
    code, out, _ = run(capsys, "unpack", tmp_path / "x", "-o", tmp_path / "y", "--json")
    assert json.loads(out)["logical_bytes"] == source.stat().st_size
    assert (tmp_path / "y").read_bytes() == source.read_bytes()


@pytest.mark.parametrize("command", ["unpack", "inspect"])
def test_a_container_that_is_cut_off_is_named(source, capsys, command):
    run(capsys, "pack", source)
    packed = source.with_name("model.safetensors.s4w")
    packed.write_bytes(packed.read_bytes()[:-100])
    source.unlink()
    code, _, err = run(capsys, command, packed)
    assert code == 1
    assert f"{packed}: trailer: expected" in err


def test_a_folder_that_is_not_there_is_named_with_the_target(source, tmp_path, capsys):
    code, _, err = run(capsys, "pack", source, "-o", tmp_path / "no" / "x")
    assert code == 1
    assert repr(str(tmp_path / "no" / "x")) in err


def test_an_existing_target_is_kept_without_force(source, capsys):
    target = source.with_name("model.safetensors.s4w")
    target.write_bytes(b"precious")
    code, _, err = run(capsys, "pack", source)
    assert code == 1
    assert "exists" in err
    assert target.read_bytes() == b"precious"
    assert run(capsys, "pack", source, "--force")[0] == 0


def test_a_damaged_container_is_named_and_nothing_is_written(source, tmp_path, capsys):
    run(capsys, "pack", source)
    packed = source.with_name("model.safetensors.s4w")
    damaged = bytearray(packed.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    packed.write_bytes(damaged)
    code, _, err = run(capsys, "unpack", packed, "-o", tmp_path / "back")
    assert code == 1
    assert "frame" in err
    assert "expected" in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.safetensors", "model.safetensors.s4w"]


@pytest.mark.parametrize("command", ["pack", "unpack", "inspect"])
def test_a_file_that_is_not_there(tmp_path, capsys, command):
    code, _, err = run(capsys, command, tmp_path / "missing.s4w")
    assert code == 1
    assert "missing.s4w" in err


def test_unpack_of_a_file_that_is_no_container(source, tmp_path, capsys):
    code, _, err = run(capsys, "unpack", source, "-o", tmp_path / "x")
    assert code == 1
    assert "expected magic" in err


@pytest.mark.parametrize("packed", [False, True])
def test_inspect_names_every_tensor_and_adds_up(source, capsys, packed):
    size = source.stat().st_size
    if packed:
        run(capsys, "pack", source)
        source = source.with_name("model.safetensors.s4w")
    code, out, _ = run(capsys, "inspect", source, "--json")
    *rows, whole = map(json.loads, out.splitlines())
    assert code == 0
    assert sum(row["logical_bytes"] for row in rows) == whole["logical_bytes"] == size
    assert whole["is_container"] is packed
    by_name = {row["name"]: row for row in rows}
    assert by_name["layer.0.weight"]["type"] == "BF16"
    assert by_name["layer.0.weight"]["shape"] == [300, 200]
    assert by_name["layer.0.weight"]["ratio"] > 1.3
    assert by_name["layer.0.weight"]["modes"] == ["huffman+raw"]
    assert sum(row["stored_bytes"] for row in rows) <= whole["stored_bytes"]


def test_inspect_is_the_same_before_and_after_packing(tmp_path, capsys):
    path = tmp_path / "state.pt"
    path.write_bytes(torch_file(trained_state()))
    *before, _ = run(capsys, "inspect", path, "--json")[1].splitlines()
    run(capsys, "pack", path)
    *after, _ = run(capsys, "inspect", tmp_path / "state.pt.s4w", "--json")[1].splitlines()
    assert before == after


def test_inspect_as_a_table(source, capsys):
    code, out, _ = run(capsys, "inspect", source, "--limit", "2")
    assert code == 0
    assert "layer.0.bias" in out or "layer.0.weight" in out
    assert "more tensors" in out
    assert "would be stored" in out


def test_config_shows_values_sources_and_no_secret(tmp_path, capsys, monkeypatch):
    file = tmp_path / "s4weights.toml"
    file.write_text('memory_bytes = "1GiB"\nmode = "passthrough"\n')
    monkeypatch.setenv("S4W_MODE", "auto")
    monkeypatch.setenv("S4W_SECRET_KEY", "very-secret")
    monkeypatch.setenv("S4W_ACCESS_KEY", "AKIA")
    code, out, _ = run(capsys, "config", "--config", file, "--upstream", "./x", "--json")
    rows = {row["name"]: (row["value"], row["source"]) for row in map(json.loads, out.splitlines())}
    assert code == 0
    assert rows["upstream"] == ("./x", "flag")
    assert rows["mode"] == ("auto", "environment")
    assert rows["memory_bytes"] == (1 << 30, f"file {file}")
    assert rows["listen"] == ("127.0.0.1:9000", "default")
    assert "very-secret" not in out


def test_config_says_what_a_setting_means_in_columns(capsys):
    code, out, _ = run(capsys, "config")
    assert code == 0
    lines = out.splitlines()
    [named] = [line for line in lines if line.startswith("identity_certificates_file")]
    assert {line.index(" default ") for line in lines} == {named.index(" default ")}
    [chain] = [line for line in lines if line.startswith("max_chain")]
    assert chain.endswith(
        "Objects that may lie behind one another, all of which a restore of the last one may read; 0: none."
    )


def test_a_reader_that_goes_is_no_error():
    done = subprocess.run(
        f"{sys.executable} -m s4weights.cli config | true; echo ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("141\n", "")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--mode", "fast"], "mode: expected"),
        (["--listen", "nonsense"], "listen: expected HOST:PORT"),
        (["--threads", "-1"], "threads: expected at least 0"),
        (["--memory", "lots"], "memory_bytes"),
        (["--config", "/no/such/file"], "/no/such/file"),
    ],
)
def test_settings_that_cannot_be_used_are_named(capsys, arguments, text):
    code, _, err = run(capsys, "config", *arguments)
    assert code == 1
    assert text in err


def test_a_misspelt_variable_is_named(capsys, monkeypatch):
    monkeypatch.setenv("S4W_MEMROY_BYTES", "1")
    code, _, err = run(capsys, "config")
    assert code == 1
    assert "S4W_MEMROY_BYTES" in err


def test_variables_of_a_kubernetes_service_are_none_of_ours(capsys, monkeypatch):
    monkeypatch.setenv("S4W_PORT", "tcp://10.0.0.1:9000")
    monkeypatch.setenv("S4W_SERVICE_HOST", "10.0.0.1")
    assert run(capsys, "config")[0] == 0


def test_serve_needs_an_upstream(capsys):
    code, _, err = run(capsys, "serve")
    assert code == 78
    assert "upstream: expected" in err


def test_wrong_usage_is_exit_code_two(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["pack"])
    assert stop.value.code == 2


@pytest.mark.parametrize("name", [".", "sub"])
def test_packing_a_directory_is_refused_by_name(tmp_path, capsys, monkeypatch, name):
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, "pack", name)
    assert (code, out) == (1, "")
    assert err == f"s4weights pack: {name}: expected a file, found a directory\n"
