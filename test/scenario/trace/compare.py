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
