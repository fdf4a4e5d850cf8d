"""docs/clients.md is what a run of the clients in code writes when all of them pass."""

from __future__ import annotations

from tests.e2e.clients.catalogue import FOLDER, PROGRAMS
from tests.e2e.clients.table import DOCUMENT, Outcome, read_versions, render


def test_the_page_holds_every_client_and_operation_and_no_failure():
    text = DOCUMENT.read_text(encoding="utf-8")
    versions = read_versions(text)
    assert list(versions) == [program.name for program in PROGRAMS]
    assert text == render({name: Outcome(version) for name, version in versions.items()})


def test_every_module_has_its_row():
    modules = {path.name for path in (FOLDER / "each").iterdir() if path.stem.endswith("_client")}
    assert modules == {program.module for program in PROGRAMS}


def test_what_failed_and_what_did_not_run_is_said():
    first, second, *others = PROGRAMS
    outcomes = {program.name: Outcome("1.0") for program in others}
    outcomes[first.name] = Outcome("2.0")
    outcomes[first.name].add("SeaweedFS", {"GET": "other bytes", "list": ""})
    outcomes[second.name] = Outcome.not_run("no such package")
    rows = [line for line in render(outcomes).splitlines() if line.startswith("| ")]
    assert rows[2].startswith("| boto3 | 2.0 | yes | yes | no (SeaweedFS) | yes | yes ")
    assert rows[3].startswith("| boto3 with crt | not run: no such package | not run | not run ")
    assert read_versions(render(outcomes))[second.name] == "not run: no such package"
