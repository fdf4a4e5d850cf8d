"""A copy of the image's template for packer 1.6.6, the newest that Debian ships, and for an EC2 that has no machines.

What that packer does not know is left out, and so is every connection: a provisioner runs here instead of on a builder. The
order of the provisioners, variables, source and build stay those of the template.
"""

from __future__ import annotations

import re
from pathlib import Path

# Blocks and attributes that packer 1.6.6 refuses.
UNKNOWN_BLOCKS = ("packer {", 'data "', "metadata_options {", "temporary_iam_instance_profile_policy_document {")
UNKNOWN_ATTRIBUTES = ("imds_support", "temporary_key_pair_type")
# Of a connection to the builder.
CONNECTION = ("ssh_username", "ssh_interface", "ssh_clear_authorized_keys")


def blocks(text: str, start: str) -> list[tuple[int, int]]:
    """Where blocks whose first line begins with `start` lie. Braces in strings are balanced in ours."""
    found = []
    for match in re.finditer(rf"^ *{re.escape(start)}", text, re.MULTILINE):
        depth, at = 0, text.index("{", match.start())
        while True:
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            at += 1
            if depth == 0:
                break
        found.append((match.start(), at))
    return found


def without(text: str, start: str) -> str:
    for first, last in reversed(blocks(text, start)):
        text = text[:first] + text[last:].removeprefix("\n")
    return text


def old_copy(template: Path, commands: dict[str, str], endpoint: str) -> str:
    """commands: by what a provisioner's text holds, what runs instead; the others write their script's name to a file."""
    text = template.read_text(encoding="utf-8")
    for start in UNKNOWN_BLOCKS:
        text = without(text, start)
    for name in (*UNKNOWN_ATTRIBUTES, *CONNECTION):
        text = re.sub(rf"^ *{name} *=.*\n", "", text, flags=re.MULTILINE)
    text = text.replace("data.amazon-parameterstore.base.value", '""')
    text = re.sub(r'communicator *= "ssh"', 'communicator = "none"', text)
    text = without(text, 'provisioner "file"')
    text = re.sub(
        r"local\.base\b|\$\{local\.base\}",
        lambda found: {"l": "var.base_ami"}.get(found[0][0], "${var.base_ami}"),
        text,
    )
    for first, last in reversed(blocks(text, 'provisioner "shell"')):
        old = text[first:last]
        command = next((run for holds, run in commands.items() if holds in old), None)
        [name] = re.findall(r"image/(\w+\.\w+)|(install\.sh)|(cloud-init status)", old)[:1]
        run = command or "true"
        step = f"echo {''.join(name).replace(' ', '-')} >> ${{path.root}}/steps; {run}"
        text = text[:first] + f'  provisioner "shell-local" {{\n    inline = [{quoted(step)}]\n  }}' + text[last:]
    moto = f"""
  access_key = "x"
  secret_key = "x"
  custom_endpoint_ec2 = "{endpoint}"
  skip_metadata_api_check = true
  skip_credential_validation = true
  skip_region_validation = true
"""
    return re.sub(r'(source "amazon-ebs" "s4weights" {\n)', lambda found: found[0] + moto, text)


def quoted(command: str) -> str:
    return '"' + command.replace("\\", "\\\\").replace('"', '\\"') + '"'
