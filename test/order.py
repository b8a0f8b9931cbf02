# SPDX-License-Identifier: Apache-2.0
"""Which Python tests belong to what, and in which order they run. A file's tests run in one worker, because they may share
what is slow to start; the long files whose tests each start their own things are spread over all workers. The longest come
first, so that no worker is left with them at the end. What 'make test' leaves to 'make test-all' has the marker `slow`."""
from xdist.scheduler import LoadScopeScheduling

# From the longest on.
TOGETHER = (
    "test/unit/deploy/test_deb.py",
    "test/real/test_real.py",
    "test/scenario/web/test_scenes.py",
    "test/scenario/web/test_look.py",
    "test/scenario/web/test_life.py",
    "test/unit/trace_report/test_report_browser.py",
    "test/peer/test_dashboard.py",
    "test/scenario/top/test_top.py",
)
SPREAD = (
    "test/scenario/agent/test_long.py",
    "test/scenario/agent/test_chaos.py",
    "test/scenario/agent/test_kills.py",
    "test/scenario/agent/test_new_clients.py",
    "test/scenario/agent/test_owners.py",
    "test/scenario/agent/test_trial.py",
    "test/scenario/agent/test_remembered.py",
    "test/unit/sampler/test_sampler_values.py",
    "test/unit/verb/test_rules.py",
    "test/scenario/agent/test_kubelet.py",
    "test/scenario/agent/test_faults.py",
    "test/scenario/agent/test_dcgm.py",
    "test/scenario/agent/test_clients.py",
    "test/scenario/agent/test_run.py",
    "test/scenario/kubelet/test_device_plugin.py",
    "test/scenario/kubelet/test_labels.py",
    "test/scenario/mig/test_mig_manage.py",
    "test/scenario/mig/test_mig_failures.py",
    "test/scenario/mig/test_mig.py",
)
RANK = {path: rank for rank, path in enumerate(TOGETHER[:1] + SPREAD + TOGETHER[1:])}

# Suites that feed bytes from outside, which run under ASan and UBSan.
BYTES = (
    "test/unit/http",
    "test/unit/alert",
    "test/unit/fetch",
    "test/unit/podresources",
    "test/unit/sampler",
    "test/unit/kmsg",
    "test/unit/trace_scan",
    "test/scenario/kubelet/test_flaps.py",
    "test/scenario/trace/test_input.py",
    "test/scenario/trace/test_properties.py",
)

# Suites of programs with threads, which run under the thread sanitizer beside the C tests of the suite `threads`.
THREADS = ("test/unit/http/test_http_web_config.py",)

E2E = ("test/scenario",)
# What to test after a change below a folder or of a file; the longest one that fits counts, and one without a row means all.
SUITES = {
    "src/service/alert": ("test/unit/alert", "test/scenario/alert", "test/scenario/agent/test_kills.py"),
    "src/service/bench": ("test/unit/bench", "test/scenario/bench"),
    "src/service/gres": ("test/scenario/slurm",),
    "src/service/kubelet": ("test/scenario/kubelet",),
    "src/service/mig": ("test/scenario/mig",),
    "src/service/report": ("test/unit/trace_report", "test/scenario/trace"),
    "src/service/runbook": ("test/unit/runbook", "test/scenario/agent/test_runbooks.py", "test/unit/alert/test_alert_runbook.py"),
    "src/service/screen": ("test/unit/top", "test/scenario/top"),
    "src/service/top": ("test/unit/top", "test/scenario/top"),
    "src/service/web": ("test/unit/web", "test/scenario/web"),
    "src/service": ("test/unit/exporter", "test/unit/verb", *E2E),
    "src/engine/bench": ("test/unit/bench", "test/scenario/bench"),
    "src/engine/gres": ("test/scenario/slurm",),
    "src/engine/kubelet": ("test/scenario/kubelet",),
    "src/engine/mig": ("test/scenario/mig",),
    "src/engine/allocator": ("test/scenario/trace/test_snapshot.py",),
    "src/engine/nccl": ("test/scenario/trace/test_nccl.py",),
    "src/engine/trace": ("test/unit/trace_scan", "test/unit/trace_report", "test/scenario/trace"),
    "src/engine": ("test/unit/health", "test/unit/verb", *E2E),
    "src/source/cuda": ("test/unit/cuda_kernels", "test/unit/bench_worker", "test/scenario/bench"),
    "src/source/dcgm": ("test/unit/sampler", "test/scenario/agent/test_dcgm.py"),
    "src/source/host": ("test/unit/host", "test/scenario/agent"),
    "src/source/kmsg": ("test/unit/kmsg", "test/scenario/agent"),
    "src/source/kubernetes": ("test/unit/kubernetes", "test/scenario/agent/test_cluster.py", "test/scenario/mig/test_mig_manage.py"),
    "src/source/mig": ("test/scenario/mig",),
    "src/source/nsys": ("test/unit/nsys", "test/scenario/trace/test_nsys.py"),
    "src/source/nvml": ("test/unit/sampler", "test/scenario/agent"),
    "src/source/pci": ("test/unit/supervisor", "test/scenario/agent"),
    "src/source/podresources": ("test/unit/podresources", "test/scenario/agent/test_kubelet.py"),
    "src/source/sampler": ("test/unit/sampler", "test/unit/supervisor", "test/scenario/agent"),
    "src/source": ("test/unit/sampler", *E2E),
    "src/wire/fetch": ("test/unit/fetch", "test/unit/alert"),
    "src/wire/grpc": ("test/unit/podresources", "test/scenario/agent/test_kubelet.py", "test/scenario/kubelet"),
    "src/wire/http": ("test/unit/http", "test/scenario/agent/test_doors.py", "test/scenario/agent/test_clients.py"),
    "src/verb/bench": ("test/scenario/bench", "test/unit/verb"),
    "src/verb/bench.c": ("test/scenario/bench", "test/unit/verb"),
    "src/verb/kubelet": ("test/scenario/kubelet", "test/unit/verb"),
    "src/verb/kubelet.c": ("test/scenario/kubelet", "test/unit/verb"),
    "src/verb/slurm.c": ("test/scenario/slurm", "test/unit/verb"),
    "src/verb/mig": ("test/scenario/mig", "test/unit/verb"),
    "src/verb/mig.c": ("test/scenario/mig", "test/unit/verb"),
    "src/verb/top": ("test/unit/top", "test/scenario/top", "test/unit/verb"),
    "src/verb/trace": ("test/unit/trace_report", "test/scenario/trace", "test/unit/verb"),
    "src/verb/xid.c": ("test/unit/verb", "test/unit/health"),
    "src/verb": ("test/unit/verb", "test/unit/deploy", "test/unit/health", *E2E),
    "sim/data": ("test/unit/dashboard", *E2E),
    "sim/cuda": ("test/unit/cuda_sim", "test/unit/bench_worker", "test/scenario/bench"),
    "sim/nvml": ("test/unit/nvml_abi", "test/unit/nvml_lib", "test/unit/smi", "test/unit/sampler", "test/peer"),
    "sim/smi": ("test/unit/smi", "test/real", "test/peer"),
    "web/node": ("test/unit/web", "test/scenario/web"),
    "web/trace": ("test/unit/trace_report",),
    "deploy": ("test/unit/deploy", "test/unit/verb"),
    "data/dashboards": ("test/unit/dashboard", "test/peer/test_dashboard.py", "test/unit/verb"),
    "data/mig": ("test/scenario/mig",),
    "data/rules": ("test/unit/verb/test_rules.py",),
    "data/faults": ("test/unit/health", "test/unit/runbook", "test/unit/verb", *E2E),
    "docs/runbooks": ("test/unit/runbook", "test/unit/alert/test_alert_runbook.py"),
    "docs": ("test/unit/bench", "test/unit/runbook", "test/unit/health", "test/unit/verb", "test/unit/alert", "test/unit/trace_report",
             "test/scenario/agent/test_trial.py", "test/scenario/trace/test_steps.py"),
    "test/bench": (),
    "test/fuzz": (),
    "tools": (),
    "Makefile": (),
    "README.md": (),
    "CONTRIBUTING.md": (),
    ".ci": (),
}


def suites_of(path):
    """The pytest folders and files for a changed file; None: all. A test's own file or folder is its suite."""
    parts = path.split("/")
    for size in range(len(parts), 0, -1):
        part = "/".join(parts[:size])
        if part in SUITES:
            return SUITES[part]
    if len(parts) > 3 and parts[0] == "test" and parts[1] in ("unit", "scenario"):
        return (path,) if parts[-1].startswith("test_") and path.endswith(".py") else ("/".join(parts[:3]),)
    return ("test/" + parts[1],) if parts[0] == "test" and len(parts) > 2 and parts[1] in ("peer", "record", "real") else None


def path_of(nodeid):
    return nodeid.split("::", 1)[0]


def longest_first(items):
    """Sorts pytest's items; files that are not named here keep their order."""
    items.sort(key=lambda item: RANK.get(path_of(item.nodeid), len(RANK)))


class Scheduling(LoadScopeScheduling):
    """What pytest-xdist asks which tests belong together."""

    def _split_scope(self, nodeid):
        path = path_of(nodeid)
        return nodeid if path in SPREAD else path
