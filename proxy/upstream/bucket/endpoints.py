"""Where S3 answers in a region, by botocore's own rules, so that every client here goes to the same host."""

from __future__ import annotations

from typing import Any

from botocore.endpoint_provider import EndpointProvider


class RegionalEndpoints:
    """The endpoints of Amazon S3, in every partition that botocore knows."""

    def __init__(self, session: Any) -> None:
        """session: botocore's; with its settings for FIPS and dual stack."""
        loader = session.get_component("data_loader")
        rules = loader.load_service_model("s3", "endpoint-rule-set-1")
        self._provider = EndpointProvider(rules, loader.load_data("partitions"))
        self._variant = {
            "UseFIPS": bool(session.get_config_variable("use_fips_endpoint")),
            "UseDualStack": bool(session.get_config_variable("use_dualstack_endpoint")),
        }

    def of(self, region: str) -> str:
        """Scheme and host, spoken to in path style. Raises: botocore's EndpointProviderError."""
        return str(self._provider.resolve_endpoint(Region=region, **self._variant).url)
