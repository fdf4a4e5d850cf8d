"""Every instruction set, one after the other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.native.payloads import INSTRUCTION_SETS, using


@pytest.fixture(params=INSTRUCTION_SETS)
def simd(request: pytest.FixtureRequest) -> Iterator[str]:
    with using(request.param) as used:
        yield used
