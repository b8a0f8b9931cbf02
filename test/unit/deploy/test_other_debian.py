# SPDX-License-Identifier: Apache-2.0
"""The other supported Debian, in a root of its own: the tree builds there without a warning, the C tests pass, and an agent on the
simulated node answers a scrape. The root stays in the build folder, so that a second run only builds what has changed."""
import os
import re
import shutil
import subprocess

import pytest

pytestmark = pytest.mark.slow("builds and tests in a root of the other Debian")

LIMIT_S = 3600
OTHER = {"12": "trixie", "13": "bookworm"}
# Mounts of a namespace of their own, which end with the command. The root is a mount point, as that of a container is.
ENTER = """set -eu; root=$1; shift
mount --bind "$root" "$root"
for each in proc sys dev; do mount --rbind /$each "$root/$each"; done
exec chroot "$root" sh -euc "$1"
"""
SCRAPE = """cd /src/build
./stoker sim run default -- ./stoker agent --listen 127.0.0.1:29413 --control /tmp/stoker.sock --journal none & agent=$!
for try in $(seq 600); do
    if page=$(curl -s http://127.0.0.1:29413/metrics) && echo "$page" | grep -q '^DCGM_FI_DEV_GPU_TEMP'; then break; fi
    sleep 0.1
done
echo "$page"
for again in 1 2 3; do curl -sf http://127.0.0.1:29413/healthz >/dev/null; done
kill $agent; wait $agent || true
"""


def released():
    return dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', open("/etc/os-release", encoding="utf-8").read(), re.M))


@pytest.fixture(scope="module")
def inside(build, source):
    """Runs a shell script in the root; /src is the tree."""
    here = released()
    other = OTHER.get(here.get("VERSION_ID")) if here.get("ID") == "debian" else None
    if not other:
        pytest.skip("this machine is neither Debian 12 nor 13")
    if os.geteuid() or not shutil.which("debootstrap"):
        pytest.skip("needs root and debootstrap; 'make test-all' installs it")
    root = build / "roots" / other
    if not (root / "etc/debian_version").exists():
        shutil.rmtree(root, ignore_errors=True)
        made = subprocess.run(["debootstrap", "--variant=minbase", "--include=ca-certificates,make,git,curl", other, root],
                              capture_output=True, text=True, timeout=LIMIT_S, check=False)
        if made.returncode:
            shutil.rmtree(root, ignore_errors=True)
            pytest.skip(f"{other} cannot be fetched: {made.stdout[-300:]}")
    for name in ("/etc/resolv.conf", "/etc/ssl/certs/ca-certificates.crt"):  # how this machine reaches the archive
        if os.path.exists(name):
            shutil.copyfile(name, root / name[1:])

    def run(script):
        env = {**os.environ, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8"}
        done = subprocess.run(["unshare", "--mount", "sh", "-c", ENTER, "enter", root, script], env=env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=LIMIT_S, check=False)
        assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
        return done.stdout

    copy_tree(source, root / "src")
    run("cd /src && tools/deps.sh build test")
    return run


def copy_tree(source, to):
    """What git knows of the tree; a file that has not changed keeps its time."""
    listed = subprocess.run(["git", "ls-files", "-coz", "--exclude-standard"], cwd=source, capture_output=True, text=True, check=True).stdout
    names = {name for name in listed.split("\0") if name and (source / name).is_file()}
    for old in [p for p in to.rglob("*") if p.is_file() and p.relative_to(to).parts[0] != "build"]:
        if str(old.relative_to(to)) not in names:
            old.unlink()
    for name in names:
        if not (to / name).exists() or (to / name).read_bytes() != (source / name).read_bytes():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, to / name)


def test_it_builds_without_a_warning(inside):
    inside("cd /src && { [ -f build/build.ninja ] || meson setup build --werror; } && ninja -C build")


def test_the_c_tests_pass(inside):
    inside("cd /src && meson test -C build --no-rebuild --print-errorlogs --timeout-multiplier 10")


def test_an_agent_answers_a_scrape(inside):
    page = inside(SCRAPE)
    assert len(re.findall(r"^DCGM_FI_DEV_GPU_TEMP\{", page, re.M)) == 8, page
