#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the kernels of sim/cuda/abi/cuda_kernel.h as PTX text: a C file with one string per text.

usage: kernels.py HEADER OUT.c"""
import pathlib
import re
import sys

import matrix_kernels
import memory_kernels
import probe_kernels
import shared_probe_kernels

HEADERS = {"base": (6, 5, "sm_70"), "turing": (6, 5, "sm_75"), "ampere": (7, 0, "sm_80"), "ada": (8, 4, "sm_89"), "hopper": (8, 0, "sm_90a"), "blackwell": (8, 6, "sm_100a"),
           "blackwell_103": (8, 8, "sm_103a")}
SAME = {"blackwell_103": "blackwell"}  # the same kernels for another target
KERNELS = {**matrix_kernels.KERNELS, **memory_kernels.KERNELS, **probe_kernels.KERNELS, **shared_probe_kernels.KERNELS}


def table(header):
    """{text: [(kernel, threads)]} from the tables of the header."""
    text = pathlib.Path(header).read_text()
    ids = {row[0]: row[1] for row in re.findall(r'TEXT\((\w+), "(\w+)"', text)}
    kernels = {name: [] for name in ids.values()}
    for name, where, threads in re.findall(r'KERNEL\(\w+,\s*"(\w+)",\s*(\w+),\s*(\d+),', text):
        kernels[ids[where]].append((name, int(threads)))
    return kernels | {text: kernels[other] for text, other in SAME.items()}


def make_kernel(name, threads):
    kernel = KERNELS[name]()
    assert (kernel.name, kernel.threads) == (name, threads), f"{name}: the header says {threads} threads, the kernel {kernel.threads}"
    return kernel


def module(text, rows):
    major, minor, target = HEADERS[text]
    kernels = [make_kernel(name, threads).text() for name, threads in rows]
    return f".version {major}.{minor}\n.target {target}\n.address_size 64\n\n" + "\n".join(kernels)


def modules(header):
    """{text: PTX}"""
    return {text: module(text, rows) for text, rows in table(header).items()}


def main():
    out = ['#include "source/cuda/texts.h"', "", "const char *const cuda_texts[CUDA_TEXT_COUNT] = {"]
    for text, ptx in modules(sys.argv[1]).items():
        body = "\n".join('    "' + line + '\\n"' for line in ptx.splitlines())
        out.append(f"    [CUDA_TEXT_{text.upper()}] =\n{body},")
    pathlib.Path(sys.argv[2]).write_text("\n".join(out) + "\n};\n")


if __name__ == "__main__":
    main()
