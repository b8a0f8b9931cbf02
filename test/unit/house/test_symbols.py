# SPDX-License-Identifier: Apache-2.0
"""No two functions or variables of the same name: archives are searched in order, so that one would silently stand in
for the other."""
import collections
import subprocess


def defined(archive):
    text = subprocess.run(["nm", "--defined-only", "--extern-only", "--format=posix", archive], capture_output=True, text=True,
                          check=True).stdout
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 2 and words[1] in "TDBRC":
            yield words[0]


def test_names_are_used_once(build):
    where = collections.defaultdict(set)
    ours = build / "src", build / "sim"  # deb/ comes and goes beside this test
    archives = [path for top in ours for path in top.rglob("*.a") if not path.is_relative_to(build / "sim/nvml")]
    assert len(archives) > 20
    for archive in archives:
        for name in defined(archive):
            where[name].add(str(archive.relative_to(build)))
    twice = {name: sorted(places) for name, places in where.items() if len(places) > 1 and not name.startswith("__")}
    assert not twice
