#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the table of web.h of the page's files.

    embed.py OUTPUT ESBUILD PAGE FILE...

PAGE is what is served at the page's own address, each FILE below it as web/NAME, with two exceptions: esbuild makes one file of
main.js and the modules that it imports, and our style sheet goes behind the chart library's into web/style.css. What others wrote
stays as it is."""
import gzip
import hashlib
import pathlib
import re
import subprocess
import sys

TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
         ".svg": "image/svg+xml", ".txt": "text/plain; charset=utf-8"}


def is_ours(path):
    return "SPDX-License-Identifier: Apache-2.0" in path.read_text(encoding="utf-8")


def squeezed(esbuild, path, *options):
    """A script with its modules, or a style sheet, without what only a reader needs."""
    return subprocess.run([esbuild, path, "--minify", "--log-level=warning", *options], check=True, capture_output=True, text=True).stdout


def body(path):
    """A file as it is served: of our own ones without comments and indents."""
    text = path.read_text(encoding="utf-8")
    return re.sub(r"^[ \t]+|\n(?=\n)", "", re.sub(r"<!--.*?-->\n", "", text, flags=re.S), flags=re.M) if is_ours(path) else text


def served(esbuild, files):
    """[(path, type, text)] of what lies below web/."""
    ours = {f.name: f for f in files if is_ours(f)}
    script = squeezed(esbuild, ours["main.js"], "--bundle", "--format=iife", "--target=es2020")
    style = "".join(body(f) for f in files if f.suffix == ".css" and not is_ours(f)) + squeezed(esbuild, ours["style.css"])
    rest = [f for f in files if f.suffix not in (".js", ".css") or not (is_ours(f) or f.suffix == ".css")]
    return sorted([("web/main.js", ".js", script), ("web/style.css", ".css", style)] + [("web/" + f.name, f.suffix, body(f)) for f in rest])


def array(name, data):
    rows = [", ".join(map(str, data[i:i + 32])) for i in range(0, len(data), 32)]
    return f"static const unsigned char {name}[{len(data)}] = {{\n" + ",\n".join(rows) + "};\n"


def main():
    output, esbuild, page, *files = map(pathlib.Path, sys.argv[1:])
    named = [("", ".html", body(page)), *served(esbuild, files)]
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
