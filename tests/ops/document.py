"""The commands of docs/operations.md, and where each of them is run."""

from __future__ import annotations

import re

from tests.ops.machine import ROOT

TEXT = (ROOT / "docs/operations.md").read_text(encoding="utf-8")

# On a booted machine, by test_service.py.
ON_A_MACHINE = (
    "sudo systemctl enable --now s4weights",
    "sudo systemctl start s4weights-selftest",
    "journalctl --unit s4weights-selftest --output cat",
    "ls /opt/s4weights.releases",
    "sudo ln -sfn /opt/s4weights.releases/RELEASE /opt/s4weights",
    "sudo systemctl restart s4weights",
)
# By the fixtures and tests that are named, in other words.
ELSEWHERE = {
    "packer/wheelhouse.sh wheels": ("conftest.py", "packer/wheelhouse.sh"),
    "sudo packer/install.sh wheels": ("conftest.py", "/src/packer/install.sh"),
    "sudo packer/uninstall.sh --purge": ("test_service.py", '"/src/packer/uninstall.sh", "--purge"'),
    "curl --fail http://127.0.0.1:8080/readyz": ("test_service.py", '"readyz"'),
    "s4weights selftest": ("test_service.py", "s4weights-selftest"),
    "docker build -f docker/Dockerfile -t s4weights .": (
        "test_containers.py",
        '"docker/Dockerfile", "-t", "s4weights", "."',
    ),
    "packer build -var wheelhouse=wheels packer/s4weights.pkr.hcl": (
        "test_packer.py",
        "makes_an_image_only_where_the_self_test_passes",
    ),
}
# Not here, and why.
NOT_HERE = {
    'pip install ".[proxy]"': "the Makefile's own install is the same; an index is not always there",
    "sudoedit /etc/s4weights/s4weights.env": "an editor; conftest.py writes the file",
    "docker compose -f docker/compose.yaml up": "no engine; the file keeps its schema in test_containers.py",
    "kubectl create secret generic s4weights-clients --from-literal=access-key=KEY --from-literal=secret-key=SECRET": "no cluster",
    "kubectl apply -f docker/kubernetes/sidecar.yaml": "no cluster; the file keeps its schema in test_containers.py",
    "kubectl apply -f docker/kubernetes/daemonset.yaml": "no cluster; the file keeps its schema in test_containers.py",
    "PYTHON=python3.12 packer/wheelhouse.sh --gpu wheels": "some gigabytes of CUDA",
    "aws cloudformation deploy --template-file cloudformation/train-runner.yaml --stack-name train --capabilities CAPABILITY_IAM --parameter-overrides ImageId=AMI": "no AWS; moto makes the stack in tests/cloudformation/test_moto.py",
    "aws cloudformation describe-stacks --stack-name train --query 'Stacks[0].Outputs'": "no AWS; as above",
    "aws ssm start-session --target INSTANCE": "no AWS",
    "packer init packer/s4weights.pkr.hcl": "Debian's packer has the plugin built in, and no init",
}
# In a folder, by test_operations.py.
IN_A_FOLDER = (
    "s4weights config",
    'aws s3 cp s3://bucket/step-1000.safetensors copy --endpoint-url "$STRAIGHT"',
    "s4weights unpack copy -o step-1000.safetensors",
    "s4weights inspect copy",
)


def commands() -> list[str]:
    """In the order of the document."""
    found = re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
    return [line for block in found for line in block.splitlines() if line]


def column(heading: str, until: str) -> set[str]:
    """Names in the first column of the tables between two headings."""
    section = TEXT.partition(f"\n{heading}\n")[2].partition(f"\n{until}\n")[0]
    assert section
    rows = re.findall(r"^\| ([^|]+) \|", section, re.MULTILINE)
    return {name.strip(" `") for row in rows for name in row.split(",")}
