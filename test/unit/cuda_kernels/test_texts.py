# SPDX-License-Identifier: Apache-2.0
"""The texts as wholes: what they contain, that they are the same each time, and that ptxas assembles them where there is one."""
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
HEADER = ROOT / "sim/cuda/abi/cuda_kernel.h"
PLAIN = (70, 75, 80, 86, 89, 90, 100, 103, 120)
# No value may live in memory: its traffic would be measured, and a fault of memory would be blamed on the unit.
NO_SPILLS = re.compile(r"probe_|gemm_|memory_|fill_|compare|add_")
STATIC_SHARED = 48 * 1024


def rows():
    text = HEADER.read_text()
    return re.findall(r'KERNEL\(\w+,\s*"(\w+)",\s*CUDA_TEXT_(\w+),\s*(\d+),', text)


def test_all_kernels_are_there(texts):
    for name, text, threads in rows():
        entries = re.findall(rf"\.visible \.entry {name}\(.*\)\n\.(?:maxntid|reqntid) (\d+), 1, 1\n", texts[text.lower()])
        assert entries == [threads], name
    assert sum(text.count(".entry") for name, text in texts.items() if name != "blackwell_103") == len(rows())
    assert texts["blackwell_103"].split("\n", 2)[2] == texts["blackwell"].split("\n", 2)[2]


def test_targets(texts):
    named = dict(re.findall(r'TEXT\(CUDA_TEXT_\w+, "(\w+)", "(\w+)"', HEADER.read_text()))
    assert {name: re.search(r"\.target (\w+)", text)[1] for name, text in texts.items()} == named


def test_deterministic(tmp_path, build):
    """Made twice, in processes of their own (whose hashes of strings differ), the file is the same as the build's."""
    for name in "xy":
        subprocess.run([sys.executable, "-B", ROOT / "src/source/cuda/kernels.py", HEADER, tmp_path / name], check=True)
    made = (tmp_path / "x").read_text()
    assert made == (tmp_path / "y").read_text()
    assert made == next(build.rglob("cuda_texts.c")).read_text()


def test_c_string_is_the_text(tmp_path, texts):
    subprocess.run([sys.executable, "-B", ROOT / "src/source/cuda/kernels.py", HEADER, tmp_path / "c"], check=True)
    strings = re.findall(r'^    "(.*)\\n"', (tmp_path / "c").read_text(), re.MULTILINE)
    assert "\n".join(strings) + "\n" == "".join(texts.values())
    assert not any("\\" in line or '"' in line for line in strings)


def targets(ptxas, text):
    """A newer ptxas makes no code for the oldest GPUs, but still checks that their text has nothing that they lack."""
    own = re.search(r"\.target sm_(\d+)(a?)", text)
    known = subprocess.run([ptxas, "--help"], capture_output=True, text=True, check=True).stdout
    return [f"sm_{own[1]}a"] if own[2] else [f"sm_{arch}" for arch in PLAIN if arch >= int(own[1]) and f"'sm_{arch}'" in known]


NAMES = ("base", "turing", "ampere", "ada", "hopper", "blackwell", "blackwell_103")


@pytest.mark.parametrize("name", NAMES)
def test_assembles(ptxas, tmp_path, texts, name):
    """For its own target, or the oldest that ptxas knows, without spills."""
    assemble(ptxas, tmp_path / "text.ptx", texts, name, targets(ptxas, texts[name])[:1])


@pytest.mark.slow("to assemble each text for each GPU takes a while")
@pytest.mark.parametrize("name", NAMES[:4])
def test_assembles_for_newer_gpus(ptxas, tmp_path, texts, name):
    assemble(ptxas, tmp_path / "text.ptx", texts, name, targets(ptxas, texts[name])[1:])


def assemble(ptxas, path, texts, name, wanted):
    path.write_text(texts[name])
    for target in wanted:
        done = subprocess.run([ptxas, "-v", "-arch", target, path, "-o", path.with_suffix(".out")], capture_output=True, text=True)
        said = done.stdout + done.stderr
        assert done.returncode == 0, f"{name} for {target}: {said}"
        assert "warning" not in said, f"{name} for {target}: {said}"
        seen = 0
        for kernel, report in re.findall(r"Compiling entry function '(\w+)'(.*?)(?=Compiling|\Z)", said, re.DOTALL):
            seen += 1
            if NO_SPILLS.match(kernel):
                assert "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads" in report, f"{kernel} for {target}: {report}"
            shared = re.search(r"(\d+) bytes smem", report)
            assert int(shared[1] if shared else 0) <= STATIC_SHARED, f"{kernel} for {target}"
        assert seen == texts[name].count(".entry")
