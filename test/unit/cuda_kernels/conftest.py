# SPDX-License-Identifier: Apache-2.0
"""The texts that src/source/cuda/kernels.py makes, as the build has them, and what runs and assembles them."""
import importlib
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def kernels():
    """The generator."""
    folder = str(ROOT / "src/source/cuda")
    sys.path.insert(0, folder)
    try:
        return importlib.import_module("kernels")
    finally:
        sys.path.remove(folder)


@pytest.fixture(scope="session")
def texts(kernels):
    """{text: PTX}"""
    return kernels.modules(ROOT / "sim/cuda/abi/cuda_kernel.h")


@pytest.fixture(scope="session")
def machine():
    """The module ptx_machine."""
    return importlib.import_module("ptx_machine")


@pytest.fixture(scope="session")
def modules(machine, texts):
    """{text: its kernels, as ptx_machine runs them}"""
    return {name: machine.Module(text) for name, text in texts.items()}


@pytest.fixture(scope="session")
def ptxas():
    path = shutil.which("ptxas") or shutil.which("ptxas", path="/usr/local/cuda/bin")
    return path or pytest.skip("ptxas of CUDA is not installed")
