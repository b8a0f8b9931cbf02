# SPDX-License-Identifier: Apache-2.0
"""The bundle for a machine with NVIDIA's driver, on simulated nodes: what it measures, that it goes on whatever fails, and
that what it leaves can be replayed. The same checks read the folders of real machines in test/data/real.

STOKER_BUILD names the build folder."""
import importlib.util
import json
import math
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
REAL = sorted(path.parent for path in (ROOT / "test/data/real").glob("*/results.json"))
KERNELS = sorted((ROOT / "test/real/kernels").glob("*.ptx"))
STEPS = ("machine settings record calls alone cost-1hz cost-10hz cost-default agent verbs compare gpm spin launch copy matmul "
         "holder bench events settings-after").split()
PTXAS = shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas"

spec = importlib.util.spec_from_file_location("compare", ROOT / "test/record/compare.py")
compare = importlib.util.module_from_spec(spec)
spec.loader.exec_module(compare)

NODE = """
about: a busy GPU and a free one
node: {driver: "590.48.01"}
gpus: {board: h200-sxm-141gb, count: 2}
work:
  - {name: job, kind: burn, gpus: 0, process: python, user: alice}
truth: []
"""


@pytest.fixture(scope="module")
def bundle(build, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bundle") / "real"
    subprocess.run([ROOT / "test/real/bundle.sh", build, folder], check=True, capture_output=True, timeout=120)
    return folder


class Run:
    """One run of the bundle on a simulated node. `first`: a shell line before it, `env` more variables."""

    def __init__(self, build, bundle, folder, steps=None, first=":", pace="0.05", env=None, budget="300", node=NODE):
        (folder / "node.yaml").write_text(node, encoding="utf-8")
        self.out = folder / "out"
        chosen = ["--steps", steps] if steps else []
        given = dict(os.environ, STOKER_SIM_RUNTIME=str(folder), STOKER_SIM_NOBLOCK="1", BUILD=str(build), **(env or {}))
        self.done = subprocess.run(
            [build / "stoker", "sim", "run", folder / "node.yaml", "--", "sh", "-c", first + '; exec "$@"', "sh",
             bundle / "run", "--pace", pace, "--budget", budget, *chosen, self.out],
            env=given, capture_output=True, text=True, check=False, timeout=600)
        assert (self.out / "results.json").exists(), self.done.stdout + self.done.stderr
        self.results = json.loads((self.out / "results.json").read_text(encoding="utf-8"))
        self.report = (self.out / "report.txt").read_text(encoding="utf-8")
        self.steps = {step["name"]: step for step in self.results["steps"]}


def wrap_smi(folder, script):
    """A shell line that puts an nvidia-smi of ours before the node's, which it finds as $REAL_SMI."""
    folder.mkdir()
    (folder / "nvidia-smi").write_text("#!/bin/sh\n" + script, encoding="utf-8")
    (folder / "nvidia-smi").chmod(0o755)
    return f"export REAL_SMI=$(command -v nvidia-smi) PATH={folder}:$PATH"


@pytest.fixture(scope="module")
def whole(build, bundle, tmp_path_factory):
    return Run(build, bundle, tmp_path_factory.mktemp("whole"))


# ---- a folder, wherever it comes from ----


def judge(row):
    """The verdict that a row's numbers have, written again here."""
    before, seen, after = (math.nan if row[k] is None else row[k] for k in ("before", "smi", "after"))
    if math.isnan(before) or math.isnan(after):
        return "neither reports it" if math.isnan(seen) else "only the driver"
    if math.isnan(seen):
        return "only Stoker"
    low, high = min(before, after), max(before, after)
    outside = max(low - seen, seen - high, 0)
    if row["kind"] != "count" and high - low > row["limit"]:
        return "moving"
    return "same" if outside <= row["limit"] * (1 + 1e-6) and (row["kind"] != "count" or before <= after) else "differs"


def check_replay(out, results, build, folder):
    """Stoker on a driver library that gives the recorded answers: it has the values that it had before the driver, and
    what does not change by itself is the same."""
    steps = {step["name"]: step for step in results["steps"]}
    folder.mkdir()
    done = subprocess.run(
        [build / "stoker", "status", "--alone", "--json", "--root", folder, "--driver-library", build / "test/record/libnvml_replay.so"],
        env=dict(os.environ, NVML_REPLAY=str(out / steps["record"]["file"]), STOKER_SIM=""), capture_output=True, text=True,
        check=False, timeout=120)
    assert done.returncode in (0, 1), done.stderr
    gpus = {gpu["index"]: gpu for gpu in json.loads(done.stdout)["node"]["gpus"]}
    assert [gpu["name"] for gpu in gpus.values()] == [gpu["name"] for gpu in steps["machine"]["gpus"]]
    rows = [row for row in steps["compare"]["rows"] if row["kind"] != "text"]
    wrong = []
    for row in rows:
        value = gpus[row["gpu"]]["metrics"].get(row["metric"], {}).get("value")
        steady = row["kind"] == "fixed" or row["metric"] in ("DCGM_FI_DEV_FB_TOTAL", "DCGM_FI_DEV_FB_RESERVED")
        if (value is None) != (row["before"] is None) or steady and value != row["before"]:
            wrong.append((row["gpu"], row["metric"], row["before"], value))
    assert rows and not wrong, wrong


def check_folder(out):
    """What every folder holds: each step with its end, verdicts that follow from the numbers, no change of a setting."""
    results = json.loads((out / "results.json").read_text(encoding="utf-8"))
    steps = {step["name"]: step for step in results["steps"]}
    assert results["format"] == 1 and list(steps) == STEPS
    for name, step in steps.items():
        assert step["status"] in ("ok", "finding", "not possible", "failed", "timed out", "not reached"), name
        assert step["text"] or step["status"] == "ok", name
    assert steps["settings-after"]["status"] == "ok", steps["settings-after"]
    for name in ("compare", "spin", "launch", "copy", "matmul", "holder"):
        for row in steps[name].get("rows", []) + steps[name].get("beside", {}).get("rows", []):
            if row["kind"] != "text" and max(row["rounds"].values()) == sum(row["rounds"].values()):
                assert row["verdict"] == judge(row), row
    for step in results["steps"]:
        for row in step.get("checks", []):
            meant = row["value"] is None or row["low"] <= row["value"] <= row["high"]
            assert (row["verdict"] != "not as meant") == meant, row
    return results, steps


@pytest.mark.parametrize("out", REAL or [None], ids=[p.name for p in REAL] or ["none"])
def test_a_real_machine_was_seen_rightly(out, build, tmp_path):
    """A folder of a real machine: nothing that Stoker said there was wrong, and it says the same of the recorded answers."""
    if out is None:
        pytest.skip("no results of a real machine yet")
    results, steps = check_folder(out)
    check_replay(out, results, build, tmp_path / "root")
    wrong = [row for name in STEPS for row in steps[name].get("rows", []) if row["verdict"] in ("differs", "only the driver")]
    wrong += [row for name in STEPS for row in steps[name].get("checks", []) if row["verdict"] == "not as meant"]
    assert not wrong, "\n".join(map(str, wrong[:50]))


def test_a_folder_is_whole(whole):
    results, steps = check_folder(whole.out)
    assert results["simulated"] is True and results["driver"] == "590.48.01"
    assert [name for name in STEPS if steps[name]["status"] in ("failed", "timed out", "not reached")] == []
    assert all(name in whole.report for name in STEPS)
    assert sum(1 for path in whole.out.iterdir()) <= 8  # few files, none below a folder: easy to carry home


def test_stoker_sees_the_recorded_answers_as_it_saw_the_driver(whole, build, tmp_path):
    check_replay(whole.out, whole.results, build, tmp_path / "root")


def test_a_simulated_node_answers_as_recorded(whole, build, tmp_path):
    """What the library answered is held against a simulated node, as a real machine's is (test/record)."""
    name = whole.steps["record"]["file"]
    assert re.fullmatch(r"nvml-590\.48\.01-\d{4}-\d\d-\d\d\.json", name)
    recording = json.loads((whole.out / name).read_text(encoding="utf-8"))
    scenario = tmp_path / "node.yaml"
    scenario.write_text(compare.scenario_of(recording, ROOT / "sim" / "data"), encoding="utf-8")
    again = tmp_path / "again.json"
    subprocess.run([build / "stoker", "sim", "run", scenario, "--", build / "test/record/nvml-record", again], check=True,
                   env=dict(os.environ, STOKER_SIM_RUNTIME=str(tmp_path), STOKER_SIM_NOBLOCK="1"), capture_output=True, timeout=120)
    assert list(compare.compare(recording, json.loads(again.read_text(encoding="utf-8")))) == []


def test_the_agents_seconds_replay(whole, build):
    done = subprocess.run([build / "stoker", "top", "--replay", whole.out / "top.json.gz", "--once", "--size", "140x40"],
                          capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode in (0, 1), done.stderr
    assert "H200" in done.stdout


# ---- the steps ----


def test_stoker_and_nvidia_smi_say_the_same(whole):
    step = whole.steps["compare"]
    assert step["status"] == "ok", [row for row in step["rows"] if row["verdict"] not in ("same", "moving")]
    rows = {(row["gpu"], row["metric"]): row for row in step["rows"]}
    assert {gpu for gpu, _ in rows} == {0, 1}
    for metric in ("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_FB_USED", "uuid", "DCGM_FI_DEV_ECC_CURRENT"):
        assert rows[1, metric]["verdict"] == "same", rows[1, metric]
    assert rows[1, "DCGM_FI_DEV_FB_TOTAL"]["smi"] == 143771
    assert rows[1, "DCGM_FI_DEV_FAN_SPEED"]["verdict"] == "neither reports it"
    assert "this nvidia-smi has no column temperature.gpu.tlimit" in whole.report  # refused, and the others were read


def test_processes_have_the_same_memory(whole):
    processes = whole.steps["compare"]["processes"]
    assert [(row["verdict"], row["smi_mib"] > 100) for row in processes] == [("same", True)]


def test_gpm_is_nvmls_own(whole):
    step = whole.steps["gpm"]
    assert step["status"] == "ok", step
    assert {row["verdict"] for row in step["gpm"]} <= {"same", "moving"}


def test_calls_are_timed(whole):
    calls = {row["call"]: row for row in whole.steps["calls"]["calls"]}
    assert len(calls) > 35
    assert calls["temperature"]["code"] == 0 and calls["temperature"]["calls"] == 300
    assert calls["fan"]["code"] == 3  # an answer too
    assert all(row["median_us"] <= row["p99_us"] <= row["most_us"] for row in calls.values() if row["code"] is not None)


@pytest.mark.parametrize("step", ["cost-1hz", "cost-10hz", "cost-default"])
def test_the_cost_is_of_agent_and_sampler(whole, step):
    names = [process["name"] for process in whole.steps[step]["processes"]]
    assert sorted(names) == ["stoker", "stoker-sampler"]
    assert all(process["rss_kb"] > 500 for process in whole.steps[step]["processes"])
    assert ("scrape" in whole.steps[step]) == (step == "cost-default")


def test_without_cuda_the_kernels_are_not_possible(whole):
    """The simulated node's libcuda has what Stoker's active tests use, and knows their kernels alone."""
    for name in ("spin", "launch", "copy", "matmul", "holder"):
        assert whole.steps[name]["status"] == "not possible", whole.steps[name]
        assert "libcuda.so.1 has no cuMemsetD32_v2" in whole.steps[name]["text"]


def test_the_gpu_is_tested(whole):
    """To the end; how fast it seems to be depends here on the processor, whose time the node's clock shows."""
    assert whole.steps["bench"]["status"] in ("ok", "finding"), whole.report
    for rung, last in (("ready", "host"), ("roof", "gemm")):
        run = json.loads((whole.out / f"bench-{rung}.json").read_text(encoding="utf-8"))
        assert [gpu["index"] for gpu in run["gpus"]] == [1] and last in run["gpus"][0]["ended"]


def test_results_name_nobody(whole):
    """They may go into the repository; the report, the seconds and the page of metrics have the names."""
    text = (whole.out / "results.json").read_text(encoding="utf-8") + (whole.out / whole.steps["record"]["file"]).read_text()
    assert "alice" not in text and "python" not in text and not re.search(r"GPU-[0-9a-f]*[1-9a-f]", text)
    assert "alice" in whole.report


# ---- when something is not as it should be ----


def test_a_reading_that_differs_is_found(build, bundle, tmp_path):
    """nvidia-smi with other numbers: beyond the limit, at it, and words."""
    first = wrap_smi(tmp_path / "smi", '"$REAL_SMI" "$@" | sed "s/NVIDIA H200/NVIDIA H20/; s/143771/143773/g"\n')
    run = Run(build, bundle, tmp_path, "compare", first)
    rows = {row["metric"]: row for row in run.steps["compare"]["rows"] if row["gpu"] == 1}
    assert run.steps["compare"]["status"] == "finding" and run.done.returncode == 1
    assert rows["name"]["verdict"] == "differs"
    assert rows["DCGM_FI_DEV_FB_TOTAL"]["verdict"] == "differs" and rows["DCGM_FI_DEV_FB_TOTAL"]["difference"] == 2
    assert rows["DCGM_FI_DEV_GPU_TEMP"]["verdict"] == "same"


def test_a_process_that_differs_is_found(build, bundle, tmp_path):
    """nvidia-smi with more memory than Stoker's, at the limit and over it, and with a process of its own."""
    first = wrap_smi(tmp_path / "smi", """case $1 in --query-compute-apps*) ;; *) exec "$REAL_SMI" "$@" ;; esac
"$REAL_SMI" "$@" | awk -F', ' '{print $1 ", " $2 ", " $3 + 2; print $1 ", " $2 ", " $3 + 3; print $1 ", 999999, 12"; print $1 ", " $2 ", [N/A]"}'
""")
    run = Run(build, bundle, tmp_path, "compare", first)
    assert [row["verdict"] for row in run.steps["compare"]["processes"]] == ["same", "differs", "only the driver", "only Stoker"]
    assert run.steps["compare"]["status"] == "finding" and "processes not alike" in run.steps["compare"]["text"]


def test_dmons_columns_are_read(build, bundle, tmp_path):
    """nvidia-smi dmon has the metrics that were asked for at the end of its lines; the last line counts."""
    first = wrap_smi(tmp_path / "smi", """[ "$1" = dmon ] || exec "$REAL_SMI" "$@"
echo "# gpu    pwr  gtemp     sm  gract  smact  smocc   tens   hmma   dram   fp32   pctx   pcrx"
echo "# Idx      W      C      %      %      %      %      %      %      %      %   MB/s   MB/s"
echo "    0     71     31      0      1      2      3      4      5      6      7      8      9"
echo "    0     72     31      0     90     80     30     50     50     40      -     16     32"
""")
    rows = Run(build, bundle, tmp_path, "gpm", first).steps["gpm"]["gpm"]
    assert [row["dmon"] for row in rows] == [0.9, 0.8, 0.3, 0.5, 0.5, 0.4, None, 16 << 20, 32 << 20]


def test_an_nvidia_smi_that_fails_is_no_agreement(build, bundle, tmp_path):
    first = wrap_smi(tmp_path / "smi", 'echo "Unable to determine the device handle for GPU0: 0000:1B:00.0: Unknown Error"\n')
    run = Run(build, bundle, tmp_path, "compare", first)
    assert run.steps["compare"]["status"] == "failed" and "Unable to determine" in run.steps["compare"]["text"]


@pytest.mark.slow("waits for the deadline of nvidia-smi")
def test_what_hangs_ends_at_its_deadline_and_the_next_step_is_run(build, bundle, tmp_path):
    first = wrap_smi(tmp_path / "smi", "exec sleep 1000\n")
    run = Run(build, bundle, tmp_path, "compare,events", first)
    assert run.steps["compare"]["status"] == "failed" and "did not end within" in run.steps["compare"]["text"]
    assert run.steps["events"]["status"] == "ok" and run.steps["settings-after"]["status"] == "ok"


def test_a_driver_that_hangs_costs_its_steps_only(build, bundle, tmp_path):
    """The recorder never returns; its step is killed when the run's time is over, and the last step is run all the same."""
    first = "$BUILD/stoker sim inject hang gpu=1 function=nvmlDeviceGetBrand"
    run = Run(build, bundle, tmp_path, "record,calls", first, budget="25")
    assert run.steps["record"]["status"] == "timed out" and run.done.returncode == 1
    assert run.steps["calls"]["status"] == "not reached"
    assert run.steps["settings-after"]["status"] == "ok"


@pytest.mark.slow("waits for the recorder's deadline")
def test_a_function_that_hangs_is_left_out_of_the_recording(build, bundle, tmp_path):
    run = Run(build, bundle, tmp_path, "record", "$BUILD/stoker sim inject hang gpu=1 function=nvmlDeviceGetBrand")
    assert run.steps["record"]["status"] == "finding" and run.steps["record"]["without"] == "nvmlDeviceGetBrand"
    calls = json.loads((run.out / run.steps["record"]["file"]).read_text(encoding="utf-8"))["calls"]
    assert {"nvmlDeviceGetBoardId", "nvmlDeviceGetBridgeChipInfo"} <= {call["f"] for call in calls if call["on"] == "1"}
    assert "nvmlDeviceGetBrand" not in {call["f"] for call in calls}


def test_a_setting_that_changed_is_found(build, bundle, tmp_path):
    first = wrap_smi(tmp_path / "smi", '"$REAL_SMI" "$@"; "$REAL_SMI" -i 1 -pl 500 >/dev/null\n')
    run = Run(build, bundle, tmp_path, "compare", first)
    assert run.steps["settings-after"]["status"] == "finding"
    assert "  GPU 1: power_limit_mw was 700000, 0 (code 0) and is 500000, 0 (code 0)\n" in run.report
    assert run.report.count(" (code 0) and is ") == 1


def test_steps_bring_what_they_need(build, bundle, tmp_path):
    """The settings before and after are read always, and an agent is started for those that ask one."""
    assert list(Run(build, bundle, tmp_path, "calls").steps) == ["machine", "settings", "calls", "settings-after"]
    assert list(Run(build, bundle, tmp_path, "events").steps) == ["machine", "settings", "agent", "events", "settings-after"]


def test_a_step_that_is_not_there_is_an_error(bundle, tmp_path):
    done = subprocess.run([bundle / "run", "--steps", "calls,gmp", tmp_path / "out"], capture_output=True, text=True, check=False,
                          timeout=60)
    assert done.returncode == 2 and "no step is called 'gmp'; they are machine settings" in done.stderr
    assert not (tmp_path / "out").exists()


def test_without_a_driver_it_says_so(bundle, tmp_path):
    done = subprocess.run([bundle / "run", "--library", "libno-such.so.1", "--steps", "record", tmp_path / "out"],
                          capture_output=True, text=True, check=False, timeout=120)
    steps = {step["name"]: step for step in json.loads((tmp_path / "out/results.json").read_text())["steps"]}
    assert done.returncode == 1
    assert steps["machine"]["status"] == "failed" and "no driver library: libno-such.so.1" in steps["machine"]["text"]
    assert steps["record"]["status"] == "failed" and steps["settings-after"]["status"] == "failed"


def test_it_runs_on_a_machine_with_an_older_c_library(build, bundle, tmp_path):
    """There all programs are started by the bundle's own loader; here that is asked for."""
    run = Run(build, bundle, tmp_path, "record,alone,agent,verbs", env={"STOKER_REAL_OWN_LIBC": "1"})
    assert {run.steps[name]["status"] for name in ("machine", "record", "agent", "settings-after")} == {"ok"}
    for step in ("alone", "verbs"):
        assert [verb["code"] for verb in run.steps[step]["verbs"]][:4] == [0, 0, 0, 0], run.steps[step]


# ---- kernels ----


def with_cuda(build):
    """A shell line for a libcuda that does the kernels itself and tells the simulated node what runs."""
    kinds = "case %s in spin|launch) K=tiny-kernels;; copy) K=noisy;; matmul) K=burn;; *) K=idle-context;; esac"
    return (f"export LD_LIBRARY_PATH={build}/test/real:$LD_LIBRARY_PATH "
            "FAKE_CUDA_ADDRESS=$(nvidia-smi --query-gpu=pci.bus_id --format=csv,noheader -i 1) "
            f"FAKE_CUDA_START='{kinds}; $BUILD/stoker sim inject work $K gpus=1 name=real' "
            "FAKE_CUDA_STOP='$BUILD/stoker sim inject stop real'")


@pytest.mark.slow("five kernels, each after a moment of quiet")
def test_kernels_are_run_checked_and_watched(build, bundle, tmp_path):
    run = Run(build, bundle, tmp_path, "spin,launch,copy,matmul,holder", with_cuda(build))
    for name in ("spin", "launch", "copy", "matmul", "holder"):
        step = run.steps[name]
        assert step["work"].get("right") is True and "error" not in step["work"], step
        assert step["word"] and step["meant"] and step["checks"] and step["beside"]["rows"] and step["looks"] > 0, step
    work = {name: step["work"] for name, step in run.steps.items() if "work" in step}
    assert work["spin"]["counted"] == work["spin"]["launches"] > 1
    assert work["launch"]["counted"] == work["launch"]["launches"] and work["launch"]["launches_per_s"] > 0
    assert work["copy"]["gb_per_s"] > 0 and work["copy"]["bytes"] % (132 * 4 * 512 * 4 * 16) == 0
    assert work["matmul"]["tflops"] > 0 and work["matmul"]["counted"] == work["matmul"]["launches"] * 132 * 2 * 256 * 32
    assert work["holder"]["bytes"] == 32 << 20  # an eighth of what is free
    busy = json.loads((run.out / run.steps["matmul"]["busy"]["file"]).read_text(encoding="utf-8"))
    assert len(busy["calls"]) == run.steps["matmul"]["busy"]["calls"] > 1000


@pytest.mark.parametrize("env, text", [
    ({"FAKE_CUDA_WRONG": "matmul"}, "the kernel's own result is wrong"),
    ({"FAKE_CUDA_REFUSE": "cuLaunchKernel"}, "CUDA_ERROR_UNKNOWN (999)"),
    ({"FAKE_CUDA_REFUSE": "cuInit"}, "CUDA_ERROR_UNKNOWN (999)"),
])
def test_a_kernel_that_fails_is_told(env, text, build, bundle, tmp_path):
    run = Run(build, bundle, tmp_path, "matmul,events", with_cuda(build), env=env)
    assert run.steps["matmul"]["status"] != "ok" and text in json.dumps(run.steps["matmul"]), run.steps["matmul"]
    assert run.steps["events"]["status"] in ("ok", "finding")


@pytest.mark.slow("half a minute of each kernel, after a quiet one")
def test_the_words_are_as_meant(build, bundle, tmp_path):
    run = Run(build, bundle, tmp_path, "spin,matmul,holder", with_cuda(build), pace="1", budget="500")
    for name in ("spin", "matmul", "holder"):
        step = run.steps[name]
        assert step["word"] == step["meant"], step
        wrong = [row["metric"] for row in step["checks"] if row["verdict"] == "not as meant"]
        assert wrong == (["DCGM_FI_PROF_DRAM_ACTIVE"] if name == "matmul" else []), step  # the node's burn uses memory
    busy = json.loads((run.out / run.steps["matmul"]["busy"]["file"]).read_text(encoding="utf-8"))
    util = next(c for c in busy["calls"] if (c["f"], c["on"]) == ("nvmlDeviceGetUtilizationRates", "1"))
    assert util["out"]["utilization"][1]["gpu"] == 100


@pytest.mark.parametrize("arch", ["sm_70", "sm_75", "sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("path", KERNELS, ids=[p.stem for p in KERNELS])
def test_the_kernels_assemble(path, arch, tmp_path):
    """For the chips whose driver would compile them: the target's and all later ones."""
    target = int(re.search(r"^\.target sm_(\d+)", path.read_text(encoding="utf-8"), re.M)[1])
    if not os.access(PTXAS, os.X_OK):
        pytest.skip("no ptxas on this machine")
    if int(arch[3:]) < target:
        pytest.skip(f"{path.name} is for sm_{target} and later")
    if f"'{arch.replace('sm', 'compute')}'" not in subprocess.run([PTXAS, "--help"], capture_output=True, text=True, check=True).stdout:
        pytest.skip(f"this ptxas does not know {arch}")
    done = subprocess.run([PTXAS, "-arch", arch, "-o", tmp_path / "out", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f".visible .entry {path.stem.split('_')[0]}(" in path.read_text(encoding="utf-8")
