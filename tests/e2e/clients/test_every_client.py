"""Every client, every operation, both buckets, on bodies that are checkpoints and bodies that are not."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.e2e.clients.catalogue import PROGRAMS, Program
from tests.e2e.clients.operations import Bodies, Run, make_bodies
from tests.e2e.clients.table import DOCUMENT, Outcome, render
from tests.e2e.clients.worker import Worker
from tests.e2e.conftest import BUCKET

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(600)]

# Set by `make clients`.
WRITE = "CLIENTS_TABLE"


@pytest.fixture(scope="module")
def client_bodies(real_files, tmp_path_factory) -> Bodies:
    paths = {file.name: file.path for file in real_files}
    folder = tmp_path_factory.mktemp("bodies") / "all"
    return make_bodies(folder, paths["gpt-tiny-mixed-30.safetensors"], paths["gpt-tiny-mixed-30.pt"])


@pytest.fixture(scope="module")
def outcomes() -> Iterator[dict[str, Outcome]]:
    """Client to what became of it, written as the page where that is asked for."""
    found: dict[str, Outcome] = {}
    yield found
    if os.environ.get(WRITE) and len(found) == len(PROGRAMS) and all(one.is_whole for one in found.values()):
        DOCUMENT.write_text(render(found), encoding="utf-8")


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_client_works_through_the_proxy(program: Program, endpoint, client_bodies, outcomes, tmp_path):
    if not program.interpreter.exists():
        reason = f"{program.interpreter} is missing; `make clients` installs it"
        outcomes[program.name] = Outcome.not_run(reason)
        assert not os.environ.get("CI"), reason
        pytest.skip(reason)
    with Worker(program, endpoint.proxy.client_environment(), BUCKET, tmp_path / "client") as worker:
        outcome = outcomes.setdefault(program.name, Outcome(worker.call("version")))
        results = dict(Run(program, worker, endpoint, client_bodies, tmp_path).results())
    outcome.add("directory" if endpoint.directory else "SeaweedFS", results)
    failed = {operation: said for operation, said in results.items() if said}
    assert not failed, "\n".join(f"--- {operation}: {said}" for operation, said in failed.items())
