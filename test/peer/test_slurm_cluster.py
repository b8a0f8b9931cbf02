# SPDX-License-Identifier: Apache-2.0
"""The real Slurm (slurmctld, slurmd, slurmdbd with MariaDB) on a simulated node that has been entered: jobs and steps are named,
and the ledger agrees with sacct.

All of it runs in namespaces of its own, with the unpacked programs laid over /usr, and ends with the first process in them. A small
server, the last process to start, runs the test's commands there."""
import base64
import gzip
import json
import os
import pathlib
import re
import subprocess
import threading
import time

import pytest

LIMIT_S = 120
ADDRESS = "10.77.0.1"  # beside loopback, as resolvers want one more
GPUS = 6
NODE = f"sl{os.getpid()}"  # slurmd names cgroups after it

SCENE = {"about": "a node of Slurm's", "gpus": {"board": "h100-sxm-80gb", "count": GPUS}, "truth": []}

CONF = """ClusterName=peer
SlurmctldHost={node}({address})
AuthType=auth/munge
CredType=cred/munge
GresTypes=gpu
SlurmUser=root
SlurmdUser=root
MpiDefault=none
StateSaveLocation={folder}/state
SlurmdSpoolDir=/run/spool
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup
JobAcctGatherType=jobacct_gather/cgroup
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
Prolog={folder}/prolog
Epilog={folder}/epilog
EpilogSlurmctld={folder}/comment
NodeName={node} NodeAddr={address} CPUs=32 Gres={gres}
PartitionName=all Nodes=ALL Default=YES MaxTime=2-00:00:00
"""
ACCOUNTING = """AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost={node}
AccountingStorageTRES=gres/gpu
AccountingStorageEnforce=associations"""
DBD = """AuthType=auth/munge
DbdHost={node}
SlurmUser=root
LogFile={folder}/slurmdbd.log
PidFile=/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=acct
"""
# dcgm-exporter's job files: one per GPU, a job per line
PROLOG = """#!/bin/sh
for gpu in $(echo "$SLURM_JOB_GPUS" | /usr/bin/tr , ' '); do echo "$SLURM_JOB_ID" >> {folder}/jobs/$gpu; done
"""
EPILOG = """#!/bin/sh
for gpu in $(echo "$SLURM_JOB_GPUS" | /usr/bin/tr , ' '); do /usr/bin/sed -i "/^$SLURM_JOB_ID\\$/d" {folder}/jobs/$gpu; done
{stoker} jobs show "$SLURM_JOB_ID" --line --control /run/stoker.sock > {folder}/report.$SLURM_JOB_ID || exit 0
"""
COMMENT = re.search(r"(#!/bin/sh\n    # EpilogSlurmctld.*?)\n\n[^ ]", (pathlib.Path(__file__).parents[2] / "docs/jobs.md").read_text(), re.S)[1]
BEGIN = """set -eu
cd {folder}
ip link set lo up
ip addr add {address}/32 dev lo
hostname {node}
mount --bind hosts /etc/hosts
mount -t overlay overlay -o lowerdir={folder}/names:{root}/usr:/usr /usr
mount -t tmpfs tmpfs /run
mkdir -p /run/munge /run/mysqld /run/released /run/spool
echo entered
exec {stoker} sim run --enter --image {folder}/node.img {folder}/scene.yaml -- /bin/sh {folder}/daemons
"""
DAEMONS = """exec 3>&1 4<&0 </dev/null >{folder}/daemons.log 2>&1
cd {folder}
export SLURM_CONF={folder}/slurm.conf
failed() {{ echo "failed $*" >&3; exit 1; }}
accounts() {{
    mariadb-install-db --no-defaults --auth-root-authentication-method=normal --basedir=/usr --datadir={folder}/db --user=root --skip-test-db || return
    mariadbd --no-defaults --datadir={folder}/db --user=root --skip-networking --socket=/run/mysqld/mysqld.sock \\
        --innodb-buffer-pool-size=32M --innodb-log-file-size=8M 3>&- 4<&- &
    until mysql --no-defaults -e 'SELECT 1'; do
        kill -0 $! || return
        sleep 0.2
    done
    slurmdbd 3>&- 4<&- || return
    cat accounting >> slurm.conf
    until sacctmgr -n show cluster; do
        kill -0 $(cat /run/slurmdbd.pid) || return
        sleep 0.2
    done
    sacctmgr -i add cluster peer && sacctmgr -i add account physics,chem && sacctmgr -i add user root account=physics &&
        sacctmgr -i add user daemon account=chem
}}
munged --force --key-file=munge/key --pid-file=munge/pid --log-file=munge/log --seed-file=munge/seed 3>&- 4<&- || failed munged does not start
{prepare}
cp slurm.conf plain.conf
if accounts; then echo accounts >&3; else cp plain.conf slurm.conf; fi
slurmctld 3>&- 4<&- || failed slurmctld does not start
slurmd 3>&- 4<&- || failed slurmd does not start
exec <&4 >&3 3>&- 4<&-
exec /usr/bin/python3 -u {folder}/server.py
"""
SERVER = """import json, subprocess, sys
print("ready", flush=True)
for line in sys.stdin:
    ask = json.loads(line)
    if ask["log"]:
        subprocess.Popen(ask["command"], stdin=subprocess.DEVNULL, stdout=open(ask["log"], "wb"), stderr=subprocess.STDOUT)
        print("null", flush=True)
        continue
    done = subprocess.run(ask["command"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    print(json.dumps([done.returncode, done.stdout, done.stderr]), flush=True)
"""
JOB = """#!/bin/sh
{step}
if [ "$SLURM_JOB_NAME" = works ]; then
    i=0
    while [ $i -lt 1000000 ]; do i=$((i + 1)); done
fi
until [ -e /run/released/$SLURM_JOB_ID ]; do sleep 0.2; done
"""
STEP = "srun -n1 --gpus=1 sh -c 'until [ -e /run/released/$SLURM_JOB_ID ]; do sleep 0.2; done' &"


class Cluster:
    """Slurm of one node, in namespaces of its own."""

    def __init__(self, stoker, root, folder, scene=SCENE, node=NODE, gres=f"gpu:h100:{GPUS}", prepare=":", cgroup=""):
        """`prepare`: a line of shell on the entered node, before the daemons start."""
        self.stoker, self.folder, self.accounts, self.why, self.node = stoker, folder, False, None, node
        words = {"folder": folder, "root": root, "stoker": stoker, "node": node, "address": ADDRESS, "gres": gres, "prepare": prepare}
        for name in ("state", "db", "jobs", "names/bin", "names/sbin"):
            (folder / name).mkdir(parents=True)
        (folder / "munge").mkdir(mode=0o700)
        for name in ("slurmctld", "slurmd", "slurmstepd"):
            (folder / "names/sbin" / name).symlink_to(f"{name}-wlm")  # as dpkg's alternatives would
        (folder / "names/bin/stoker").symlink_to(stoker)  # as its package would
        unified = pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists()
        for name, text, mode in (("scene.yaml", json.dumps(scene), 0o644), ("slurm.conf", CONF, 0o644), ("accounting", ACCOUNTING, 0o644),
                                 ("slurmdbd.conf", DBD, 0o600), ("prolog", PROLOG, 0o755), ("epilog", EPILOG, 0o755),
                                 ("gres.conf", "Name=gpu Type=h100 File=/dev/nvidia[0-5]\n", 0o644), ("server.py", SERVER, 0o644),
                                 ("cgroup.conf", ("IgnoreSystemd=yes\n" if unified else "CgroupPlugin=cgroup/v1\n") + cgroup, 0o644),
                                 ("hosts", f"127.0.0.1 localhost\n{ADDRESS} {node}\n", 0o644), ("begin", BEGIN, 0o644),
                                 ("daemons", DAEMONS, 0o644),
                                 ("comment", COMMENT.replace("\n    ", f"\nexport SLURM_CONF={folder}/slurm.conf\n", 1).replace("\n    ", "\n"), 0o755)):
            (folder / name).write_text(text if name in ("server.py", "scene.yaml", "comment") else text.format(**words))
            (folder / name).chmod(mode)
        (folder / "munge/key").write_bytes(os.urandom(1024))
        (folder / "munge/key").chmod(0o400)
        with open(folder / "begin.log", "wb") as log:
            self.popen = subprocess.Popen(
                ["unshare", "--mount", "--net", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc", "/bin/sh", folder / "begin"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True)
        watchdog = threading.Timer(2 * LIMIT_S, self.popen.kill)
        watchdog.start()
        self.begin()
        watchdog.cancel()

    def begin(self):
        """Until the server answers; else `why` says what does not run here."""
        entered = False
        for line in self.popen.stdout:
            word, _, rest = line.strip().partition(" ")
            entered |= word == "entered"
            self.accounts |= word == "accounts"
            if word == "failed":
                self.why = rest
            if word == "ready":
                return
        said = (self.folder / "begin.log").read_text().strip().splitlines() or ["no message"]
        self.why = self.why or f"{'the daemons' if entered else 'namespaces or an overlay'} cannot run here: {said[-1]}"

    def until_idle(self):
        """Until slurmctld knows the node; skips the test where slurmd does not run."""
        if self.why:
            pytest.skip(f"Slurm's daemons: {self.why}")
        self.until(lambda: self.try_run("sinfo", "-h", "-o", "%t")[1].strip() == "idle" or "fatal: " in self.log("slurmd.log"), "an idle node")
        if "fatal: " in self.log("slurmd.log"):
            pytest.skip(f"slurmd does not run here: {self.log('slurmd.log').partition('fatal: ')[2].splitlines()[0]}")

    def ask(self, log, *command):
        self.popen.stdin.write(json.dumps({"command": list(map(str, command)), "log": log and str(log)}) + "\n")
        self.popen.stdin.flush()
        return json.loads(self.popen.stdout.readline())

    def try_run(self, *command):
        """(code, stdout, stderr)"""
        return self.ask(None, *command)

    def run(self, *command):
        code, out, err = self.try_run(*command)
        assert code == 0, (command, out, err)
        return out

    def start(self, log, *command):
        self.ask(log, *command)

    def log(self, name):
        path = self.folder / name
        return path.read_text(errors="replace")[-4000:] if path.exists() else f"no {name}"

    def until(self, condition, what):
        end = time.monotonic() + LIMIT_S
        while not (found := condition()):
            assert time.monotonic() < end, f"{what() if callable(what) else what}\n{self.log('slurmctld.log')}\n{self.log('slurmd.log')}\n{self.log('agent.log')}"
            time.sleep(0.2)
        return found

    def submit(self, *options, step=False):
        """A job that runs until it is released; its number."""
        script = self.folder / "job"
        script.write_text(JOB.format(step=STEP if step else ""))
        return self.run("sbatch", "--parsable", "-o", "/dev/null", "-D", "/", *options, script).strip()

    def release(self, *jobs):
        for job in jobs:
            self.run("touch", f"/run/released/{job}")

    def tasks(self, job):
        """{step: pid} of the first task of each step."""
        code, out, _ = self.try_run("scontrol", "listpids", job)
        rows = [line.split() for line in out.splitlines()[1:]] if code == 0 else []
        return {row[2]: int(row[0]) for row in rows if row[3] == "0" and row[0].isdigit()}  # -1: not yet

    def gpus(self, job):
        """Indexes that Slurm gave to it, as it says itself."""
        text = self.run("scontrol", "show", "job", "-d", "-o", job).partition("(IDX:")[2].partition(")")[0]
        return [n for part in text.split(",") if part for first, _, last in [part.partition("-")]
                for n in range(int(first), int(last or first) + 1)]

    def use(self, pid, gpu):
        """A process computes on a GPU from now on."""
        self.run(self.stoker, "sim", "inject", "--image", self.folder / "node.img", "work", "train", f"gpus={gpu}", f"pid={pid}")

    def verb(self, *words):
        return json.loads(self.run(self.stoker, *words, "--json", "--control", "/run/stoker.sock"))

    def end(self):
        if self.popen.poll() is None:
            os.killpg(self.popen.pid, 9)
        self.popen.wait()
        self.popen.stdin.close()
        self.popen.stdout.close()
        end = time.monotonic() + LIMIT_S
        while not self.remove_cgroups() and time.monotonic() < end:  # its processes are killed, and may not be gone yet
            time.sleep(0.1)

    def remove_cgroups(self):
        try:
            for folder in sorted(pathlib.Path("/sys/fs/cgroup").glob(f"*/slurm_{self.node}")):
                for below, _, _ in os.walk(folder, topdown=False):
                    os.rmdir(below)
        except OSError:
            return False
        return True


@pytest.fixture(scope="module")
def cluster(stoker, fetched, may_enter, tmp_path_factory):
    if may_enter:
        pytest.skip(may_enter)
    made = Cluster(stoker, fetched("slurm-cluster"), tmp_path_factory.mktemp("slurm"))
    try:
        made.until_idle()
        made.start(made.folder / "agent.log", stoker, "agent", "--listen", f"{ADDRESS}:9400", "--control", "/run/stoker.sock", "--journal",
                   made.folder / "journal.db", "--hpc-job-mapping-dir", made.folder / "jobs")
        made.until(lambda: made.try_run("curl", "-sf", f"http://{ADDRESS}:9400/readyz")[0] == 0, "an agent that is ready")
        yield made
    finally:
        made.end()


def held(cluster):
    """{gpu: (job, user, account, state)}"""
    return {one["gpu"]: (one["owner"]["job"], one["owner"]["user"], one["owner"]["account"], one["state"])
            for one in cluster.verb("who")["allocations"]}


def test_jobs_and_steps_are_named(cluster):
    """A batch script and its step on two GPUs, an array, another user's job, one that uses nothing and a process outside them all."""
    big = cluster.submit("-J", "pretrain", "-A", "physics", "--gpus=2", "-n2", "-t", "1-12:00", step=True)
    other = cluster.submit("-J", "night run", "-A", "chem", "--uid=daemon", "--gpus=1", "-t", "30")
    array = cluster.submit("-J", "sweep", "-A", "physics", "--gpus=1", "--array=1-2")
    tasks = cluster.until(lambda: (t := cluster.run("squeue", "-h", "-t", "R", "-o", "%A", "-j", array).split())[1:] and t, "a running array")
    cluster.until(lambda: {"batch", "0"} <= cluster.tasks(big).keys() and "batch" in cluster.tasks(other) and
                  all("batch" in cluster.tasks(t) for t in tasks), "running tasks")
    owners = {}
    for job, steps in ((big, ("batch", "0")), (other, ("batch",)), (tasks[0], ("batch",))):
        for step, gpu in zip(steps, cluster.gpus(job), strict=True):
            cluster.use(cluster.tasks(job)[step], gpu)
            owners[gpu] = (job, "daemon" if job == other else "root", "chem" if job == other else "physics", "used")
    owners[cluster.gpus(tasks[1])[0]] = (tasks[1], "root", "physics", "reserved")
    free, = set(range(GPUS)) - owners.keys()
    cluster.start(cluster.folder / "outside.log", "sh", "-c", "echo $$; exec sleep infinity")
    outside = cluster.until(lambda: cluster.log("outside.log").strip(), "a process outside")
    cluster.use(outside, free)
    owners[free] = (None, "root", None, "unmanaged")
    cluster.until(lambda: held(cluster) == owners, lambda: f"{owners}\n{held(cluster)}")
    jobs = {job.pop("job"): job for job in cluster.verb("who")["jobs"]}
    assert jobs == {
        big: {"name": "pretrain", "user": "root", "account": "physics", "partition": "all", "nodes": 1, "limit_seconds": 129600},
        other: {"name": "night run", "user": "daemon", "account": "chem", "partition": "all", "nodes": 1, "limit_seconds": 1800},
        **{task: {"name": "sweep", "user": "root", "account": "physics", "partition": "all", "nodes": 1, "limit_seconds": 172800} for task in tasks}}
    gpus = json.loads(cluster.run("curl", "-s", f"http://{ADDRESS}:9400/api/v1/gpus"))["gpus"]
    steps = {gpu["index"]: one.get("job") for gpu in gpus for one in gpu["processes"]}
    assert [steps[gpu] for gpu in cluster.gpus(big)] == [f"{big}.batch", f"{big}.0"]
    assert {(row["owner"], round(row["gpus"])) for row in cluster.verb("who", "--by", "account")["owners"]} == {
        ("physics", 4), ("chem", 1), (None, 1)}
    cluster.release(big, other, *tasks)
    cluster.until(lambda: held(cluster) == {free: owners[free]}, lambda: held(cluster))
    cluster.run("kill", outside)
    cluster.until(lambda: held(cluster) == {}, lambda: held(cluster))


def test_sacct_the_ledger_and_reports_agree(cluster):
    """On the GPU-seconds of a job that computes and of one that only holds. Between them may lie what passes between a job's end and the
    agent's word about it, measured here, and sacct's whole seconds; both begin when Slurm says."""
    if not cluster.accounts:
        pytest.skip(f"slurmdbd with MariaDB cannot run here: {cluster.log('daemons.log').strip().splitlines()[-1]}")
    before = time.monotonic()
    jobs = {cluster.submit("-J", "long", "-A", "physics", "--gpus=2"): 2, cluster.submit("-J", "held", "-A", "chem", "--uid=daemon", "--gpus=3"): 3}
    cluster.until(lambda: all("batch" in cluster.tasks(job) for job in jobs), "running tasks")
    first = next(iter(jobs))
    cluster.use(cluster.tasks(first)["batch"], cluster.gpus(first)[0])
    shown = lambda: [job for job, *_ in held(cluster).values()]
    cluster.until(lambda: all(shown().count(job) == gpus for job, gpus in jobs.items()), shown)
    seen = time.monotonic()
    cluster.until(lambda: all(account for _, _, account, _ in held(cluster).values()), "Slurm's answers, which say when they began")
    ledger = lambda: {row["owner"]: row["gpu_hours"] * 3600 for row in cluster.verb("cost", "--by", "job", "--journal",
                                                                                     str(cluster.folder / "journal.db"))["owners"]}
    cluster.until(lambda: all(ledger().get(job, 0) > 20 * gpus for job, gpus in jobs.items()), ledger)
    released = time.monotonic()
    cluster.release(*jobs)
    cluster.until(lambda: not any(job in shown() for job in jobs), shown)
    after = time.monotonic()

    def accounted():
        rows = [line.split("|") for line in cluster.run("sacct", "-a", "-X", "-n", "-P", "-o", "JobIDRaw,State,ElapsedRaw,AllocTRES").splitlines()]
        return {row[0]: int(row[2]) * int(row[3].partition("gres/gpu=")[2].partition(",")[0]) for row in rows if row[1] == "COMPLETED" and row[0] in jobs}

    told = cluster.until(lambda: (a := accounted()).keys() == jobs.keys() and a, accounted)
    kept = ledger()
    for job, gpus in jobs.items():
        print(f"job {job}, {gpus} GPUs: sacct {told[job]} GPU-seconds, ledger {kept[job]:.1f}")
        least, most = gpus * (released - seen - 2), gpus * (after - before + 2)
        assert least <= kept[job] <= most and least <= told[job] <= most, (job, least, kept[job], told[job], most)
        report = cluster.verb("jobs", "show", job, "--journal", str(cluster.folder / "journal.db"))
        assert (report["account"], report["name"]) == (("physics", "long") if job == first else ("chem", "held"))
        late = gpus * (1 + after - released)  # the epilog closes the report; a process of the job may be on its GPU for a tick more
        assert len(report["gpus"]) == gpus and -0.1 < kept[job] - report["gpu_hours"] * 3600 < 0.1 + late, (report["gpu_hours"] * 3600, kept[job])
        assert cluster.log(f"report.{job}").startswith(f"stoker: gpus={gpus} "), "the epilog's own line"
        assert abs(kept[job] - told[job]) <= gpus * (after - released + 2)


def test_the_comment_that_jobstats_reads(cluster):
    """What a job used of the node's processors and memory, by the cgroup that Slurm made, and the comment that the epilog of docs/jobs.md
    puts into slurmdbd, of a task of an array too."""
    if not cluster.accounts:
        pytest.skip(f"slurmdbd with MariaDB cannot run here: {cluster.log('daemons.log').strip().splitlines()[-1]}")
    jobs = {"works": cluster.submit("-J", "works", "-A", "physics", "-n2", "--gpus=2")}
    array = cluster.submit("-J", "sweep", "-A", "chem", "--uid=daemon", "--gpus=1", "--array=4-5")
    cluster.until(lambda: len(cluster.run("squeue", "-h", "-t", "R", "-o", "%A", "-j", array).split()) == 2, "a running array")
    tasks = {int(line.split()[1]): line.split()[0] for line in cluster.run("squeue", "-h", "-o", "%A %K", "-j", array).splitlines()}
    jobs |= {"first": tasks[4], "second": tasks[5]}
    cluster.until(lambda: all("batch" in cluster.tasks(job) for job in jobs.values()), "running tasks")
    cluster.use(cluster.tasks(jobs["works"])["batch"], cluster.gpus(jobs["works"])[0])
    report = lambda name: json.loads(cluster.try_run(cluster.stoker, "jobs", "show", jobs[name], "--json", "--control", "/run/stoker.sock")[1] or "{}")
    known = lambda name: None not in report(name).get("host", {None: None}).values()
    cluster.until(lambda: all(map(known, jobs)) and report("works")["host"]["cpu_s"] > 0.2, lambda: [report(name) for name in jobs])
    assert report("works")["host"]["cpus"] == 2 and 0 < report("works")["host"]["memory_peak_bytes"] < 1 << 30
    cluster.release(*jobs.values())

    def comments():
        rows = [line.split("|") for line in cluster.run("sacct", "-a", "-X", "-n", "-P", "-o", "JobIDRaw,AdminComment").splitlines()]
        return {row[0]: row[1] for row in rows if row[0] in jobs.values() and row[1]}

    told = cluster.until(lambda: (c := comments()).keys() == set(jobs.values()) and c, comments)
    mixed = tuple(map(int, cluster.run("sinfo", "-V").split()[1].split(".")[:2])) >= (23, 2)  # sacctmgr was in lower case before
    for name, job in jobs.items():
        made = cluster.run(cluster.stoker, "jobs", "show", job, "--comment", "--control", "/run/stoker.sock").strip()
        comment = json.loads(gzip.decompress(base64.b64decode(made.removeprefix("JS1:"), validate=True)))
        node, host = comment["nodes"][NODE], report(name)["host"]
        print(f"{name}: {len(made)} bytes, {comment}")
        assert (node["used_memory"], node["total_memory"], node["cpus"]) == (host["memory_peak_bytes"], host["memory_limit_bytes"], host["cpus"])
        assert abs(node["total_time"] - host["cpu_s"]) <= 0.05 and comment["gpus"] == len(report(name)["gpus"])
        assert sorted(node["gpu_total_memory"]) == [str(gpu["gpu"]) for gpu in report(name)["gpus"]]
        assert told[job].startswith("JS1:" if mixed else "js1:") and len(told[job]) > 100
    assert len(set(told.values())) == len(jobs), "each task of the array has its own"
