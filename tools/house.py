#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the house: lines, files, headers, functions, one-word static functions and circles of calls between files.

usage: tools/house.py [BUILD] [--list]   BUILD: a build folder, for circles and the size of the program"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
FUNCTION = re.compile(r"^(?P<static>static )?(?!typedef|return|else|struct \w+ \{)[A-Za-z_][^;={}()#]*?\b(?P<name>[A-Za-z_]\w*)\([^;]*$", re.M)


def tracked(folder):
    names = subprocess.run(["git", "ls-files", folder], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    return [ROOT / name for name in names if name.endswith((".c", ".h", ".def", ".py")) and (ROOT / name).exists()]


def functions(path):
    return [(m["name"], bool(m["static"])) for m in FUNCTION.finditer(path.read_text())] if path.suffix in (".c", ".h") else []


def one_word(path):
    return [name for name, static in functions(path) if static and "_" not in name]


# Files that are tables of others, which call back into them: their own calls make no circle.
TABLES = {
    "src/verb/verb.c": "the table of verbs",
}


def objects(build):
    """{object: source}, both relative to the build folder and to the tree, of what the build compiles now."""
    entries = json.loads((build / "compile_commands.json").read_text())
    return {entry["output"]: os.path.relpath(build / entry["file"], ROOT) for entry in entries if (build / entry["output"]).exists()}


def circles(build, folder):
    """Strongly connected files of more than one, by which file calls functions of which, among those below `folder`."""
    sources = {o: source for o, source in objects(build).items() if source.startswith(folder + "/")}
    defined, wanted = {}, {}
    lines = subprocess.run(["nm", "-A", "-g", *sources], cwd=build, capture_output=True, text=True, check=False).stdout.splitlines()
    for line in lines:
        where, rest = line.split(":", 1)
        words, source = rest.split(), sources[where]
        if words[-2] == "U":
            wanted.setdefault(source, set()).add(words[-1])
        elif words[-2] == "T":
            defined.setdefault(words[-1], source)
    graph = {f: {defined[s] for s in names if defined.get(s, f) != f} for f, names in wanted.items() if f not in TABLES}
    return [c for c in components(graph) if len(c) > 1]


def components(graph):
    """Tarjan's algorithm."""
    index, low, stack, on, out, count = {}, {}, [], set(), [], [0]
    sys.setrecursionlimit(10000)

    def visit(v):
        index[v] = low[v] = count[0]
        count[0] += 1
        stack.append(v)
        on.add(v)
        for w in graph.get(v, ()):
            if w not in index:
                visit(w)
                low[v] = min(low[v], low[w])
            elif w in on:
                low[v] = min(low[v], index[w])
        if low[v] == index[v]:
            part = []
            while not part or part[-1] != v:
                part.append(stack.pop())
                on.discard(part[-1])
            out.append(sorted(part))

    for v in list(graph):
        if v not in index:
            visit(v)
    return out


def median(values):
    return sorted(values)[len(values) // 2] if values else 0


def main():
    build = next((pathlib.Path(a).resolve() for a in sys.argv[1:] if not a.startswith("-")), None)
    print(f"{'':8}{'lines':>9}{'files':>7}{'.h<60':>7}{'.c median':>11}{'functions':>11}{'one word':>10}{'circles':>9}")
    for folder in ("src", "sim", "test"):
        paths = tracked(folder)
        lines = {p: len(p.read_text().splitlines()) for p in paths}
        c = [p for p in paths if p.suffix != ".py"]
        found = circles(build, folder) if build else None
        words = [(p, name) for p in paths for name in one_word(p)]
        short = sum(1 for p in c if p.suffix == ".h" and lines[p] < 60)
        print(f"{folder:8}{sum(lines.values()):9}{len(c):7}{short:7}{median([lines[p] for p in c if p.suffix == '.c']):11}"
              f"{sum(len(functions(p)) for p in paths):11}{len(words):10}{'' if found is None else len(found):>9}")
        if "--list" in sys.argv:
            for circle in found or []:
                print("  circle:", " ".join(circle))
            for p, name in words:
                print(f"  {p.relative_to(ROOT)}: {name}")
    if build and (build / "stoker").exists():
        with tempfile.NamedTemporaryFile() as out:
            subprocess.run(["strip", "-o", out.name, str(build / "stoker")], check=True)
            print(f"stoker, stripped: {pathlib.Path(out.name).stat().st_size} bytes")


if __name__ == "__main__":
    main()
