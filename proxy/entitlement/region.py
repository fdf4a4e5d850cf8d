"""The region as the platform knows it; what users configure (AWS_REGION, profiles) is not asked."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from s4weights.proxy.errors import PlatformSilent
from s4weights.proxy.instance_metadata import InstanceMetadata, platform_text

# Source: https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-metadata-endpoint-v4.html
TASK_ADDRESS = "http://169.254.170.2"
_TASK_VARIABLE: Final = "ECS_CONTAINER_METADATA_URI_V4"
# Where EKS mounts a pod's own token; RegisterUsage asks for one. Its issuer names the region.
# Source: https://docs.aws.amazon.com/eks/latest/userguide/iam-roles-for-service-accounts.html
POD_TOKEN = Path("/var/run/secrets/eks.amazonaws.com/serviceaccount/token")
_ISSUER: Final = re.compile(r"https://oidc\.eks\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?/")
_REGION: Final = re.compile("[a-z]{2}(-[a-z]+)+-[0-9]+")


async def platform_region(environment: Mapping[str, str]) -> str:
    """Of the ECS task, of the EKS pod, or of the instance. Raises: PlatformSilent."""
    task = environment.get(_TASK_VARIABLE, "")
    if task.startswith(f"{TASK_ADDRESS}/"):
        return _checked(_of_task(await platform_text(f"{task}/task")), f"{task}/task")
    if (pod := _of_pod()) is not None:
        return _checked(pod, str(POD_TOKEN))
    async with InstanceMetadata.open() as metadata:
        path = "meta-data/placement/region"
        return _checked((await metadata.get(path)).strip(), path)


def _of_task(document: str) -> str:
    try:
        return str(json.loads(document)["TaskARN"]).split(":")[3]
    except (ValueError, KeyError, TypeError, IndexError):
        return ""


def _of_pod() -> str | None:
    try:
        payload = POD_TOKEN.read_text(encoding="ascii").split(".")[1]
        claims: Any = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        issuer = _ISSUER.match(str(claims["iss"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return ""
    return issuer[1] if issuer else ""


def _checked(region: str, where: str) -> str:
    if not _REGION.fullmatch(region):
        raise PlatformSilent(f"{where}: expected a region, found {region[:40]!r}")
    return region
