"""torch.distributed.checkpoint, written and read by s3torchconnector."""

from __future__ import annotations

import pytest

from tests.e2e.frameworks.conftest import Place, Plain, Unproxied

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def known(unproxied) -> Unproxied:
    return unproxied("dcp")


def of_tensors(sums: dict[str, str]) -> dict[str, str]:
    """`.metadata` has an id in it that is drawn for every save."""
    return {key: value for key, value in sums.items() if key.endswith(".distcp")}


def test_a_dcp_run_is_saved_rotated_and_resumed_as_without_the_proxy(place: Place, plain: Plain, known: Unproxied):
    trained = place.run("dcp", "train")["train"]
    assert trained == known.results["train"] == {"best": 15, "last": 25}
    assert place.deltas()

    resumed = place.run("dcp", "resume")["resume"]
    curve = known.results["reference"]
    assert set(resumed) == {"15", "20", "25"}
    for step, losses in resumed.items():
        assert losses == {at: loss for at, loss in curve.items() if int(at) >= int(step)}

    bodies = place.bodies()
    assert len(bodies) == 6
    assert of_tensors(place.sums()) == of_tensors(known.sums)

    total, alone = place.settle(), plain.stored_bytes(bodies)
    print(f"dcp: {sum(map(len, bodies.values()))} logical, {alone} plain, {total} in the bucket")
    assert total < alone

    place.clear()
    place.settle()
    assert place.stored() == {}
