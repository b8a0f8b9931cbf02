# SPDX-License-Identifier: Apache-2.0
"""The RPM spec: Debian's rpmbuild builds both packages from it, with what Fedora's macros stand for; what is in which, and that it runs."""
import re
import shutil
import subprocess

import pytest

pytestmark = pytest.mark.slow("builds the RPM packages")

BUILD_S = 1800
# Of Fedora's meson and systemd-rpm-macros; the rest of the line follows a macro.
MACROS = {
    "meson": "meson setup --prefix=/usr --libdir=%{_libdir} --libexecdir=libexec --buildtype=plain made . ",
    "meson_build": "ninja -C made", "meson_install": "DESTDIR=%{buildroot} meson install -C made --no-rebuild",
    "_unitdir": "/usr/lib/systemd/system", "_sysusersdir": "/usr/lib/sysusers.d", "_tmpfilesdir": "/usr/lib/tmpfiles.d",
    "_libexecdir": "/usr/libexec", "tmpfiles_create": "systemd-tmpfiles --create", "systemd_post": ": enable by preset", "systemd_preun": ": stop",
    "systemd_postun_with_restart": ": restart", "debug_package": "%{nil}",
}


def run(*command, cwd=None):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=BUILD_S, check=False, cwd=cwd)
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    return done.stdout


@pytest.fixture(scope="module")
def packages(source, version, tmp_path_factory):
    """{package: file}"""
    if not shutil.which("rpmbuild"):
        pytest.skip("no rpmbuild on this machine; 'make test-all' installs it")
    top = tmp_path_factory.mktemp("rpm")
    name = f"stoker-{version}"
    (top / "SOURCES").mkdir()
    run(source / "tools/tree.sh", top / name)
    run("tar", "-czf", top / "SOURCES" / f"{name}.tar.gz", name, cwd=top)
    shutil.rmtree(top / name)
    words = [word for key, value in MACROS.items() for word in ("--define", f"{key} {value}")]
    run("rpmbuild", "-bb", "--nodeps", "--define", f"_topdir {top}", *words, source / "deploy/rpm/stoker.spec")
    made = {re.match(r"(.+)-[^-]+-[^-]+$", path.stem)[1]: path for path in top.glob("RPMS/*/*.rpm")}
    assert set(made) == {"stoker", "stoker-sim"}
    return made


def ask(package, *words):
    return run("rpm", "-qp", "--nosignature", *words, package)


def test_each_has_its_own_files(packages):
    agent, sim = (set(ask(packages[name], "-l").split()) for name in ("stoker", "stoker-sim"))
    assert agent >= {"/usr/bin/stoker", "/usr/libexec/stoker/stoker-sampler", "/etc/stoker/stoker.yaml", "/usr/lib/systemd/system/stoker.service",
                     "/usr/lib/systemd/system/stoker-sampler@.service", "/usr/lib/sysusers.d/stoker.conf", "/usr/share/stoker/runbooks.gz",
                     "/usr/share/stoker/stoker.spdx.json",
                     "/usr/lib/systemd/system/stoker-mig.service", "/usr/share/stoker/mig/boards.yaml"}
    assert [f for f in agent if f.startswith("/usr/share/man/man1/stoker.1")], "Fedora's rpmbuild packs it, Debian's does not"
    assert "/usr/libexec/stoker/sim/nvidia-smi" in sim and not [f for f in agent if "/sim/" in f]
    assert len([f for f in sim if f.endswith("/libnvidia-ml.so.1")]) == 4 and not [f for f in sim if f.endswith("/libnvidia-ml.so")]
    assert not {f for f in agent & sim if not f.startswith(("/usr/lib/.build-id", "/usr/share/doc"))} - {"/usr/share/stoker"}


def test_the_driver_is_neither_needed_nor_given(packages, version):
    for path in packages.values():
        assert "nvidia" not in ask(path, "--requires") + ask(path, "--provides")
    assert "libuv.so.1" in ask(packages["stoker"], "--requires")
    assert re.search(rf"^stoker.* = {version}-1", ask(packages["stoker-sim"], "--requires"), re.M)


def test_the_configuration_is_kept_and_the_service_known(packages):
    assert ask(packages["stoker"], "--configfiles").split() == ["/etc/stoker/stoker.yaml"]
    scripts = ask(packages["stoker"], "--scripts")
    assert "systemd-tmpfiles --create stoker.conf" in scripts and ": enable by preset stoker.service stoker.socket stoker-mig.service" in scripts


def test_its_programs_run(packages, version, tmp_path):
    for path in packages.values():
        run("sh", "-c", 'rpm2cpio "$1" | cpio -id --quiet', "sh", path, cwd=tmp_path)
    assert run(tmp_path / "usr/bin/stoker", "version").strip() == f"stoker {version}"
    seen = run("env", f"STOKER_SIM_RUNTIME={tmp_path}/nodes", tmp_path / "usr/bin/stoker", "sim", "run", "default", "--", "nvidia-smi", "-L")
    assert seen.count("NVIDIA H100") == 8
