"""The service of the handlers' tests, attacked over bare sockets."""

from __future__ import annotations

import pytest

from tests.proxy.handlers.conftest import Service, service, service_settings

from .signing import Signer

__all__ = ["service", "service_settings"]


@pytest.fixture
def signer(service: Service) -> Signer:
    """Of the service's own key."""
    return Signer(service.endpoint.removeprefix("http://"))
