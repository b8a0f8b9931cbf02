# SPDX-License-Identifier: Apache-2.0
"""Programs that run nvidia-smi and read what it prints: netdata's collector, which parses its XML."""
import os
import re
import signal
import subprocess

import pytest

GPUS = 8
LAST = "gpu7_sm_clock"


@pytest.fixture
def netdata(client, tmp_path):
    root = client("netdata")
    (tmp_path / "python.d.conf").write_text("nvidia_smi: yes\n")
    lib = root / "usr/lib/netdata"

    def run(node):
        env = node.env(root, NETDATA_PLUGINS_DIR=lib / "plugins.d", NETDATA_STOCK_CONFIG_DIR=lib / "conf.d",
                       NETDATA_USER_CONFIG_DIR=tmp_path, NETDATA_LIB_DIR=tmp_path, NETDATA_LOCK_DIR=tmp_path,
                       NETDATA_UPDATE_EVERY="1")
        command = ["timeout", "240", "/usr/bin/python3", lib / "plugins.d/python.d.plugin", "nvidia_smi", "1"]
        values, lines = {}, []
        with subprocess.Popen(command, env=env, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              start_new_session=True) as collector:
            for line in collector.stdout:
                lines.append(line)
                found = re.match(r"SET '(gpu\d_\w+)' = (-?\d+)$", line)
                if found:
                    values.setdefault(found[1], int(found[2]))
                elif LAST in values:  # it goes on for ever
                    os.killpg(collector.pid, signal.SIGTERM)
                    break
        assert LAST in values, "".join(lines)
        return values

    return run


def test_netdata_reads_every_gpu(node, netdata):
    n = node("default")
    said, true = netdata(n), n.show()
    for t in true:
        g = f"gpu{t['gpu']}_"
        assert abs(said[g + "gpu_util"] - t["window"][0] * 100) <= 1
        assert abs(said[g + "gpu_temp"] - t["temp_c"]) <= 1
        assert abs(said[g + "fb_memory_used"] - t["used_mib"]) <= 1
        assert said[g + "sm_clock"] == t["sm_mhz"] and said[g + "mem_clock"] == t["mem_mhz"]
        if g + "power_draw" in said:  # in hundredths of a watt
            assert abs(said[g + "power_draw"] / 100 - t["watt_mean"]) <= 1
