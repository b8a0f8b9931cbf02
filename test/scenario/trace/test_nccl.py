# SPDX-License-Identifier: Apache-2.0
"""`stoker nccl` as a person meets it: logs of a whole job, torn lines, topology, nccl-tests, flight recorders of many
ranks, and the exit codes. Sample inputs are made here, line by line as NCCL and PyTorch write them."""
import csv
import gzip
import io
import json
import pickle
import subprocess

import pytest


@pytest.fixture
def run(stoker, tmp_path):
    """run(words..., files={name: text}): (exit code, stdout or parsed JSON). Files are given in the order of the dict."""

    def call(*words, files=None, data=None, env=None):
        paths = []
        for name, content in (files or {}).items():
            path = tmp_path / name
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
            paths.append(str(path))
        done = subprocess.run([stoker, "nccl", *words, *paths], input=data, capture_output=True, timeout=120, check=False,
                              env={"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin", **(env or {})})
        text = done.stdout.decode()
        return done.returncode, json.loads(text) if text and "--json" in words else text or done.stderr.decode()

    return call


def ids(report):
    return [f["id"] for f in report["findings"]]


HOSTS = ["node-a", "node-b"]
CHANNELS = 2


def rank_lines(rank, nranks=8, per_node=4, inter="NET/IB/{nic}/GDRDMA", intra="P2P/CUMEM", env=(), comm="0xfeed"):
    """What one rank of a job writes: two rings in the order of ranks."""
    host, pid, dev = HOSTS[rank // per_node], 1000 + rank, rank % per_node
    head = f"{host}:{pid}:{pid + 50} [{dev}] NCCL INFO "
    who = f"comm 0x55{rank:04x} rank {rank} nranks {nranks} cudaDev {dev} nvmlDev {dev} busId {dev + 1}a000 commId {comm}"
    out = ["Bootstrap : Using eth0:10.0.0.1<0>", "NCCL version 2.21.5+cuda12.4", *env,
           "NET/IB : Using " + " ".join(f"[{i}]mlx5_{i}:1/IB" for i in range(4)) + " [RO]; OOB eth0:10.0.0.1<0>",
           "Using network IB" if "IB" in inter else "Using network Socket", f"ncclCommInitRank {who} - Init START",
           f"comm 0x55{rank:04x} rank {rank} nRanks {nranks} nNodes {nranks // per_node} localRanks {per_node} "
           f"localRank {dev} MNNVL 0"]
    if rank == 0:
        out += [f"Channel {c:02d}/{CHANNELS:02d} : " + " ".join(map(str, range(nranks))) for c in range(CHANNELS)]
    out.append("Trees [0] 1/-1/-1->0->-1 [1] 1/-1/-1->0->-1")
    for c in range(CHANNELS):
        to, source = (rank + 1) % nranks, (rank - 1) % nranks
        if source // per_node != rank // per_node:
            out.append(f"Channel {c:02d}/0 : {source}[{source % per_node}] -> {rank}[{dev}] [receive] via "
                       + inter.format(nic=dev))
        if to // per_node == rank // per_node:
            out.append(f"Channel {c:02d}/0 : {rank}[{dev}] -> {to}[{to % per_node}] via {intra}")
        else:
            out.append(f"Channel {c:02d}/0 : {rank}[{dev}] -> {to}[{to % per_node}] [send] via " + inter.format(nic=dev))
    out += [f"{CHANNELS} coll channels, 0 collnet channels, 0 nvls channels, 4 p2p channels, 2 p2p channels per peer",
            f"ncclCommInitRank {who} - Init COMPLETE",
            f"Init timings - ncclCommInitRank: rank {rank} nranks {nranks} total 1.08 (kernels 0.51, alloc 0.10, bootstrap 0.22, "
            "allgathers 0.01, topo 0.28, graphs 0.04, connections 0.02, rest 0.01)"]
    return [head + line for line in out]


def job(**how):
    return [rank_lines(rank, **how) for rank in range(8)]


def interleaved(ranks):
    """One log of all ranks, a line of each in turn."""
    lines = []
    for i in range(max(map(len, ranks))):
        lines += [rank[i] for rank in ranks if i < len(rank)]
    return "\n".join(lines) + "\n"


def ways(report):
    return {(w["scope"], w["transport"], w["gpudirect"]): w["pairs"] for w in report["ways"]}


# The rings 0..7: six pairs within the nodes (0-1 1-2 2-3 4-5 5-6 6-7), two between (3-4, 7-0).
HEALTHY = {("within-node", "P2P/CUMEM", False): 6, ("between-nodes", "NET/IB", True): 2}


def test_a_healthy_job_in_files_of_its_ranks(run):
    # Two rings use two adapters of four on each side: there is no channel for the other two.
    code, report = run("--json", files={f"rank{i}.log": "\n".join(lines) for i, lines in enumerate(job())})
    assert ids(report) == [] and code == 0
    assert ways(report) == HEALTHY
    world, = [c for c in report["communicators"] if c["world"]]
    assert (world["ranks"], world["nodes"], world["seen"], world["complete"]) == (8, 2, 8, 8)
    assert (world["ring_channels"], world["tree_channels"]) == (2, 2)
    assert world["rings"][0]["order"] == "0 1 2 3 4 5 6 7"
    assert {r["rank"]: (r["host"], r["cuda_device"], r["coll_channels"]) for r in report["ranks"]} == {
        i: (HOSTS[i // 4], i % 4, 2) for i in range(8)}
    assert report["ranks"][0]["init_part"] == "kernels" and report["ranks"][0]["init_s"] == 1.08


PREFIXES = ["", "[1,3]<stdout>:", "[0]: ", "rank3: ", "2026-01-05T08:00:00.123456Z ", "train-worker-0 | ",
            "[2026-01-05 08:00:00] ", "\033[32m[default3]:\033[0m", "3: ", " 3: ", "node-a: ", "[rank3]: ", "[pod/train-0/main] ",
            "[prterun-node-a-99@1,3]<stdout>: ", "2026-01-05T08:00:00.123456789Z stdout F ", "Jan 05 08:00:00 node-a train[1234]: ",
            "\033]0;title\a\033[?25l", "  5%|#   | 3/60 [00:01<00:10]\r", "\033[36m(RayTrainWorker pid=1234, ip=10.0.0.3)\033[0m "]


@pytest.mark.parametrize("prefix", PREFIXES)
def test_what_launchers_put_before_a_line_makes_no_difference(run, prefix):
    text = "".join(prefix + line + "\n" for line in interleaved(job()).splitlines())
    _, report = run("--json", files={"job.log": text})
    assert ways(report) == HEALTHY and [c["complete"] for c in report["communicators"]] == [8]


@pytest.mark.parametrize("suffix", ["\r", "\033[0m\033[K", " [repeated 3x across cluster]"])
def test_nor_does_what_is_behind_it(run, suffix):
    _, report = run("--json", files={"job.log": "".join(line + suffix + "\n" for line in interleaved(job()).splitlines())})
    assert ways(report) == HEALTHY and {p["network"] for p in report["processes"]} == {"IB"}
    assert [c["complete"] for c in report["communicators"]] == [8] and ids(report) == []


@pytest.mark.parametrize("keys", [{"log": None, "stream": "stdout", "time": "2026"}, {"stream": "stdout", "time": "2026", "log": None},
                                  {"__CURSOR": "s=1", "MESSAGE": None, "_PID": "9"}, {"level": "info", "message": None}])
@pytest.mark.parametrize("tight", [True, False])
def test_lines_of_a_container_engine(run, keys, tight):
    """As Docker, the journal and collectors of logs write them; some write < and > as numbers."""
    lines = [json.dumps({k: f"\033[32m{line}\033[0m\n" if v is None else v for k, v in keys.items()},
                        separators=(",", ":") if tight else None).replace(">", "\\u003e").replace("<", "\\u003c")
             for line in interleaved(job()).splitlines()]
    _, report = run("--json", files={"job.log": "\n".join(lines) + "\n"})
    assert ways(report) == HEALTHY and [c["complete"] for c in report["communicators"]] == [8]


def test_a_log_given_twice_is_one_job(run):
    text = interleaved(job())
    _, report = run("--json", files={"a.log": text, "b.log": text})
    assert [(c["seen"], c["complete"]) for c in report["communicators"]] == [(8, 8)] and ways(report) == HEALTHY
    finding, = report["findings"]
    assert (finding["id"], finding["severity"], finding["count"]) == ("log-twice", "note", 16)
    assert finding["detail"].endswith("b.log") and "a.log" in finding["evidence"][0]["text"]


def test_a_job_that_was_started_again(run):
    again = [[line.replace(":10", ":20").replace("0xfeed", "0xbeef") for line in lines] for lines in job()]
    _, report = run("--json", files={"1.log": interleaved(job()), "2.log": interleaved(again)})
    assert ids(report) == ["two-runs"] and [c["complete"] for c in report["communicators"]] == [8, 8]


NODE = """<system version="1"><cpu numaid="0" arch="x86_64" vendor="GenuineIntel">{}</cpu></system>"""
BOX = """<pci busid="0000:{n}0:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
<pci busid="0000:{n}a:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16"><gpu dev="{dev}" sm="90" rank="{dev}" gdr="1">
<nvlink target="fffffff:ffff:ff" count="18" tclass="0x068000"/></gpu></pci>
<pci busid="0000:{n}b:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16"><nic>
<net name="mlx5_{dev}" dev="{dev}" speed="400000" port="1" guid="0x1" maxconn="1" gdr="1"/></nic></pci></pci>
"""


def node_topology(gpus=4):
    return NODE.format("".join(BOX.format(n=dev + 1, dev=dev) for dev in range(gpus)))


def test_a_log_and_the_topology_of_its_node(run):
    log = interleaved(job())
    _, report = run("--json", files={"job.log": log, "topo.xml": node_topology()})
    assert ids(report) == []
    _, report = run("--json", files={"job.log": log, "topo.xml": node_topology(3)})
    assert ids(report) == ["topo-gpu-missing", "topo-nic-missing"]
    assert "GPU 4a000" in report["findings"][0]["evidence"][0]["text"]
    assert report["findings"][1]["evidence"][0]["text"].startswith("mlx5_3 is not")
    _, report = run("--json", files={"job.log": log, "topo.xml": node_topology().replace("a:00.0", "c:00.0")})
    assert ids(report) == ["topo-other-machine"]


def test_verbose_text_fits_the_screen(run):
    env = ["NCCL_IB_HCA set by environment to " + ",".join(f"mlx5_{i}:1" for i in range(40))]
    graph = "node-a:1000:1050 [0] NCCL INFO Pattern 4, crossNic 0, nChannels 16, bw 20.0/20.0, type NVL/PIX, sameChannels 1\n"
    files = {"a-name-of-a-file-that-is-longer-than-the-screen-is-wide-by-some-columns.log": interleaved(job(env=env)) + graph,
             "topo.xml": node_topology(), "8.txt": table(8, {1048576: 40}), "16.txt": table(16, {1048576: 20}),
             **{f"trace_{r}.json": json.dumps(d) for r, d in stuck(behind=(5,)).items()}}
    for width in (60, 80, 100):
        _, text = run("-v", "--width", str(width), files=files)
        assert "mlx5_39:1" in text.replace("\n", "").replace(" ", "") and "group 0" in text
        assert [line for line in text.splitlines() if len(line) > width] == []


def test_lines_within_lines(run):
    """Two processes in one file: each message is cut by another's prefix; no transport is made up from a front."""
    ranks = job()
    whole = interleaved(ranks)
    glued = []
    lines = whole.splitlines()
    for i in range(0, len(lines) - 1, 2):
        glued.append(lines[i] + lines[i + 1])  # no line end between
    _, report = run("--json", files={"job.log": "\n".join(glued)})
    assert set(ways(report)) <= set(HEALTHY) | {("within-node", "P2P/CUMEM", False)}
    cut = lines + [lines[40][: len(lines[40]) - 9] + lines[41]]
    _, report = run("--json", files={"job2.log": "\n".join(cut)})
    assert ways(report) == HEALTHY


def test_gdrdma_lost_in_a_torn_line_is_no_finding(run):
    lines = interleaved(job()).splitlines()
    i = next(i for i, line in enumerate(lines) if "GDRDMA" in line)
    lines[i] = lines[i].replace("/GDRDMA", "") + lines[i + 1]
    del lines[i + 1]
    _, report = run("--json", files={"job.log": "\n".join(lines)})
    assert not [i for i in ids(report) if i.startswith("gdr")]


def test_sockets_because_ib_is_disabled(run):
    env = ["NCCL_IB_DISABLE set by environment to 1."]
    code, text = run("--width", "100", files={"job.log": interleaved(job(inter="NET/Socket/0", env=env))})
    assert code == 1 and "ib-disabled" in text and "unset NCCL_IB_DISABLE" in text and "job.log:" in text
    assert max(map(len, text.splitlines())) <= 100
    assert "   3  . . . \\ T . . ." in text  # rank 3 of the matrix: TCP to rank 4


def test_a_variable_that_one_node_lacks(run):
    ranks = [rank_lines(r, env=["NCCL_IB_HCA set by environment to mlx5"] if r < 4 else []) for r in range(8)]
    _, report = run("--json", files={"job.log": interleaved(ranks)})
    finding = next(f for f in report["findings"] if f["id"] == "env-missing")
    assert "node-b" in finding["evidence"][0]["text"]


def test_subcommunicators_do_not_mix(run):
    """Pairs of ranks split off later count their own ranks; their connections are theirs."""
    ranks = job()
    for r in (0, 1):
        pid = 1000 + r
        head = f"node-a:{pid}:{pid + 99} [{r}] NCCL INFO "
        who = f"comm 0x77{r:04x} rank {r} nranks 2 cudaDev {r} nvmlDev {r} busId {r + 1}a000 parent 0x55{r:04x} commId 0xbeef"
        ranks[r] += [head + f"ncclCommSplit {who} - Init START", head + f"Channel 00/0 : {r}[{r}] -> {1 - r}[{1 - r}] via SHM/direct/direct",
                     head + f"ncclCommSplit {who} - Init COMPLETE"]
    _, report = run("--json", files={"job.log": interleaved(ranks)})
    assert {c["id"]: c["ranks"] for c in report["communicators"]} == {"0xfeed": 8, "0xbeef": 2}
    shm = [c for c in report["connections"] if c["transport"] == "SHM"]
    assert len(shm) == 2 and {c["communicator"] for c in shm} == {"0xbeef"}
    assert ways(report)["within-node", "P2P/CUMEM", False] == 6


def test_versions_without_comm_id(run):
    lines = []
    for rank in (0, 1):
        head = f"n:{10 + rank}:{10 + rank} [{rank}] NCCL INFO "
        lines += [head + f"Channel 00 : {rank}[{rank + 1}a000] -> {1 - rank}[{2 - rank}a000] via P2P/IPC",
                  head + f"comm 0x{rank + 1}00 rank {rank} nranks 2 cudaDev {rank} busId {rank + 1}a000 - Init COMPLETE"]
    _, report = run("--json", files={"old.log": "\n".join(lines)})
    assert ways(report) == {("within-node", "P2P/IPC", False): 2}
    assert [(c["ranks"], c["complete"]) for c in report["communicators"]] == [(2, 2)]


TABLE = """# nThread 1 nGpus 1 minBytes 8 maxBytes 1073741824 step: 2(factor) warmup iters: 5 iters: 20
#{ranks}
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
{rows}
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 100.5
#
# Collective test concluded: all_reduce_perf
"""


def table(ranks, buses, per_node=8):
    who = "\n".join(f"#  Rank {r:2d} Group  0 Pid {100 + r} on node{r // per_node} device {r % per_node:2d} [0x18] NVIDIA H100"
                    for r in range(ranks))
    rows = "\n".join(f"{size:12d} {size // 4:12d}     float     sum      -1    10.00  {bus / 2:6.2f}  {bus:6.2f}      0    10.00  "
                     f"{bus / 2:6.2f}  {bus:6.2f}    N/A" for size, bus in buses.items())
    return TABLE.format(ranks=who[1:], rows=rows)


def test_nccl_tests_against_each_other(run):
    files = {"8.txt": table(8, {1048576: 40, 16777216: 200, 1073741824: 400}),
             "16.txt": table(16, {1048576: 20, 16777216: 100, 1073741824: 180}),
             "32.txt": table(32, {1048576: 20, 16777216: 100, 1073741824: 170})}
    code, report = run("--json", files=files)
    assert code == 1 and ids(report) == ["bench-scaling"]  # 45 % from one node to two; 94 % from there
    assert [(t["ranks"], t["nodes"], t["peak_busbw_gbs"], t["half_peak_size"]) for t in report["tests"]] == [
        (8, 1, 400, 16777216), (16, 2, 180, 16777216), (32, 4, 170, 16777216)]
    assert [(s["from_ranks"], s["to_ranks"], round(s["efficiency"], 3)) for s in report["scaling"]] == [
        (8, 16, 0.45), (16, 32, 0.944)]
    assert [(s["from_file"][-5:], s["to_file"][-6:]) for s in report["scaling"]] == [("8.txt", "16.txt"), ("6.txt", "32.txt")]
    _, text = run("--csv", files=files)
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == 18 and rows[0]["test"] == "all_reduce_perf" and rows[0]["busbw_gbs"] == "40"
    assert rows[0]["place"] == "out-of-place" and rows[0]["wrong"] == "0" and rows[1]["wrong"] == ""


def test_old_and_per_iteration_tables(run):
    old = ("# nThread 1 nGpus 2 minBytes 8 maxBytes 8 step: 2(factor)\n#   Rank  0 Pid  9 on n device  0 [0x18] V100\n"
           "#       size         count    type    time   algbw   busbw  error     time   algbw   busbw  error\n"
           "           8             2   float   20.10    1.00    2.00  0e+00    20.00    1.00    3.00  0e+00\n"
           "# Avg bus bandwidth    : 2.5\n")
    new = ("#  Collective test starting: all_gather_perf\n"
           "# size count type redop root time algbw busbw #wrong i_min i_max i_p99 i_cv% time algbw busbw #wrong i_min i_max i_p99 i_cv%\n"
           "8 2 float none -1 1.0 1.0 4.0 0 1 1 1 1 1.0 1.0 5.0 0 1 1 1 1\n# Avg bus bandwidth    : 4.5\n")
    _, report = run("--json", files={"all_gather.txt": old, "b.txt": new})
    assert [(t["name"], t["rows"][0]["out_of_place"]["busbw_gbs"], t["rows"][0]["in_place"]["busbw_gbs"]) for t in report["tests"]] == [
        ("all_gather_perf", 2, 3), ("all_gather_perf", 4, 5)]


@pytest.mark.parametrize("prefix", [*PREFIXES, "        [1,0]<stdout>:"])
def test_launchers_before_a_table(run, prefix):
    text = "".join(prefix + line + "\n" for line in table(2, {8: 1, 1048576: 40}).splitlines())
    code, report = run("--json", files={"x.txt": text})
    test, = report["tests"]
    assert (code, test["name"], test["ranks"], test["average_busbw_gbs"], test["concluded"]) == (0, "all_reduce_perf", 2, 100.5, True)
    assert [(r["size"], r["count"], r["in_place"]["busbw_gbs"]) for r in test["rows"]] == [(8, 2, 1), (1048576, 262144, 40)]


def test_json_of_nccl_tests(run):
    result = {"version": 2, "args": ["./build/all_reduce_perf", "-J"], "env": [], "nccl_version": 22105,
              "config": {"nthreads": 1, "ngpus": 4, "devices": [{"rank": 0, "hostname": "a"}, {"rank": 4, "hostname": "b"}]},
              "results": [{"size": 1024, "count": 256, "type": "float", "redop": "sum", "root": "    -1",
                           "out_of_place": {"time": 9.5, "alg_bw": 1.5, "bus_bw": 2.5, "nwrong": 0},
                           "in_place": {"time": 9.5, "alg_bw": 1.5, "bus_bw": 3.5, "nwrong": None}}],
              "out_of_bounds": {"count": 0, "okay": "true"}, "average_bus_bandwidth": {"bandwidth": 3.0, "okay": "unchecked"}}
    code, report = run("--json", files={"x.json": json.dumps(result)})
    assert code == 0 and report["result"] == "fine"
    test, = report["tests"]
    assert (test["ranks"], test["nodes"], test["average_busbw_gbs"], test["peak_busbw_gbs"]) == (8, 2, 3, 3.5)


def call(record, seq, op, state, group=("0", "default_pg"), size=1024, **more):
    return {"record_id": record, "pg_id": 0, "process_group": group, "collective_seq_id": seq, "p2p_seq_id": 0, "op_id": seq,
            "profiling_name": f"nccl:{op}", "input_sizes": ((size,),), "input_dtypes": ["Float"], "output_sizes": ((size,),),
            "output_dtypes": ["Float"], "time_created_ns": 1700000000000000000 + record, "duration_ms": None,
            "time_discovered_started_ns": None, "time_discovered_completed_ns": None, "timeout_ms": 600000, "state": state,
            "retired": state == "completed", "is_p2p": False,
            "frames": [{"name": "step", "filename": "/train.py", "line": 88}], **more}


def dump(calls, ranks=range(8), **groups):
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(ranks))}, **groups}
    return {"version": "2.9", "nccl_version": "2.21.5", "pg_config": config, "pg_status": {}, "entries": calls}


def stuck(behind=(), size=()):
    """Number 3 is an all-reduce that ranks in `behind` never called."""
    done = [call(i, i, "all_reduce", "completed") for i in (1, 2)]
    return {r: dump(done + ([] if r in behind else [call(3, 3, "all_reduce", "started", size=2048 if r in size else 1024)]))
            for r in range(8)}


@pytest.mark.parametrize("form", ["json", "pickle", "newer pickle"])
def test_flight_recorder_names_the_rank_that_is_behind(run, form):
    write = {"json": lambda d: json.dumps(d).encode(), "pickle": lambda d: pickle.dumps(d, protocol=2),
             "newer pickle": lambda d: pickle.dumps(d, protocol=4)}[form]
    code, report = run("--json", files={f"nccl_trace_rank_{r}": write(d) for r, d in stuck(behind=(5,)).items()})
    assert code == 1 and ids(report) == ["flight-behind"]
    group, = report["flight_recorder"]["groups"]
    assert (group["sequence"], group["operation"], group["behind"], group["started"], group["last_completed"]) == (
        3, "all_reduce", "5", "0-4 6 7", 2)
    assert "last call was all_reduce" in report["findings"][0]["evidence"][0]["text"]
    assert "/train.py:88 step" in report["findings"][0]["evidence"][0]["text"]


def test_flight_recorder_sizes_and_hang(run):
    _, report = run("--json", files={f"trace_{r}.json": json.dumps(d) for r, d in stuck(size=(2,)).items()})
    assert ids(report) == ["flight-size-mismatch"]
    _, report = run("--json", files={f"trace_{r}.json": json.dumps(d) for r, d in stuck().items()})
    assert ids(report) == ["flight-hung"]


def test_a_group_that_waits_for_another_is_the_consequence(run):
    tp = {"1": {"name": "1", "desc": "tp", "ranks": "[1, 2]"}}
    dumps = {0: dump([call(0, 1, "all_reduce", "started")], range(3)),
             1: dump([call(0, 1, "broadcast", "started", ("1", "tp"))], range(3), **tp),  # stands in tp, where 2 is missing
             2: dump([], range(3), **tp)}
    _, report = run("--json", files={f"trace_{r}.json": json.dumps(d) for r, d in dumps.items()})
    groups = {g["name"]: g for g in report["flight_recorder"]["groups"]}
    assert (groups["0"]["behind"], groups["0"]["waits_for"]) == ("1 2", "1")
    assert (groups["1"]["behind"], groups["1"]["waits_for"]) == ("2", None)
    assert [(f["id"], f["severity"], "process group 1" in f["detail"]) for f in report["findings"]] == [
        ("flight-behind", "error", True), ("flight-behind", "note", False)]


def test_groups_that_wait_for_each_other_are_both_errors(run):
    tp = {"1": {"name": "1", "desc": "tp", "ranks": "[0, 1]"}}
    dumps = {0: dump([call(0, 1, "all_reduce", "started")], range(2), **tp),
             1: dump([call(0, 1, "broadcast", "started", ("1", "tp"))], range(2), **tp)}
    _, report = run("--json", files={f"trace_{r}.json": json.dumps(d) for r, d in dumps.items()})
    assert {g["name"]: (g["behind"], g["waits_for"]) for g in report["flight_recorder"]["groups"]} == {
        "0": ("1", "1"), "1": ("0", "0")}
    assert [f["severity"] for f in report["findings"]] == ["error", "error"]


class Evil:
    def __reduce__(self):
        import os
        return os.system, ("touch /tmp/stoker-nccl-was-here",)


def test_a_pickle_that_wants_to_run_something_is_refused(run):
    code, report = run("--json", files={"trace_rank_0": pickle.dumps(Evil(), protocol=2)})
    assert code == 3 and "refused" in report["inputs"][0]["trouble"]


def test_gzip_stdin_folders_and_damage(run, tmp_path):
    text = interleaved(job())
    folder = tmp_path / "logs"
    folder.mkdir()
    for rank, lines in enumerate(job()):
        (folder / f"rank{rank}.log.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    _, report = run("--json", str(folder))
    assert ways(report) == HEALTHY and len(report["inputs"]) == 8
    _, report = run("--json", "-", data=gzip.compress(text.encode()))
    assert ways(report) == HEALTHY and report["inputs"][0]["file"] == "stdin"
    packed = gzip.compress(text.encode())
    for end in (-20, len(packed) // 2, len(packed) // 3):  # what is behind the cut is not missing from the job
        code, report = run("--json", files={"cut.gz": packed[:end]})
        assert ids(report) == ["input-trouble"] and report["processes"] and code == 1


def test_exit_codes(run):
    assert run()[0] == 2
    assert run("--json", "--csv", "x")[0] == 2
    assert run("/no/such/file")[0] == 3
    code, text = run(files={"poem.txt": "no word of it\n"})
    assert code == 3 and "no NCCL data" in text
    healthy = [rank_lines(r, nranks=4, per_node=4) for r in range(4)]
    code, text = run(files={"one-node.log": interleaved(healthy)})
    assert code == 0 and "No problem found" in text and "\033" not in text
    assert "\033[" in run("--colour", "always", files={"one-node.log": interleaved(healthy)})[1]


def test_long_logs_repeat_in_bounded_memory(run):
    """A warning a hundred thousand times is one finding with a count."""
    line = "node-a:1:2 [0] transport/net_ib.cc:99 NCCL WARN NET/IB : Got completion from peer 10.0.0.2<{}> with status=12 opcode=1 len=0\n"
    code, report = run("--json", files={"big.log": "".join(line.format(40000 + i) for i in range(100000))})
    assert code == 1 and ids(report) == ["ib-retry-exceeded"]
    assert report["findings"][0]["count"] == 100000 and len(report["findings"][0]["evidence"]) == 4


TOPOLOGY = """<system version="1">
  <cpu numaid="0" arch="x86_64" vendor="GenuineIntel">
    <pci busid="0000:05:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:06:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
        <pci busid="0000:07:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
          <gpu dev="0" sm="90" rank="0" gdr="1"><nvlink target="fffffff:ffff:ff" count="18" tclass="0x068000"/></gpu>
        </pci>
      </pci>
      <pci busid="0000:08:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16">
        <nic><net name="mlx5_0" dev="0" speed="400000" gdr="1"/></nic>
      </pci>
    </pci>
  </cpu>
</system>
"""


def test_topology_as_a_tree(run):
    code, text = run(files={"topo.xml": TOPOLOGY}, env={"LC_ALL": "C"})
    assert code == 0
    assert text.split("NUMA nodes\n")[1] == (
        "  `- CPU, NUMA node 0  x86_64 GenuineIntel\n"
        "     `- switch 0000:05:00.0  PCIe 32 GT/s x16\n"
        "        |- GPU 0 rank 0  0000:07:00.0  PCIe 32 GT/s x16, 18 NVLinks to NVSwitch\n"
        "        `- NIC mlx5_0  400 Gb/s  GPUDirect  0000:08:00.0  PCIe 32 GT/s x16\n")
    assert "├─ GPU 0" in run(files={"topo.xml": TOPOLOGY})[1]


def test_xml_that_defines_entities_is_refused(run):
    bomb = '<!--x--><!DOCTYPE system [<!ENTITY a "aaaaaaaaaa">]><system version="&a;"/>'
    _, report = run("--json", files={"bomb.xml": bomb})
    assert "document type" in report["inputs"][0]["trouble"] and report["topologies"] == []


def test_logs_of_a_folder_are_shown_by_host(run, tmp_path):
    """A line for each host whose network differs; of many the first."""
    for host in range(12):
        (tmp_path / f"{host}.log").write_text(
            "".join(f"node{host}:{pid}:{pid} [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.{max(host, 1)}<0>\n" for pid in (7, 8)))
    said = run("--width", "100", str(tmp_path))[1].split("Network\n")[1]
    assert [f"node{host}: network -; bootstrap over -; sockets [0]eth0:10.0.0.{max(host, 1)}<0>" in said for host in range(12)] == \
        [host == 0 or 1 < host < 9 for host in range(12)]
    assert "and 3 more (--verbose)" in said
    assert run("-v", "--width", "100", str(tmp_path))[1].count(": network -;") == 24
