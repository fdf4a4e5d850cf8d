"""Both instruction sets, one after the other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.native.payloads import using


@pytest.fixture(params=["avx2", "scalar"])
def simd(request: pytest.FixtureRequest) -> Iterator[str]:
    with using(request.param) as used:
        yield used
