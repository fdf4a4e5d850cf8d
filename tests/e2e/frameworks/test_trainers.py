"""The Trainer of transformers and Lightning's, with their own rotation: on the proxy they do what they do without it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.e2e.frameworks.conftest import Place, Plain, Unproxied

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(900)]

# What is in the bucket in the end, and the step that it is of. Lightning writes `last` beside one that is among the best.
LEFT = {
    "hf_trainer": {"15": 15, "25": 25},
    "lightning_fit": {"epoch=0-step=15.ckpt": 15, "epoch=0-step=20.ckpt": 20, "last.ckpt": 20},
}


@pytest.fixture(scope="module")
def known(unproxied: Callable[[str], Unproxied]) -> Callable[[str], Unproxied]:
    runs: dict[str, Unproxied] = {}

    def of(script: str) -> Unproxied:
        if script not in runs:
            runs[script] = unproxied(script)
        return runs[script]

    return of


@pytest.mark.parametrize("script", LEFT)
def test_a_run_is_rotated_and_resumed_as_without_the_proxy(place: Place, plain: Plain, known, script: str):
    trained = place.run(script, "train")["train"]
    assert trained == known(script).results["train"] == {"best": 15, "last": 25}
    assert place.deltas()

    resumed = place.run(script, "resume")["resume"]
    assert resumed.keys() == LEFT[script].keys()
    curve = known(script).results["reference"]
    for name, losses in resumed.items():
        assert losses == {at: loss for at, loss in curve.items() if int(at) >= LEFT[script][name]}

    bodies = place.bodies()
    assert bodies.keys() == known(script).sums.keys()
    total, alone = place.settle(), plain.stored_bytes(bodies)
    print(f"{script}: {sum(map(len, bodies.values()))} logical, {alone} plain, {total} in the bucket")
    assert total < alone

    place.clear()
    place.settle()
    assert place.stored() == {}
