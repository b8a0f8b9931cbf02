#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the table of web.h of the page's files.

    embed.py OUTPUT PAGE FILE...

PAGE is what is served at the page's own address, each FILE below it as web/NAME, with two exceptions that save a browser
two dozen requests: modules become one file, web/main.js, each in a scope of its own, and style sheets become web/style.css.
Licence lines, comments and indents of our own are left out; what others wrote stays as it is."""
import gzip
import hashlib
import pathlib
import re
import sys

TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
         ".svg": "image/svg+xml", ".txt": "text/plain; charset=utf-8"}


IMPORT = re.compile(r"^import (\{[^}]+\}) from \"\./(\w+)\.js\";\n", re.M)
EXPORT = re.compile(r"^export (const|class|function|async function) (\w+)", re.M)


def is_ours(path):
    return "SPDX-License-Identifier: Apache-2.0" in path.read_text(encoding="utf-8")


def body(path):
    """A file as it is served."""
    text = path.read_text(encoding="utf-8")
    if not is_ours(path):
        return text
    text = re.sub(r"^[ \t]*(/\*.*?\*/|<!--.*?-->|//[^\n]*)[ \t]*\n", "", text, flags=re.M | re.S)
    return re.sub(r"^[ \t]+|\n(?=\n)", "", text, flags=re.M)


def bundle(modules):
    """One script of modules that import from each other by name alone: those that are needed come first."""
    texts, done, out = {m.stem: body(m) for m in modules}, [], []

    def take(name, way=()):
        assert name not in way, f"modules need each other: {way}"
        if name in done:
            return
        for _, other in IMPORT.findall(texts[name]):
            take(other, (*way, name))
        text = IMPORT.sub(lambda m: f"const {m[1].replace(' as ', ': ')} = {m[2]}Module;\n", texts[name])
        assert not re.search(r"^import\b", text, re.M), f"{name}: an import of another form"
        names = [n for _, n in EXPORT.findall(text)]
        text = EXPORT.sub(r"\1 \2", text)
        assert not re.search(r"^export\b", text, re.M), f"{name}: an export of another form"
        out.append(f"const {name}Module = (() => {{\n{text}return {{ {', '.join(names)} }};\n}})();\n")
        done.append(name)

    for name in sorted(texts):
        take(name)
    return "".join(out)


def served(files):
    """[(path, type, text)] of what lies below web/."""
    modules = [f for f in files if f.suffix == ".js" and is_ours(f)]
    styles = sorted((f for f in files if f.suffix == ".css"), key=is_ours)
    rest = [f for f in files if f not in modules and f not in styles]
    made = [("web/main.js", ".js", bundle(modules)), ("web/style.css", ".css", "".join(map(body, styles)))]
    return sorted(made + [("web/" + f.name, f.suffix, body(f)) for f in rest])


def array(name, data):
    rows = [", ".join(map(str, data[i:i + 32])) for i in range(0, len(data), 32)]
    return f"static const unsigned char {name}[{len(data)}] = {{\n" + ",\n".join(rows) + "};\n"


def main():
    output, page, *files = map(pathlib.Path, sys.argv[1:])
    named = [("", ".html", body(page)), *served(files)]
    text, rows = "", ""
    for i, (path, suffix, content) in enumerate(named):
        data = content.encode()
        packed = gzip.compress(data, 9, mtime=0)
        tag = hashlib.sha256(data).hexdigest()[:24]
        text += array(f"file_{i}", packed)
        rows += f'    {{"{path}", "{TYPES[suffix]}", "\\"{tag}\\"", (const char *)file_{i}, {len(packed)}, {len(data)}}},\n'
    output.write_text("/* SPDX-License-Identifier: Apache-2.0 */\n/* Made of web/node by embed.py. */\n"
                      '#include "service/web/web.h"\n\n' + text
                      + f"\nconst WebFile web_files[] = {{\n{rows}}};\nconst size_t web_file_count = {len(named)};\n",
                      encoding="utf-8")


if __name__ == "__main__":
    main()
