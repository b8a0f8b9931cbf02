#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the small workload beside this file: nodes.csv, pods.csv.gz, order.txt. Made up; the format is openb's."""
import gzip
import pathlib
import random

HERE, RANDOM = pathlib.Path(__file__).resolve().parent, random.Random(20261129)
NODES = [("G2", 8, 96000, 393216)] * 6 + [("T4", 2, 64000, 262144)] * 5 + [("V100M16", 4, 32000, 131072)] * 3 + [("", 0, 64000, 131072)]
PODS = 160


def pod(i):
    kind = RANDOM.choices(("cpu", "shared", "one", "two", "eight"), (13, 38, 43, 3, 3))[0]
    gpus = {"cpu": 0, "shared": 1, "one": 1, "two": 2, "eight": 8}[kind]
    milli = {"cpu": 0, "shared": RANDOM.choice((810, 470, 320, 650, 230, 160))}.get(kind, 1000)
    spec = RANDOM.choice(("T4", "G2|T4", "V100M16")) if gpus and RANDOM.random() < 0.1 else ""
    return f"pod-{i:03},{RANDOM.choice((2000, 4000, 8000, 12000))},{RANDOM.choice((4096, 16384, 32768))},{gpus},{milli},{spec},LS"


def main():
    (HERE / "nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\n" + "".join(f"node-{i:02},{cpu},{memory},{gpus},{model}\n" for i, (model, gpus, cpu, memory) in enumerate(NODES)))
    pods = [pod(i) for i in range(PODS)]
    RANDOM.shuffle(pods)
    text = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos\n" + "\n".join(pods) + "\n"
    (HERE / "pods.csv.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    order = [RANDOM.randrange(PODS) for _ in range(2 * PODS)]
    (HERE / "order.txt").write_text(f"{len(order)} {len(NODES)} 0\n" + "\n".join(map(str, order + RANDOM.sample(range(len(NODES)), len(NODES)))) + "\n")


if __name__ == "__main__":
    main()
