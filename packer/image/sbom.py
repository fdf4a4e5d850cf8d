"""Write what this system is made of as a CycloneDX 1.6 list: Python's packages and dpkg's, with versions.

usage: python sbom.py FILE      with the Python whose packages are meant; needs nothing else
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import quote


def python_components() -> list[dict[str, Any]]:
    """Distributions of this environment."""
    found = {one.metadata["Name"]: one for one in metadata.distributions()}
    rows = []
    for name, one in sorted(found.items()):
        purl = f"pkg:pypi/{quote(name.lower().replace('_', '-'))}@{quote(one.version)}"
        row: dict[str, Any] = {"type": "library", "bom-ref": purl, "name": name, "version": one.version, "purl": purl}
        if expression := one.metadata.get("License-Expression"):
            row["licenses"] = [{"expression": expression}]
        rows.append(row)
    return rows


def system_components() -> list[dict[str, Any]]:
    """Installed packages of dpkg; none where there is no dpkg."""
    program = shutil.which("dpkg-query")
    if program is None:
        return []
    release = dict(
        line.split("=", 1) for line in Path("/etc/os-release").read_text(encoding="utf-8").splitlines() if "=" in line
    )
    system = release["ID"].strip('"')
    listed = subprocess.run(  # noqa: S603
        [program, "--show", "--showformat=${db:Status-Status} ${Package} ${Version} ${Architecture}\n"],
        check=True,
        capture_output=True,
        text=True,
    )
    rows = []
    for line in listed.stdout.splitlines():
        state, name, version, architecture = line.split()
        if state == "installed":
            purl = f"pkg:deb/{system}/{quote(name)}@{quote(version)}?arch={architecture}"
            rows.append({"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl})
    return rows


def bom() -> dict[str, Any]:
    """The whole list."""
    version = metadata.version("s4weights")
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {"type": "application", "bom-ref": "image", "name": "s4weights image", "version": version},
        },
        "components": python_components() + system_components(),
    }


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(bom(), indent=1) + "\n", encoding="utf-8")
