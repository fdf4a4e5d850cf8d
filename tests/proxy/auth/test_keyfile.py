"""The credentials file: read, refused by name, and followed while the proxy runs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from s4weights.codec.errors import ConfigError
from s4weights.proxy.auth.credentials import CredentialStore
from s4weights.proxy.auth.grants import EVERYTHING, Grant
from s4weights.proxy.auth.keyfile import KeyFile

TWO = """
[[key]]
access_key = "AKIATRAINER"
secret_key = "one"

[[key]]
access_key = "AKIAREADER"
secret_key = "two"
prefixes = ["training/", "shared/team/"]
read_only = true
"""


def write(path: Path, text: str) -> Path:
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    fresh.chmod(0o600)
    fresh.replace(path)
    return path


async def wait_for(condition) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - of a file
            await asyncio.sleep(0.01)


def test_keys_with_their_grants(tmp_path):
    trainer, reader = KeyFile(write(tmp_path / "keys", TWO)).load()
    assert (trainer.access_key, trainer.secret_key, trainer.grant) == ("AKIATRAINER", "one", EVERYTHING)
    assert (reader.access_key, reader.grant) == ("AKIAREADER", Grant(("training/", "shared/team/"), True))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"expected \[\[key\]\] tables"),
        ('secret = "hush-hush"', r"expected \[\[key\]\] tables"),
        ("[[key]]\naccess_key = 'hush-hush", "expected TOML"),
        ('[[key]]\naccess_key = "A"\n', "key 1: expected access_key and secret_key"),
        ('[[key]]\naccess_key = "A"\nsecret_key = ["hush-hush"]\n', "'secret_key'"),
        ('[[key]]\naccess_key = "A"\nsecret_key = "hush-hush"\nread-only = true\n', "'read-only'"),
        ('[[key]]\naccess_key = "A"\nsecret_key = "hush-hush"\nprefixes = []\n', "at least one prefix"),
        ('[[key]]\naccess_key = "A"\nsecret_key = "hush-hush"\nprefixes = ["bucket"]\n', "found 'bucket'"),
        ('[[key]]\naccess_key = "A"\nsecret_key = "hush-hush"\n' * 2, "found A again"),
    ],
)
def test_a_file_that_says_something_else_is_refused_without_its_secrets(tmp_path, text, message):
    with pytest.raises(ConfigError, match=message) as refused:
        KeyFile(write(tmp_path / "keys", text)).load()
    assert "hush-hush" not in str(refused.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        KeyFile(tmp_path / "keys").load()


async def test_a_key_that_is_taken_out_is_revoked_and_a_broken_file_changes_nothing(tmp_path):
    path = write(tmp_path / "keys", TWO)
    file = KeyFile(path)
    store = CredentialStore(file.load())
    following = asyncio.create_task(file.follow(store, period_s=0.01))
    write(path, '[[key]]\naccess_key = "AKIANEW"\nsecret_key = "three"\n')
    await wait_for(lambda: store.find("AKIANEW") is not None)
    assert store.find("AKIATRAINER") is None
    write(path, "half a fi")
    await asyncio.sleep(0.1)
    assert store.find("AKIANEW") is not None
    path.unlink()
    await asyncio.sleep(0.1)
    assert store.find("AKIANEW") is not None
    write(path, TWO)
    await wait_for(lambda: store.find("AKIAREADER") is not None)
    following.cancel()
