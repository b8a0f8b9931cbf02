# SPDX-License-Identifier: Apache-2.0
"""The relocatable tarball: built in a root of Debian 11, tried in bare roots of Debian 11, 12 and 13, which have none of the
libraries that it needs."""
import json
import re
import shutil
import subprocess

import pytest

pytestmark = pytest.mark.slow("builds in a root of Debian 11, and tries what it built in three roots")

BUILD_S = 3600
SUITES = ["bullseye", "bookworm", "trixie"]
TRY = """
cd /anywhere/stoker; export PATH=$PWD/bin:$PATH TMPDIR=/tmp
! ldd bin/stoker libexec/stoker/stoker-sampler lib/bundled/* | grep 'not found'
stoker version
stoker sim run default -- nvidia-smi -L
stoker top --once --help >/dev/null; stoker runbook gpu-lost | head -n 1; stoker rules >/dev/null
stoker --help >/dev/null; stoker xid 79 | head -n 1
cat >/tmp/stoker.yaml <<END
alerts: {receivers: {hook: {webhook: "http://127.0.0.1:9/in"}}}
END
stoker sim run xid-79-lost --speed 600 -- stoker agent --listen 127.0.0.1:29423 --control /tmp/stoker.sock --journal /tmp/journal.db \
    --config /tmp/stoker.yaml 2>/tmp/log & agent=$!
for try in $(seq 600); do
    if page=$(curl -s http://127.0.0.1:29423/metrics) && echo "$page" | grep -q '^DCGM_FI_DEV_GPU_TEMP' && grep -q "receiver 'hook'" /tmp/log; then break; fi
    sleep 0.1
done
echo "$page" | grep '^DCGM_FI_DEV_GPU_TEMP'
cat /tmp/log
kill $agent; wait $agent || true
rm -f /tmp/journal.db*
"""


@pytest.fixture(scope="module")
def tarball(source, build, debian_root):
    debian_root("bullseye")
    done = subprocess.run([source / "deploy/tarball.sh", build / "tarball", build / "roots"], capture_output=True, text=True, timeout=BUILD_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = (build / "tarball").glob("*.tar.xz")
    return path


@pytest.fixture(scope="module")
def unpacked(tarball, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tarball")
    subprocess.run(["tar", "-xf", tarball, "-C", folder], check=True, timeout=BUILD_S)
    (top,) = folder.iterdir()
    return top


def test_its_name_says_what_and_for_what(tarball, version):
    assert re.fullmatch(rf"stoker-{version}-linux-(x86_64|aarch64)\.tar\.xz", tarball.name)
    assert tarball.stat().st_size < 16 << 20


def test_it_asks_for_no_newer_glibc(unpacked):
    files = [p for p in unpacked.rglob("*") if p.is_file() and p.read_bytes()[:4] == b"\x7fELF"]
    assert len(files) > 20
    text = subprocess.run(["objdump", "-T", *files], capture_output=True, text=True, check=True, timeout=BUILD_S).stdout
    wanted = {tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_(\d[\d.]*)", text)}
    assert wanted and max(wanted) <= (2, 31)


def test_each_library_comes_with_its_licence_and_stands_in_the_bill(unpacked):
    document = json.loads((unpacked / "share/stoker/stoker.spdx.json").read_text())
    linked = {name for p in document["packages"] for name in p.get("comment", "").removeprefix("linked: ").split(", ")}
    bundled = {p.name for p in (unpacked / "lib/bundled").iterdir()}
    assert bundled <= linked
    rest = linked - bundled - {""}
    assert rest <= {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libresolv.so.2"}, "glibc's alone"
    assert all(p["versionInfo"] != "NOASSERTION" for p in document["packages"])
    assert len(list((unpacked / "share/doc/licences").iterdir())) >= 20


def test_units_name_the_folder_that_it_lies_in(unpacked, tmp_path):
    subprocess.run([unpacked / "install-units", tmp_path], check=True, timeout=BUILD_S, capture_output=True)
    units = list((tmp_path / "systemd/system").iterdir())
    assert {u.name for u in units} == {"stoker.service", "stoker-sampler@.service", "stoker-mig.service", "stoker.socket", "stoker-sampler.socket"}
    programs = {line.split("=")[1].split()[0] for u in units for line in u.read_text().splitlines() if line.startswith("ExecStart=")}
    assert programs == {f"{unpacked}/bin/stoker", f"{unpacked}/libexec/stoker/stoker-sampler"}
    (tmp_path / "stoker/stoker.yaml").write_text("mine\n")
    subprocess.run([unpacked / "install-units", tmp_path], check=True, timeout=BUILD_S, capture_output=True)
    assert (tmp_path / "stoker/stoker.yaml").read_text() == "mine\n", "a configuration that is there stays"


@pytest.mark.parametrize("suite", SUITES)
def test_it_runs_on(debian_root, unpacked, version, suite):
    root = debian_root(suite, f"bare-{suite}", "curl")
    to = root.path / "anywhere/stoker"
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(unpacked, to, symlinks=True)
    said = root.run(TRY)
    assert f"stoker {version}\n" in said and len(re.findall("^GPU .: NVIDIA H100", said, re.M)) == 8
    assert len(re.findall(r"^DCGM_FI_DEV_GPU_TEMP\{", said, re.M)) >= 7, said
    assert "receiver 'hook': Failed to connect to" in said, "so libcurl, which is opened at run time, was found: " + said
