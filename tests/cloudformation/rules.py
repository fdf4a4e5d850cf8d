"""What a user who minds security expects of the stack: all rules, by their names."""

from __future__ import annotations

from tests.cloudformation import alarm_rules, bucket_rules, machine_rules, network_rules, rights_rules
from tests.cloudformation.alarm_rules import metrics_of
from tests.cloudformation.machine_rules import GRACE_S
from tests.cloudformation.stack import RULES, Stack

__all__ = [
    "GRACE_S",
    "RULES",
    "Stack",
    "alarm_rules",
    "bucket_rules",
    "machine_rules",
    "metrics_of",
    "network_rules",
    "rights_rules",
]
