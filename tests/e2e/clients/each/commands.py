"""Shared by the clients that are programs."""

import subprocess


def run(*command, data=False):
    """Standard output, as text or bytes. Raises: AssertionError with everything that was said."""
    done = subprocess.run([str(part) for part in command], capture_output=True, check=False, timeout=100)
    assert done.returncode == 0, f"{command}: {done.returncode}\n{(done.stderr + done.stdout).decode(errors='replace')}"
    return done.stdout if data else done.stdout.decode()
