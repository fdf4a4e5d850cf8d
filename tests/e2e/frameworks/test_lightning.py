"""Lightning's ModelCheckpoint, written and read by fsspec and s3fs."""

from __future__ import annotations

import pytest

from tests.e2e.frameworks.conftest import Place, Plain, Unproxied

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def known(unproxied) -> Unproxied:
    return unproxied("lightning_run")


def test_a_lightning_run_is_saved_rotated_and_resumed_as_without_the_proxy(
    place: Place, plain: Plain, known: Unproxied
):
    trained = place.run("lightning_run", "train")["train"]
    assert trained == known.results["train"] == {"best": "epoch=2-step=15.ckpt", "last": "last.ckpt"}
    assert place.deltas()

    resumed = place.run("lightning_run", "resume")["resume"]
    curve = known.results["reference"]
    begins = {"epoch=2-step=15.ckpt": 15, "last.ckpt": 25}
    assert set(begins) < set(resumed)
    assert len(resumed) == 3
    for name, first in begins.items():
        assert resumed[name] == {at: loss for at, loss in curve.items() if int(at) >= first}

    bodies = place.bodies()
    assert place.sums() == known.sums

    total, alone = place.settle(), plain.stored_bytes(bodies)
    print(f"lightning: {sum(map(len, bodies.values()))} logical, {alone} plain, {total} in the bucket")
    assert total < alone

    place.clear()
    place.settle()
    assert place.stored() == {}
