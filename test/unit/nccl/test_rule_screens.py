# SPDX-License-Identifier: Apache-2.0
"""The screens of every rule's case in test_rules.c, as they were looked at."""
import subprocess


def test_rule_screens(build, golden):
    done = subprocess.run([build / "test/unit/nccl/test_nccl_rules", "screens"], capture_output=True, text=True, check=True)
    golden(done.stdout, "nccl/rules.txt")
