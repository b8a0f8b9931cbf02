# SPDX-License-Identifier: Apache-2.0
"""Small profiles, written as PyTorch's profiler writes them, and what `stoker trace` says of them. Times are in
nanoseconds throughout."""
import gzip
import json
import math
import random
import re
import subprocess

# What of a report speaks of the file and not of what was done in the time.
OF_THE_FILE = {"file", "bytes", "events", "ignored", "lost", "lost_by_reason", "losses", "seconds", "memory_bytes", "windows",
               "notes", "approximate"}


def us(ns):
    """Nanoseconds as the profiler prints them."""
    return f"{'-' if ns < 0 else ''}{abs(ns) // 1000}.{abs(ns) % 1000:03d}"


class Number(str):
    """A number that stands in the file as it is written here."""

    def __new__(cls, text):
        return super().__new__(cls, f"#{text}#")

    @property
    def ns(self):
        return round(float(self.strip("#")) * 1000)


def plain_numbers(text):
    return re.sub(r'"#([-.0-9]+)#"', r"\1", text)


class Profile:
    """A list of events, in the order of the calls."""

    def __init__(self, rank=None, base=None):
        self.head = {"schemaVersion": 1, "record_shapes": 1, "with_stack": 1, "profile_memory": 1}
        if rank is not None:
            self.head["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": 8}
        self.tail = {"traceName": "small.json"}
        if base is not None:
            self.tail["baseTimeNanoseconds"] = base
        self.events = []

    def add(self, **event):
        self.events.append(event)
        return self

    def complete(self, category, name, start, duration, pid, tid, **args):
        return self.add(ph="X", cat=category, name=name, pid=pid, tid=tid, ts=Number(us(start)), dur=Number(us(duration)),
                        args={key.replace("_", " "): value for key, value in args.items()})

    def op(self, name, start, duration, tid=1, **args):
        return self.complete("cpu_op", name, start, duration, 100, tid, **args)

    def step(self, number, start, duration):
        return self.complete("user_annotation", f"ProfilerStep#{number}", start, duration, 100, 1)

    def python(self, name, start, duration):
        return self.complete("python_function", name, start, duration, 100, 1)

    def call(self, name, start, duration, correlation, tid=1):
        return self.complete("cuda_runtime", name, start, duration, 100, tid, correlation=correlation)

    def kernel(self, name, start, duration, correlation, stream=7, device=0):
        self.complete("kernel", name, start, duration, device, stream, device=device, stream=stream, correlation=correlation,
                      grid=[8, 1, 1], block=[128, 1, 1])
        return self

    def launched(self, name, at, start, duration, correlation, stream=7, device=0, tid=1):
        """A launch at `at` and its kernel, and the arrow between them."""
        self.call("cudaLaunchKernel", at, 4000, correlation, tid)
        self.add(ph="s", id=correlation, pid=100, tid=tid, ts=Number(us(at)), cat="ac2g", name="ac2g")
        self.kernel(name, start, duration, correlation, stream, device)
        return self.add(ph="f", id=correlation, pid=device, tid=stream, ts=Number(us(start)), cat="ac2g", name="ac2g", bp="e")

    def copy(self, name, at, start, duration, correlation, size, stream=7):
        self.call("cudaMemcpyAsync", at, 5000, correlation)
        return self.complete("gpu_memcpy", name, start, duration, 0, stream, device=0, stream=stream, correlation=correlation,
                             bytes=size)

    def memory(self, at, size, total):
        return self.add(ph="i", cat="cpu_instant_event", s="t", name="[memory]", pid=100, tid=1, ts=Number(us(at)),
                        args={"Device Type": 1, "Device Id": 0, "Addr": at, "Bytes": size, "Total Allocated": total,
                              "Total Reserved": 1 << 30})

    def dump(self, indent=None):
        return plain_numbers(json.dumps({**self.head, "traceEvents": self.events, **self.tail}, indent=indent))

    def write(self, path):
        text = self.dump().encode()
        path.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)
        return path


def busy_profile(seed, steps=4, rank=None):
    """A training loop in small: nested operators, launches that run later than they are made (some a long time later),
    two streams that overlap, copies, synchronisations, memory."""
    dice = random.Random(seed)
    profile = Profile(rank=rank, base=1_700_000_000_000_000_000)
    host, gpu, side, correlation, held = 5_000_000, 0, 0, 10, 1 << 20
    for number in range(steps):
        start = host
        for _ in range(dice.randint(6, 14)):
            outer, inner = host, host + dice.randint(500, 3000)
            at = inner + dice.randint(200, 2500)
            correlation += dice.randint(1, 3)
            name = dice.choice(["sgemm_128x64", "elementwise_kernel", "void at::native::reduce<float>", "nccl_AllReduce"])
            on_side = name.startswith("nccl")
            begin = max(at + 4000 + dice.randint(300, 20000), (side if on_side else gpu) + dice.randint(0, 9000))
            length = dice.randint(1000, 60000)
            if on_side:
                side = begin + length
            else:
                gpu = begin + length
            profile.launched(name, at, begin, length, correlation, stream=20 if on_side else 7)
            held += dice.randint(1, 4096)
            profile.memory(at, 512, held)
            host = at + 4000 + dice.randint(100, 3000)
            profile.op("aten::inner", inner, host - inner - 50)
            profile.op("aten::outer", outer, host - outer)
            host += dice.randint(100, 40000)
        correlation += 1
        profile.copy("Memcpy DtoH (Device -> Pageable)", host, max(gpu, host + 6000), 2000, correlation, 4096)
        gpu = max(gpu, host + 6000) + 2000
        host += 6000
        correlation += 1
        wait = dice.randint(3000, 90000)
        profile.call("cudaStreamSynchronize", host, wait, correlation)
        host += wait
        profile.python("train.py(10): step", start + 10, host - start)
        host += 2000
        profile.step(number, start, host - start)
        host += dice.randint(0, 5000)
    profile.add(ph="M", name="process_name", pid=100, tid=0, ts=0, args={"name": "python"})
    profile.add(ph="M", name="thread_name", pid=100, tid=1, ts=0, args={"name": "thread 1 (main)"})
    order = list(range(len(profile.events)))
    dice.shuffle(order)
    profile.events = [profile.events[i] for i in order]
    return profile


class Tool:
    def __init__(self, stoker, env):
        self.stoker, self.env = stoker, env

    def __call__(self, *words, **more):
        return subprocess.run([self.stoker, "trace", *map(str, words)], capture_output=True, timeout=300, check=False,
                              env=self.env, **more)

    def report(self, *words, codes=(0, 1), **more):
        done = self(*words, "--json", **more)
        assert done.returncode in codes, (done.returncode, done.stderr.decode())
        return json.loads(done.stdout)


def forget(value, keys=frozenset(OF_THE_FILE)):
    """The report without what speaks of the file, or without other keys."""
    if isinstance(value, dict):
        return {key: forget(item, keys) for key, item in value.items() if key not in keys}
    return [forget(item, keys) for item in value] if isinstance(value, list) else value


def differences(left, right, path=""):
    """Where two reports differ; numbers that were summed in another order may differ in their last digits."""
    if isinstance(left, dict) and isinstance(right, dict):
        return [found for key in sorted({*left, *right})
                for found in differences(left.get(key), right.get(key), f"{path}.{key}")]
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        return [found for i, pair in enumerate(zip(left, right)) for found in differences(*pair, f"{path}[{i}]")]
    if isinstance(left, float) and isinstance(right, float) and math.isclose(left, right, rel_tol=1e-9):
        return []
    return [] if left == right else [f"{path}: {str(left)[:200]} is not {str(right)[:200]}"]


def strict_json(text):
    def refuse(word):
        raise ValueError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse)
