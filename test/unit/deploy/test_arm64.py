# SPDX-License-Identifier: Apache-2.0
"""arm64: it builds there without a warning, with a cross compiler and Debian's libraries, its C suites pass under qemu-user, and its
Debian packages are built."""
import pytest

pytestmark = pytest.mark.slow("builds for arm64 in a root, and runs tests under emulation")

UNFIT = {  # what emulation cannot run
    "client-storm": "starts itself anew: the kernel has no loader for arm64",
    "dcgm engine": "starts itself anew: the kernel has no loader for arm64",
    "sim-core-killed": "a mutex of a killed process: qemu-user has no robust lists",
    "journal": "forks beside a thread: qemu-user hangs now and then",
    "kubelet-child": "starts itself anew: the kernel has no loader for arm64",
    "kubelet-mps": "starts itself anew: the kernel has no loader for arm64",
    "sim-node-lend": "the command line in /proc is the emulator's",
    "supervisor processes": "starts a sampler: the kernel has no loader for arm64",
    "supervisor scan": "the memory in /proc is the emulator's",
    "truths": "plays days: too slow under emulation",
}


@pytest.fixture(scope="module")
def inside(debian_root, this_debian, source):
    """Runs a shell script in a root of this release with arm64's libraries; /src is the tree, /build the build."""
    suite = {"12": "bookworm", "13": "trixie"}.get(this_debian) or pytest.skip("this machine is neither Debian 12 nor 13")
    root = debian_root(suite, "arm64")
    root.copy(source)
    root.run("cd /src && tools/deps.sh arm64 deb")
    return root.run


def test_it_builds_without_a_warning(inside):
    inside("cd /src && { [ -f /build/build.ninja ] || meson setup /build --cross-file deploy/arm64.ini --werror; } && ninja -C /build")
    assert "aarch64" in inside("readelf -h /build/stoker | grep Machine").lower()


def test_its_c_suites_pass(inside):
    names = [line.split(" / ")[-1] for line in inside("meson test -C /build --no-rebuild --list 2>/dev/null").splitlines() if " / " in line]
    assert UNFIT.keys() <= set(names) and len(names) > 200
    words = " ".join(f"'{name}'" for name in names if name not in UNFIT)
    inside(f"cd /src && meson test -C /build --no-rebuild --print-errorlogs --timeout-multiplier 20 --num-processes 2 {words}")


def test_its_packages_are_built_and_its_program_runs(inside, version):
    inside("cd /src && dpkg-checkbuilddeps -a arm64 -P cross deploy/debian/control && deploy/deb.sh /deb arm64")
    inside("rm -rf /unpacked; for deb in /deb/*_arm64.deb; do dpkg -x $deb /unpacked; done")
    said = inside("dpkg-deb -f /deb/stoker_*_arm64.deb Architecture Depends; qemu-aarch64 /unpacked/usr/bin/stoker version; ls /unpacked/usr/lib")
    assert "Architecture: arm64\n" in said and "libuv1" in said and f"stoker {version}\n" in said and "aarch64-linux-gnu" in said
    machines = inside("readelf -h /unpacked/usr/bin/stoker /unpacked/usr/libexec/stoker/stoker-sampler /unpacked/usr/libexec/stoker/sim/nvidia-smi | grep Machine")
    assert machines.count("AArch64") == 3
