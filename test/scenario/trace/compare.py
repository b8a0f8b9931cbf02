# SPDX-License-Identifier: Apache-2.0
"""What the program says of a file, put beside what the oracle says: a list of differences in words, empty where none."""
import json
import math
import subprocess

import oracle


def report(stoker, *words):
    """The JSON of `stoker trace WORDS`; 1 is a finding, not a failure."""
    done = subprocess.run([stoker, "trace", "--json", *map(str, words)], capture_output=True, timeout=300)
    assert done.returncode in (0, 1), done.stderr.decode()
    return json.loads(done.stdout)


def close(a, b):
    if a is None or b is None or isinstance(a, (str, bool)) or isinstance(b, (str, bool)):
        return a == b
    return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)


def walk(where, ours, theirs, out):
    """Everything that the oracle knows must be there and be the same."""
    if isinstance(theirs, dict):
        for key, value in theirs.items():
            walk(f"{where}.{key}", ours.get(key, "missing") if isinstance(ours, dict) else "missing", value, out)
    elif isinstance(theirs, (list, tuple)):
        if not isinstance(ours, (list, tuple)) or len(ours) != len(theirs):
            out.append(f"{where}: {ours} and not {theirs}")
            return
        for index, value in enumerate(theirs):
            walk(f"{where}[{index}]", ours[index], value, out)
    elif not close(ours, theirs):
        out.append(f"{where}: {ours} and not {theirs}")


def own_differences(rank, path):
    """`rank`: one element of the report's ranks."""
    expected, out = oracle.own(path), []
    kernels = {row["name"]: row for row in rank["kernels"]}
    operators = {row["name"]: row for row in rank["operators"]}
    copies = {}
    for row in rank["copies"]:
        one = copies.setdefault(row["kind"], {"count": 0, "bytes": 0, "total_ns": 0})
        for key in one:
            one[key] += row[key]
    walk("devices", rank["devices"], expected["devices"], out)
    walk("kernels", kernels, expected["kernels"], out)
    walk("copies", copies, expected["copies"], out)
    walk("steps", rank["steps"], expected["steps"], out)
    walk("launch", rank["launch"], expected["launch"], out)
    walk("operators", operators, expected["operators"], out)
    for word, ours, theirs in (("kernels", kernels, expected["kernels"]), ("copies", copies, expected["copies"]),
                               ("operators", operators, expected["operators"])):
        out += [f"{word}: {name} is too much" for name in ours.keys() - theirs.keys()]
    return out


def hta_differences(told, expected):
    """`told`: the report of --as hta; `expected`: of oracle.hta."""
    out = []
    for ours, theirs in zip(told["ranks"], expected["ranks"]):
        for bandwidth in ours["memory_bandwidth"]:
            bandwidth["series"] = [(point["ts_ns"], point["memory_bw_gbps"]) for point in bandwidth["series"]]
        walk("rank %d" % ours["rank"], ours, theirs, out)
    if len(told["ranks"]) != len(expected["ranks"]):
        out.append("the number of ranks")
    types = {row["kernel_type"]: {"sum_ns": row["sum_ns"], "percentage": row["percentage"]} for row in told["kernel_types"]}
    walk("types", types, expected["kernel_types"], out)
    if types.keys() != expected["kernel_types"].keys():
        out.append(f"types: {sorted(types)}")
    order = [(row["sum_ns"]) for row in told["kernel_types"]]
    if order != sorted(order, reverse=True):
        out.append("types are not by their sums")
    key = lambda row: (row["rank"], row["kernel_type"], row["name"])  # noqa: E731
    walk("kernels", sorted(told["kernels"], key=key), sorted(expected["kernels"], key=key), out)
    stragglers = told["potential_stragglers"]
    if expected["potential_stragglers"] is None:
        if stragglers["error"] is None or stragglers["ranks"]:
            out.append(f"stragglers: {stragglers} where HTA stops")
    else:
        named, counts = expected["potential_stragglers"]
        walk("stragglers", stragglers["ranks"], named, out)
        walk("straggler counts", {row["rank"]: row["count"] for row in stragglers["counts"]}, counts, out)
    return out
