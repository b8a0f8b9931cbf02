# SPDX-License-Identifier: Apache-2.0
"""The library as the dynamic linker sees it, beside the NVML library of each driver generation."""
import ctypes
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
FUNCTIONS = re.findall(r"^ *FUNCTION\((cu\w+),", (ROOT / "sim/cuda/abi/cuda_abi.h").read_text(), re.M)


def tool(*args):
    return subprocess.run(args, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("generation", ["535", "550", "590", "610"])
def test_it_exports_what_stoker_uses_and_needs_libc_only(build, generation):
    library = build / "sim/nvml" / f"r{generation}" / "libcuda.so.1"
    assert (library.parent / "libnvidia-ml.so.1").exists()
    lines = [line.split() for line in tool("nm", "-D", "--defined-only", str(library)).splitlines()]
    assert sorted(re.sub("@.*", "", words[2]) for words in lines if words[1] == "T") == sorted(FUNCTIONS)
    dynamic = tool("readelf", "-d", str(library))
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    assert [name for name in needed if not re.match("lib(a|ub|t)san", name)] == ["libc.so.6"]
    assert re.findall(r"\(SONAME\).*\[(.*)\]", dynamic) == ["libcuda.so.1"]


def test_a_wrong_suffix_is_not_there(build):
    library = ctypes.CDLL(str(build / "sim/nvml/r590/libcuda.so.1"))
    assert hasattr(library, "cuMemAlloc_v2") and not hasattr(library, "cuMemAlloc") and not hasattr(library, "cuMemAlloc_v3")
    assert library.cuInit(0) == 100  # without a node


CLIENT = """
import ctypes, os, subprocess, sys, time
cuda = ctypes.CDLL("libcuda.so.1")
context, address = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 1) == 0 and cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(4 << 30)) == 0
print(os.getpid(), flush=True)
query = ["nvidia-smi", "--query-compute-apps=pid,name,used_memory", "--format=csv,noheader"]
print(subprocess.run(query, capture_output=True, text=True, check=True).stdout, flush=True)
"""


def test_nvidia_smi_shows_a_client_of_the_node(build, tmp_path):
    scenario = tmp_path / "idle.yaml"
    scenario.write_text("about: four GPUs without work\ngpus: {board: h100-sxm-80gb, count: 4}\ntruth: []\n")
    out = tool(str(build / "stoker"), "sim", "run", str(scenario), "--", "/usr/bin/python3", "-c", CLIENT).split()
    assert out[1:] == [out[0] + ",", "/usr/bin/python3,", str(4096 + 520), "MiB"]
