#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What `stoker run` adds to a command: the time until the command began and until all ended, beside the bare command and a shell
around it in the same rounds; and the processor time of all, the sampler's included.

usage: command.py BUILD [--rounds 41]

Nothing here passes or fails."""
import argparse
import resource
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

BEGAN = "import time, sys; open(sys.argv[1], 'w').write(str(time.monotonic_ns()))"  # CLOCK_MONOTONIC is one for all processes


def timed(words, mark):
    """Seconds until the command ran, until all ended, and of the processor, children included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic_ns()
    subprocess.run([*words, "/usr/bin/python3", "-S", "-c", BEGAN, mark], check=True, stderr=subprocess.DEVNULL)
    end = time.monotonic_ns()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return (int(Path(mark).read_text()) - start) / 1e9, (end - start) / 1e9, cpu


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=Path)
    parser.add_argument("--rounds", type=int, default=41)
    options = parser.parse_args()
    stoker = options.build.resolve() / "stoker"
    ways = {"bare": [], "a shell around it": ["sh", "-c", '"$@"; exit', "sh"], "stoker run": [stoker, "run", "--"]}
    seen = {way: [] for way in ways}
    with tempfile.TemporaryDirectory() as folder:
        mark = f"{folder}/mark"
        for _ in range(options.rounds):
            for way, words in ways.items():
                seen[way].append(timed(words, mark))
    print(f"{'':20}{'began':>22}{'ended':>22}{'processor':>22}")
    for way, rounds in seen.items():
        cells = []
        for i in range(3):
            ratio = statistics.median(one[i] / bare[i] for one, bare in zip(rounds, seen["bare"]))
            cells.append(f"{1000 * statistics.median(one[i] for one in rounds):9.2f} ms {ratio:6.2f} x")
        print(f"{way:20}" + "".join(f"{cell:>22}" for cell in cells))


if __name__ == "__main__":
    main()
