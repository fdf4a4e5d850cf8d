"""A checkpoint saved in the background is the state of the moment of the call."""

from __future__ import annotations

import logging

import pytest
import torch

import s4weights
from s4weights.codec.errors import ConfigError


def test_it_holds_the_state_of_the_call_and_a_second_one_follows(tmp_path):
    weight = torch.zeros(1000, 1000)
    saves = []
    for step in range(2):
        saves.append(s4weights.async_save_checkpoint({"weight": weight}, tmp_path, step=step))
        weight += 1
    for step, saving in enumerate(saves):
        saving.result(60)
        assert s4weights.load_checkpoint(tmp_path, step)["weight"].unique().tolist() == [step]


def test_a_relative_run_is_the_one_of_the_call(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    saving = s4weights.async_save_checkpoint({"a": torch.ones(9)}, "run", step=1)
    monkeypatch.chdir(tmp_path / "elsewhere")
    saving.result()
    assert s4weights.list_checkpoints(tmp_path / "run") == [1]


def test_a_failure_is_the_futures_and_is_logged(tmp_path, caplog):
    (tmp_path / "file").write_text("not a directory")
    with caplog.at_level(logging.ERROR):
        saving = s4weights.async_save_checkpoint({"a": 1}, tmp_path / "file", step=7)
        with pytest.raises(OSError, match="file"):
            saving.result(60)
    assert "step 7 was not saved" in caplog.text
    s4weights.async_save_checkpoint({"a": 1}, tmp_path / "run", step=7).result(60)


def test_what_cannot_be_saved_is_refused_at_once(tmp_path):
    with pytest.raises(AttributeError):
        s4weights.async_save_checkpoint({"bad": lambda: None}, tmp_path, step=1)
    with pytest.raises(ConfigError, match="step"):
        s4weights.async_save_checkpoint({}, tmp_path, step=-1)
