# SPDX-License-Identifier: Apache-2.0
"""The Debian packages, built from this checkout: what is in which, what they need, and that their programs run. Built for Debian 12
and 13, each with its own libraries, they are installed, used and removed in bare roots of these; two builds give the same bytes."""
import hashlib
import os
import re
import shutil
import subprocess

import pytest

pytestmark = pytest.mark.slow("builds the packages")

BUILD_S = 1800
SUITES = {"12": "bookworm", "13": "trixie"}
USE = """
export DEBIAN_FRONTEND=noninteractive
apt-get update -q
apt-get purge -y -q 'stoker*'
apt-get install -y -q --no-install-recommends /debs/*.deb
dpkg --audit
! ldd /usr/bin/stoker /usr/libexec/stoker/stoker-sampler | grep 'not found'
getent passwd stoker
stoker version
runuser -u stoker -- stoker agent --check-config
stoker sim run default -- stoker agent --listen 127.0.0.1:29433 --control /tmp/stoker.sock --journal none 2>/tmp/log & agent=$!
for try in $(seq 600); do
    if page=$(curl -s http://127.0.0.1:29433/metrics) && echo "$page" | grep -q '^DCGM_FI_DEV_GPU_TEMP'; then break; fi
    sleep 0.1
done
echo "$page" | grep '^DCGM_FI_DEV_GPU_TEMP' || cat /tmp/log
kill $agent; wait $agent || true
mkdir -p /var/lib/stoker
touch /var/lib/stoker/journal.db
echo '# mine' >>/etc/stoker/stoker.yaml
apt-get install -y -q --reinstall /debs/*.deb
apt-get remove -y -q 'stoker*'
echo removed: $(find / -xdev -name '*stoker*' ! -path '/debs/*' ! -path '/tmp/*' ! -path '/var/lib/dpkg/*' ! -path '*/systemd/*' ! -type d) $(tail -n 1 /etc/stoker/stoker.yaml)
apt-get purge -y -q 'stoker*'
echo purged: $(find / -xdev -name '*stoker*' ! -path '/debs/*' ! -path '/tmp/*')
"""
ACCEPTED = {"bogus-mail-host", "bogus-mail-host-in-debian-changelog"}  # what lintian may say


def run(*command):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=BUILD_S, check=True).stdout


def made_of(source):
    """A hash of all that packages are made of: what deb.sh copies, but for the tests, which are not built, and the versions of
    all that is installed here. None where git does not know the files."""
    listed = subprocess.run(["git", "ls-files", "-coz", "--exclude-standard"], cwd=source, capture_output=True, text=True, check=False)
    if listed.returncode or not listed.stdout:
        return None
    whole = hashlib.sha256(run("dpkg-query", "-W").encode())
    for name in sorted(set(listed.stdout.split("\0")) - {""}):
        path = source / name
        if path.is_file() and not name.startswith("test/"):
            whole.update(f"{name} {os.access(path, os.X_OK)} {path.stat().st_size}\n".encode() + path.read_bytes())
    return whole.hexdigest()


@pytest.fixture(scope="module")
def packages(build, deploy, source):
    """{package: file}, built anew where what they are made of has changed."""
    missing = [p for p in ("dh", "dpkg-buildpackage", "fakeroot") if not shutil.which(p)]
    if missing:
        pytest.skip(f"no {', '.join(missing)} on this machine; 'make test-all' installs what is needed")
    stamp, now = build / "deb" / "made-of", made_of(source)
    if not (now and stamp.exists() and stamp.read_text() == now):
        done = subprocess.run([deploy / "deb.sh", build / "deb"], capture_output=True, text=True, timeout=BUILD_S, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        stamp.write_text(now or "")
    made = {path.name.split("_")[0]: path for path in (build / "deb").glob("*.deb")}
    return {name: made[name] for name in ("stoker", "stoker-sim")}


@pytest.fixture(scope="module")
def packages_of(packages, this_debian, debian_root, source):
    """packages_of("12"): the files for that Debian; those of the other one are built in a root of it."""

    def get(release):
        if release == this_debian:
            return list(packages.values())
        root = debian_root(SUITES[release])
        folder, now = root.path / "deb", made_of(source)
        if not (now and (folder / "made-of").exists() and (folder / "made-of").read_text() == now):
            root.copy(source)
            root.run("cd /src && tools/deps.sh build deb && deploy/deb.sh /deb")
            (folder / "made-of").write_text(now or "")
        return [path for path in folder.glob("*.deb") if "dbgsym" not in path.name]

    return get


@pytest.fixture(scope="module")
def unpacked(packages, tmp_path_factory):
    folder = tmp_path_factory.mktemp("unpacked")
    for deb in packages.values():
        run("dpkg", "-x", deb, folder)
    return folder


def files(deb):
    return {line.split()[5].lstrip(".") for line in run("dpkg", "-c", deb).splitlines() if not line.startswith("d")}


def test_the_agents_package_is_whole(packages):
    found = files(packages["stoker"])
    assert found >= {"/usr/bin/stoker", "/usr/libexec/stoker/stoker-sampler", "/etc/stoker/stoker.yaml",
                     "/lib/systemd/system/stoker.service", "/lib/systemd/system/stoker-sampler@.service",
                     "/lib/systemd/system/stoker-mig.service", "/usr/share/stoker/mig/boards.yaml",
                     "/lib/systemd/system/stoker-sampler.socket", "/lib/systemd/system/stoker.socket",
                     "/usr/lib/sysusers.d/stoker.conf", "/usr/lib/tmpfiles.d/stoker.conf",
                     "/usr/share/stoker/counters/default-counters.csv", "/usr/share/man/man1/stoker-version.1.gz",
                     "/usr/share/stoker/dashboards/stoker-on-call.json", "/usr/share/stoker/rules/stoker.yaml",
                     "/usr/share/stoker/runbooks.gz", "/usr/share/bash-completion/completions/stoker",
                     "/usr/share/zsh/vendor-completions/_stoker", "/usr/share/fish/vendor_completions.d/stoker.fish",
                     "/usr/share/man/man1/stoker.1.gz", "/usr/share/stoker/stoker.spdx.json"}
    assert not [f for f in found if "/sim/" in f or "nvidia" in f]


def test_the_simulators_package_is_whole(packages, source):
    found = files(packages["stoker-sim"])
    assert len([f for f in found if f.endswith("/libnvidia-ml.so.1")]) == 4
    assert {f.rsplit("/", 1)[1] for f in found if "/sim/scenarios/" in f} == {
        p.name for p in (source / "sim/data/scenarios").iterdir()}
    assert "/usr/libexec/stoker/sim/nvidia-smi" in found
    assert not [f for f in found if re.match(r"/usr/(bin|lib/[^/]+/lib|lib/[^/]+$)", f)], "no program finds it by itself"


def test_nothing_is_in_both_and_nothing_is_left_out(packages):
    assert not files(packages["stoker"]) & files(packages["stoker-sim"])


def field(deb, name):
    return run("dpkg-deb", "-f", deb, name).strip()


def test_versions_agree(packages, version):
    assert {field(deb, "Version") for deb in packages.values()} == {version}


def test_it_needs_libraries_and_no_driver(packages):
    depends = field(packages["stoker"], "Depends")
    assert "libc6" in depends and "nvidia" not in depends and "sysusers" in depends
    assert f"stoker (= {field(packages['stoker'], 'Version')})" in field(packages["stoker-sim"], "Depends")


def test_the_configuration_is_kept_on_upgrades(packages, tmp_path):
    run("dpkg", "-e", packages["stoker"], tmp_path / "control")
    assert (tmp_path / "control/conffiles").read_text().split() == ["/etc/stoker/stoker.yaml"]


def test_installing_makes_the_user_and_starts_the_agent(packages, tmp_path):
    run("dpkg", "-e", packages["stoker"], tmp_path / "control")
    script = (tmp_path / "control/postinst").read_text()
    steps = [script.index(word) for word in ("systemd-sysusers", "systemd-tmpfiles", "deb-systemd-invoke $_dh_action 'stoker.service'")]
    assert steps == sorted(steps)
    assert "enable 'stoker.service'" in script and "deb-systemd-invoke $_dh_action 'stoker.socket'" not in script
    assert "deb-systemd-invoke $_dh_action 'stoker-mig.service'" not in script


def test_its_programs_run(unpacked, version):
    assert run(unpacked / "usr/bin/stoker", "version").strip() == f"stoker {version}"
    seen = run("env", f"STOKER_SIM_RUNTIME={unpacked}/nodes", unpacked / "usr/bin/stoker", "sim", "run", "default", "--", "nvidia-smi", "-L")
    assert seen.count("NVIDIA H100") == 8
    unit = (unpacked / "lib/systemd/system/stoker.service").read_text()
    for program in re.findall(r"^ExecStart=(\S+)", unit, re.M):
        assert (unpacked / program.lstrip("/")).exists()


@pytest.mark.parametrize("release", SUITES)
def test_it_is_installed_used_and_removed_on_debian(release, packages_of, debian_root, version):
    packages_, root = packages_of(release), debian_root(SUITES[release], f"deb-{SUITES[release]}", "ca-certificates,curl")
    shutil.rmtree(root.path / "debs", ignore_errors=True)
    (root.path / "debs").mkdir()
    for path in packages_:
        shutil.copy(path, root.path / "debs")
    said = root.run(USE)
    assert f"stoker {version}\n" in said and re.search("^stoker:", said, re.M)
    assert len(re.findall(r"^DCGM_FI_DEV_GPU_TEMP\{", said, re.M)) == 8, said
    assert re.findall("^(?:removed|purged):.*", said, re.M) == ["removed: /etc/stoker/stoker.yaml # mine", "purged:"], said


def test_two_builds_are_the_same_byte_for_byte(packages, build, deploy, tmp_path):
    """In another folder, time zone and language, and with another mask."""
    first = {path.name: path.read_bytes() for path in (build / "deb").glob("*.deb")}
    env = {**os.environ, "TZ": "Asia/Kathmandu", "LC_ALL": "C", "LANG": "de_DE.UTF-8", "CCACHE_DISABLE": "1"}
    done = subprocess.run(["sh", "-c", 'umask 077; exec "$@"', "sh", deploy / "deb.sh", tmp_path / "another"], env=env,
                          capture_output=True, text=True, timeout=BUILD_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    second = {path.name: path.read_bytes() for path in (tmp_path / "another").glob("*.deb")}
    assert set(first) == set(second) and len(first) >= 4, "with the packages of debug symbols"
    assert [name for name in first if first[name] != second[name]] == []


def test_lintian_has_nothing_to_say(packages):
    if not shutil.which("lintian"):
        pytest.skip("no lintian on this machine")
    done = subprocess.run(["lintian", "--no-cfg", *packages.values()], capture_output=True, text=True, timeout=BUILD_S, check=False)
    said = re.findall(r"^([EW]): \S+: (\S+)(.*)$", done.stdout, re.M)
    assert [row for row in said if row[1] not in ACCEPTED] == []


def test_it_asks_for_what_the_build_asks_for(deploy, source):
    lines = "".join(re.findall(r'^(?:tools|libraries)="([^"]*)"', (source / "tools/deps.sh").read_text(), re.M))
    wanted = set(re.findall(r"\b(?:lib[\w.+-]+-dev|protobuf-c-compiler|meson|python3|esbuild)\b", lines))
    wanted -= {"libc6-dev", "libcmocka-dev"}  # which every compiler, and which only tests need
    asked = re.search(r"^Build-Depends:\n((?: .*\n)+)", (deploy / "debian/control").read_text(), re.M)[1]
    assert len(wanted) > 5 and wanted <= {line.strip(" ,").split(":")[0] for line in asked.splitlines()}
