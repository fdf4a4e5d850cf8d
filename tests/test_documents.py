"""The documents are true: their links lead somewhere, their commands run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import Field, fields
from pathlib import Path
from typing import Any

import pytest

from s4weights.cli import main
from s4weights.cli.settings import FLAGS
from s4weights.proxy.config import Settings
from s4weights.proxy.lineage.steps import parse_step
from s4weights.proxy.settings_text import meanings, shown
from tests.codec.samples import safetensors_file

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")])
BIN = Path(sys.executable).parent


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files(path):
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8"))
    missing = [target for target in targets if "://" not in target and not (path.parent / target).exists()]
    assert missing == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_that_are_named_exist(path):
    """Paths in backquotes that start with a folder of ours."""
    named = re.findall(
        r"`((?:codec|proxy|native|tests|benchmarks|docs|src|examples|docker|packer)/[\w./-]*)`",
        path.read_text(encoding="utf-8"),
    )
    missing = [name for name in named if not (ROOT / name).exists() and "data" not in name]
    assert missing == []


def test_modules_of_the_call_trees_exist():
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    names = set(re.findall(r"(?:proxy|codec|objects|handlers|http)/[\w/]+\.py", text))
    assert len(names) > 15
    missing = [name for name in names if not ((ROOT / name).exists() or (ROOT / "proxy" / name).exists())]
    assert missing == []


def readme_block(start: str) -> list[str]:
    blocks = re.findall(r"```\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    [block] = [block for block in blocks if block.startswith(start)]
    return [line.split("#")[0].strip() for line in block.splitlines()]


def test_the_readme_commands_on_files(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(safetensors_file())
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    for command in readme_block("s4weights pack"):
        if command.startswith("s4weights unpack model"):
            (tmp_path / "model.safetensors").unlink()
            (tmp_path / "synced").mkdir()
            shutil.copy(tmp_path / "model.safetensors.s4w", tmp_path / "synced" / "model.safetensors")
        subprocess.run(command, shell=True, check=True, cwd=tmp_path, env=environment, capture_output=True)
    for folder in (tmp_path, tmp_path / "restored"):
        assert (folder / "model.safetensors").read_bytes() == safetensors_file()


def test_the_readme_make_targets_exist():
    rules = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    for command in readme_block("make demo"):
        assert command.removeprefix("make ") in rules


def default_of(one: Field[Any]) -> str:
    if one.name == "upstream":
        return ""  # has to be given
    return one.default.as_posix() if isinstance(one.default, Path) else shown(one.default)


def test_the_table_of_settings_is_the_codes():
    flags = {name: flag for flag, name, _, _ in FLAGS}
    says, default = meanings(), {one.name: default_of(one) for one in fields(Settings)}
    expected = [
        f"| `{one.name}` | {f'`{flags[one.name]}`' if one.name in flags else ''} "
        f"| {f'`{default[one.name]}`' if default[one.name] else ''} | {says[one.name]} |"
        for one in fields(Settings)
    ]
    text = (ROOT / "docs/settings.md").read_text(encoding="utf-8")
    assert [line for line in text.splitlines() if line.startswith("| `")] == expected


def test_the_table_of_keys_is_the_rule():
    text = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\S+)` \| `(\S+)` \| (yes|no) \|$", text, re.MULTILINE)
    assert {answer for _, _, answer in rows} == {"yes", "no"}
    for earlier, key, answer in rows:
        step = parse_step(key)
        assert (step.before([earlier]) if step is not None else []) == ([earlier] if answer == "yes" else []), key


@pytest.mark.parametrize("command", ["serve", "pack", "unpack", "inspect", "selftest", "config"])
def test_help_shows_examples(command, capsys):
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    assert stop.value.code == 0
    assert "examples:" in capsys.readouterr().out


def test_the_demo_ends_with_identical_bytes():
    done = subprocess.run(
        [sys.executable, ROOT / "examples/demo.py"], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("identical") == 3
    assert "AWS_ENDPOINT_URL" in done.stdout
