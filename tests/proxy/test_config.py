"""Settings: flags before environment before file before defaults, and a named error for everything else."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from s4weights.codec.errors import ConfigError
from s4weights.proxy.config import MASK, Settings, from_env, is_loopback, load_settings, parse_address
from s4weights.proxy.settings_text import meanings


def test_each_source_goes_before_the_next(tmp_path):
    file = tmp_path / "s4w.toml"
    file.write_text('upstream = "/file"\nthreads = 1\nmode = "passthrough"\ndomain = ["a.test", "b.test"]\n')
    environment = {"S4W_UPSTREAM": "/environment", "S4W_THREADS": "2", "S4W_CONFIG": str(file), "HOME": "/root"}
    found = load_settings({"upstream": "/flag", "engine": None}, environment)
    assert (found.settings.upstream, found.settings.threads, found.settings.mode) == ("/flag", 2, "passthrough")
    assert found.settings.domain == ("a.test", "b.test")
    names = ("upstream", "threads", "mode", "engine")
    assert [found.sources[name] for name in names] == ["flag", "environment", f"file {file}", "default"]


def test_the_file_of_the_flag_goes_before_that_of_the_environment(tmp_path):
    for name in ("flag", "environment"):
        (tmp_path / name).write_text(f'upstream = "/{name}"\n')
    found = load_settings({"config": str(tmp_path / "flag")}, {"S4W_CONFIG": str(tmp_path / "environment")})
    assert found.settings.upstream == "/flag"


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("S4W_MEMORY_BYTES", "1GiB", 1 << 30),
        ("S4W_MEMORY_BYTES", "64m", 64 << 20),
        ("S4W_MEMORY_BYTES", "1048576", 1 << 20),
        ("S4W_DOMAIN", "a.test, b.test", ("a.test", "b.test")),
        ("S4W_UPSTREAM_CHECKSUMS", "0", False),
        ("S4W_TEST_ENCODE_ALL", "yes", True),
        ("S4W_UPLOAD_MAX_AGE_S", "0.5", 0.5),
        ("S4W_STATE", "/var/s4w", Path("/var/s4w")),
    ],
)
def test_texts_of_the_environment_become_values(name, text, value):
    settings = load_settings({"upstream": "/x"}, {name: text}).settings
    field = {"S4W_STATE": "state_dir", "S4W_TEST_ENCODE_ALL": "encode_all"}.get(name, name[4:].lower())
    assert getattr(settings, field) == value


@pytest.mark.parametrize(
    ("environment", "text"),
    [
        ({}, "upstream: expected"),
        ({"S4W_MODE": "fast"}, "mode: expected auto, passthrough, found 'fast'"),
        ({"S4W_ENGINE": "abacus"}, "engine: expected"),
        ({"S4W_ENTROPY": "lzma"}, "entropy: expected open, gdeflate, nvcomp-ans"),
        ({"S4W_GPU_MEMORY_BYTES": "0"}, "gpu_memory_bytes: expected at least 1"),
        ({"S4W_LOG_LEVEL": "LOUD"}, "log_level: expected"),
        ({"S4W_THREADS": "many"}, r"threads \(environment\): expected int, found 'many'"),
        ({"S4W_THREADS": "-1"}, "threads: expected at least 0"),
        ({"S4W_MEMORY_BYTES": "0"}, "memory_bytes: expected at least 1"),
        ({"S4W_PART_BYTES": "1MiB"}, "part_bytes: expected at least 5242880"),
        ({"S4W_LOG_FORMAT": "xml"}, "log_format: expected text, json, found 'xml'"),
        ({"S4W_UPSTREAM_CHECKSUMS": "perhaps"}, "upstream_checksums"),
        ({"S4W_TLS_CERT": "/x.pem"}, "tls_cert and tls_key: expected both or neither"),
        ({"S4W_BODY_TIMEOUT_S": "0"}, "body_timeout_s: expected seconds above 0"),
        ({"S4W_SEND_TIMEOUT_S": "nan"}, "send_timeout_s: expected seconds above 0"),
        ({"S4W_LISTEN": "9000"}, "listen: expected HOST:PORT"),
        ({"S4W_HEALTH": "localhost:99999"}, "health: expected HOST:PORT"),
        ({"S4W_ACCESS_KEY": "AKIA"}, "expected both or neither"),
        ({"S4W_MEMROY": "1"}, "found S4W_MEMROY"),
        ({"S4W_CONFIG": "/no/such/file.toml"}, r"/no/such/file.toml: No such file"),
    ],
)
def test_what_cannot_be_used_is_named(environment, text):
    flags = {} if text.startswith("upstream") else {"upstream": "/x"}
    with pytest.raises(ConfigError, match=text):
        load_settings(flags, environment)


@pytest.mark.parametrize(("content", "text"), [("upstraem = 'x'", "found upstraem"), ("not toml", "s4w.toml: ")])
def test_a_wrong_file_is_named(tmp_path, content, text):
    (tmp_path / "s4w.toml").write_text(content)
    with pytest.raises(ConfigError, match=text):
        load_settings({"config": str(tmp_path / "s4w.toml"), "upstream": "/x"}, {})


def test_secrets_show_nowhere():
    found = load_settings({"upstream": "/x"}, {"S4W_ACCESS_KEY": "AKIA", "S4W_SECRET_KEY": "hush-hush"})
    assert found.settings.secret_key == "hush-hush"
    assert ("secret_key", MASK, "environment") in found.rows()
    assert "hush-hush" not in f"{found!r} {found.rows()}"


def test_every_setting_says_what_it_means():
    assert [name for name, text in meanings().items() if text.endswith(".")] == [one.name for one in fields(Settings)]


def test_only_our_variables_are_read():
    assert from_env({"S4W_UPSTREAM": "/x", "PATH": "/bin", "AWS_REGION": "r"}) == {"upstream": "/x"}


@pytest.mark.parametrize(
    ("text", "address", "loopback"),
    [
        ("127.0.0.1:9000", ("127.0.0.1", 9000), True),
        ("localhost:0", ("localhost", 0), True),
        ("[::1]:9000", ("::1", 9000), True),
        ("0.0.0.0:9000", ("0.0.0.0", 9000), False),
        ("[::]:9000", ("::", 9000), False),
        (":9000", ("", 9000), False),
        ("host.example:9000", ("host.example", 9000), False),
    ],
)
def test_addresses(text, address, loopback):
    assert parse_address("listen", text) == address
    assert is_loopback(address[0]) == loopback


def test_settings_cannot_be_changed():
    with pytest.raises(AttributeError):
        Settings(upstream="/x").upstream = "/y"
