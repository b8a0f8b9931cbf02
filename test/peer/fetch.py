#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Third-party programs of Debian's archive, NVML clients and Prometheus, unpacked into a folder and never installed.

apt gets a state of its own below that folder: this machine's sources with the component contrib added, and a list of
installed packages that has the driver library alone, because the simulator is that library. So apt downloads a client with
all that it depends on, whatever is installed on this machine, and never NVIDIA's library. The C library and the Python
interpreter are the machine's own: they are the same release, and a loader accepts no other C library than its own. Every
command has a time limit. A client is fetched once: its folder is kept until this file changes.

    test/peer/fetch.py FOLDER [CLIENT...]"""
import fcntl
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys

UPDATE_S, DOWNLOAD_S, UNPACK_S = 120, 240, 60

# client: packages wanted with what they need, and packages wanted alone, whose dependencies say more than is used
# (hwloc's plugins come with a CUDA one; the archive's contrib plugin of Slurm waits for a rebuild at times; Prometheus and
# its Alertmanager want what their web pages are made of).
CLIENTS = {
    "chromium": (["chromium-headless-shell", "fonts-dejavu-core"], []),
    "nvtop": (["nvtop", "tmux"], []),
    "pynvml": (["python3-pynvml"], []),
    "gpustat": (["gpustat"], []),
    "glances": (["glances", "python3-pynvml"], []),
    "hwloc": (["hwloc-nox"], ["libhwloc-contrib-plugins"]),
    "slurm": (["slurmd", "munge"], ["slurm-wlm-nvml-plugin"]),
    "slurm-cluster": (["slurmctld", "slurmd", "slurm-client", "slurmdbd", "mariadb-server-core", "mariadb-client-core", "munge"],
                      ["mariadb-server"]),
    "netdata": (["netdata-plugins-python"], []),
    "container": (["runc", "busybox-static"], []),
    "prometheus": ([], ["prometheus"]),  # and promtool
    "node-exporter": ([], ["prometheus-node-exporter"]),
    "alertmanager": ([], ["prometheus-alertmanager"]),  # to be started in usr/share/prometheus/alertmanager
}
# Packages that are too old in Debian 12 (no CDI) and come from Debian 13 there; they need the C library alone, and none newer.
NEWER = {"container": ["containerd"]}
# Packages that are the machine's own.
OWN = re.compile(r"(libc6|libc-bin|python3(\.\d+)?(-minimal)?)_")

STAND_IN = """
Package: libnvidia-ml1
Status: install ok installed
Priority: optional
Section: libs
Maintainer: none
Architecture: amd64
Version: 9999
Provides: libnvidia-ml.so.1
Description: stands for the simulated driver library
"""

CONFIG = """
Dir::State "{root}/state";
Dir::State::status "{root}/status";
Dir::Cache "{root}/cache";
Dir::Etc::sourcelist "{root}/sources.list";
Dir::Etc::sourceparts "{root}/sources";
APT::Sandbox::User "root";
Acquire::Languages "none";
Acquire::Retries "1";
Acquire::http::Timeout "20";
Acquire::https::Timeout "20";
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Post-Invoke;
#clear DPkg::Pre-Install-Pkgs;
"""


class Unavailable(Exception):
    """The client cannot be had here; the text says why."""


def run(command, seconds, **more):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False, **more)
    except FileNotFoundError as error:
        raise Unavailable(f"no {command[0]} on this machine") from error
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"'{' '.join(map(str, command[:4]))} ...' did not end in {seconds} s") from error
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
        raise Unavailable(f"{command[0]}: {last}")
    return done.stdout


def codename():
    release = pathlib.Path("/etc/os-release")
    words = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', release.read_text() if release.exists() else "", re.M))
    if words.get("ID") != "debian":
        raise Unavailable("this machine is not a Debian, whose archive has the clients")
    return words.get("VERSION_CODENAME", "sid")


def own_suite(suite):
    return suite.startswith((codename(), "stable", "testing", "unstable", "sid"))


def stanzas_with_contrib(text):
    """The stanzas of a .sources file that name Debian's own suites, with contrib."""
    text = re.sub(r"^#.*\n?", "", text, flags=re.M)
    for stanza in re.split(r"\n\s*\n", text):
        field = {k.lower(): v.split() for k, v in re.findall(r"^([\w-]+):[ \t]*(.*)$", stanza, re.M)}
        if "main" in field.get("components", []) and all(own_suite(s) for s in field.get("suites", ["?"])):
            yield re.sub(r"^Components:.*$", "Components: main contrib", stanza.strip(), flags=re.M | re.I)


def lines_with_contrib(text):
    """The same for a sources.list."""
    for line in text.splitlines():
        found = re.match(r"(deb(?: \[[^]]*\])? +\S+ +(\S+)) +.*\bmain\b", line)
        if found and own_suite(found[2]):
            yield found[1] + " main contrib"


def write_sources(root, suite, etc=pathlib.Path("/etc/apt")):
    parts = sorted((etc / "sources.list.d").glob("*.sources"))
    lists = [etc / "sources.list", *sorted((etc / "sources.list.d").glob("*.list"))]
    stanzas = [s for p in parts for s in stanzas_with_contrib(p.read_text())]
    lines = [line for p in lists if p.exists() for line in lines_with_contrib(p.read_text())]
    if not stanzas and not lines:
        raise Unavailable("apt has no source of Debian's archive")
    (root / "sources").mkdir(exist_ok=True)
    (root / "sources" / "peer.sources").write_text("\n\n".join(stanzas).replace(codename(), suite) + "\n")
    (root / "sources.list").write_text("".join(line + "\n" for line in lines).replace(codename(), suite))


class Apt:
    """apt-get with a state of its own below `root`, for this machine's Debian, or with `suites` that which they give for it."""

    def __init__(self, root, suites=None):
        self.root, self.suites, self.fresh, self.out_of_reach = root, suites or {}, False, None
        for folder in ("state/lists/partial", "cache/archives/partial"):
            (root / folder).mkdir(parents=True, exist_ok=True)

    def get(self, seconds, *words, cwd=None):
        command = ["apt-get", "-c", str(self.root / "apt.conf"), "-q", "-y", "--no-install-recommends", *words]
        return run(command, seconds, cwd=cwd, env=dict(os.environ, LC_ALL="C", DEBIAN_FRONTEND="noninteractive"))

    def update(self):
        """Once per process, whether it goes well or not: what the archive has."""
        if self.out_of_reach:
            raise self.out_of_reach
        if self.fresh:
            return
        write_sources(self.root, self.suites.get(codename(), codename()))
        (self.root / "apt.conf").write_text(CONFIG.format(root=self.root))
        (self.root / "status").write_text(STAND_IN.lstrip())
        try:
            self.get(UPDATE_S, "-o", "APT::Update::Error-Mode=any", "update")
        except Unavailable as reason:
            self.out_of_reach = Unavailable(f"Debian's archive is out of reach: {reason}")
            raise self.out_of_reach from reason
        self.fresh = True

    def download(self, packages, alone, folder):
        """The .deb files of the packages and of what they need, in `folder`."""
        (folder / "partial").mkdir(parents=True)
        if packages:
            self.get(DOWNLOAD_S, "-o", f"Dir::Cache::archives={folder}", "--download-only", "install", *packages)
        if alone:
            self.get(DOWNLOAD_S, "download", *alone, cwd=folder)
        return sorted(folder.glob("*.deb"))


def unpack(debs, root):
    for deb in debs:
        if not OWN.match(deb.name):
            run(["dpkg", "-x", str(deb), str(root)], UNPACK_S)
    if list(root.rglob("libnvidia-ml.so*")):
        shutil.rmtree(root)
        raise Unavailable("a package brought a driver library; it is not used")
    # Debian's Alertmanager reads its templates from a folder where they are not: from the working directory instead (a path
    # of the same length, because the text is inside the program).
    program = root / "usr/bin/prometheus-alertmanager"
    if program.exists():
        folder = b"/usr/share/prometheus/alertmanager"
        program.write_bytes(program.read_bytes().replace(folder, b"./" * (len(folder) // 2)))


class Peers:
    """The clients below one folder; get() fetches a client the first time."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder).resolve()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.apt, self.newer = Apt(self.folder / "apt"), Apt(self.folder / "apt-newer", {"bookworm": "trixie"})
        self.failed = {}

    def get(self, name):
        """The folder that is the client's root; raises Unavailable."""
        if name in self.failed:
            raise self.failed[name]
        with open(self.folder / "lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                return self._get(name)
            except Unavailable as reason:
                self.failed[name] = reason
                raise

    def _get(self, name):
        home, wanted = self.folder / name, hashlib.sha256(pathlib.Path(__file__).read_bytes()).hexdigest()
        stamp, root = home / "fetched", home / "root"
        if stamp.exists() and stamp.read_text() == wanted:
            return root
        shutil.rmtree(home, ignore_errors=True)
        self.apt.update()
        root.mkdir(parents=True)
        unpack(self.apt.download(*CLIENTS[name], home / "debs"), root)
        if name in NEWER:
            self.newer.update()
            unpack(self.newer.download([], NEWER[name], home / "newer"), root)
        stamp.write_text(wanted)
        return root

    def versions(self, name):
        """{package: version} of what was fetched for a client."""
        debs = (self.folder / name / "debs").glob("*.deb")
        return {d.name.split("_")[0]: d.name.split("_")[1].replace("%3a", ":") for d in debs}


def main():
    peers = Peers(sys.argv[1])
    for name in sys.argv[2:] or CLIENTS:
        try:
            root = peers.get(name)
            print(f"{name}: {root}", *(f"  {p} {v}" for p, v in sorted(peers.versions(name).items())), sep="\n")
        except Unavailable as reason:
            print(f"{name}: not here: {reason}")


if __name__ == "__main__":
    main()
