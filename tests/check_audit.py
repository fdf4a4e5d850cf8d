"""Known vulnerabilities of everything installed, by pip-audit; one that could not be looked up is no clean one.

--offline-ok: where no index of advisories can be reached at all, say so and go on. Exit codes: 0 clean, 1 found or failed.
"""

from __future__ import annotations

import json
import subprocess
import sys

# Local builds, under version names that no index has (torch's +cpu).
ALLOWED_UNKNOWN = 5


def main() -> int:
    command = [sys.executable, "-m", "pip_audit", "--skip-editable", "--progress-spinner", "off", "--format", "json"]
    audit = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        rows = json.loads(audit.stdout)["dependencies"]
    except (ValueError, KeyError):
        if "ConnectionError" in audit.stderr or "Timeout" in audit.stderr:
            return offline()
        sys.stderr.write(audit.stderr)
        return 1
    skipped = [row for row in rows if "skip_reason" in row and "editable" not in row["skip_reason"]]
    if len(skipped) > max(ALLOWED_UNKNOWN, len(rows) // 2):
        return offline()  # a mirror without advisories answers that it knows none of them
    for row in skipped:
        print(f"not looked up: {row['name']}: {row['skip_reason']}")
    faulty = [row for row in rows if row.get("vulns")]
    for row in faulty:
        for fault in row["vulns"]:
            print(
                f"{row['name']} {row['version']}: {fault['id']}, fixed in {', '.join(fault['fix_versions']) or 'none'}"
            )
    print(f"{len(rows) - len(skipped)} packages audited, {len(faulty)} with known vulnerabilities")
    return 1 if faulty or len(skipped) > ALLOWED_UNKNOWN else 0


def offline() -> int:
    print("NOT AUDITED: no index of advisories can be reached from here (pip-audit asks pypi.org)")
    return 0 if "--offline-ok" in sys.argv[1:] else 1


if __name__ == "__main__":
    sys.exit(main())
