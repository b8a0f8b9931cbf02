#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Makes one page of the parts beside this file, as a C header with its three pieces, packed by gzip.

    embed.py OUTPUT page.html style.css SCRIPT...

The page's places are {{policy}}, {{style}}, {{title}}, {{data}} and {{script}}; the title (before everything else) and
the data are filled in when a page is written. The policy names the style and the script by their hashes."""
import base64
import gzip
import hashlib
import pathlib
import sys


def digest(text):
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def body(path):
    """A file without its licence line."""
    lines = pathlib.Path(path).read_text(encoding="utf-8").splitlines(keepends=True)
    return "".join(line for line in lines if "SPDX-License-Identifier" not in line)


def policy(style, script):
    return (f"default-src 'none'; style-src {digest(style)}; script-src {digest(script)}; base-uri 'none'; "
            "form-action 'none'")


def array(name, text):
    data = gzip.compress(text.encode(), 9, mtime=0)
    rows = [", ".join(map(str, data[i:i + 32])) for i in range(0, len(data), 32)]
    return f"static const unsigned char {name}[{len(data)}] = {{\n" + ",\n".join(rows) + "};\n"


def main():
    output, page, style, *scripts = sys.argv[1:]
    style = body(style)
    script = '"use strict";\n' + "".join(map(body, scripts))
    for text in (style, script):
        assert "</" not in text, "an end tag within style or script ends it"
    text = body(page).replace("{{policy}}", policy(style, script)).replace("{{style}}", style)
    head, rest = text.split("{{title}}")
    middle, tail = rest.split("{{data}}")
    tail = tail.replace("{{script}}", script)
    header = "/* SPDX-License-Identifier: Apache-2.0 */\n/* Made of web/trace by embed.py. */\n#pragma once\n"
    parts = [("trace_page_head", head), ("trace_page_middle", middle), ("trace_page_tail", tail)]
    pathlib.Path(output).write_text(header + "".join(array(*p) for p in parts), encoding="utf-8")


if __name__ == "__main__":
    main()
