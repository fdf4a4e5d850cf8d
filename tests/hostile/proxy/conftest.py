"""The service of the handlers' tests, attacked over bare sockets."""

from __future__ import annotations

from tests.proxy.handlers.conftest import service, service_settings

__all__ = ["service", "service_settings"]
