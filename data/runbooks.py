#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Packs the runbooks, every page as Markdown and as HTML, into one gzip file, and writes the table of its pages for the
program: class, title and places in the unpacked text.

    runbooks.py PACK.gz TABLE.c DEPFILE CMARK FOLDER page.html style.css

FOLDER has CLASS.md for each class of faults and README.md, the index. A page begins with its licence line and
`# CLASS: title`. Pages lie beside each other in both forms, so that the second costs little. In HTML a link to another
page leads to that page as the agent serves it, one to elsewhere in the checkout becomes its text."""
import base64
import gzip
import hashlib
import html
import pathlib
import re
import subprocess
import sys
import zlib

TITLE = re.compile(r"# (?:([a-z0-9-]+): )?(\S.*)")
LINK = re.compile(r'<a href="([^"]*)">(.*?)</a>', re.S)
INDEX = "README"


def body(path):
    """A file without its licence line and the empty lines behind it."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if "SPDX-License-Identifier" not in line]
    return "".join(kept).strip("\n") + "\n"


def title_of(path, text):
    found = TITLE.fullmatch(text.split("\n", 1)[0])
    if not found or (path.stem != INDEX and found[1] != path.stem):
        sys.exit(f"{path}: the page does not begin with '# {path.stem}: title'")
    return found[2]


def link(names):
    def one(found):
        target, text = found[1], found[2]
        page = re.fullmatch(r"([A-Za-z0-9-]+)\.md(?:#.*)?", target)
        if page and page[1] in names:
            return f'<a href="{"./" if page[1] == INDEX else page[1]}">{text}</a>'
        return found[0] if re.match(r"https?://", target) else text
    return one


def as_html(cmark, text, names):
    out = subprocess.run([cmark, "--to", "html"], input=text, capture_output=True, check=True, encoding="utf-8").stdout
    return LINK.sub(link(names), out)


class Shell:
    """What stands around every page."""

    def __init__(self, page, style):
        self.style = body(style)
        self.page = body(page).replace("{{style}}", self.style)
        assert "</" not in self.style, "an end tag within the style ends it"

    def policy(self):
        digest = base64.b64encode(hashlib.sha256(self.style.encode()).digest()).decode()
        return (f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; "
                "frame-ancestors 'none'")

    def around(self, name, title, text):
        title = title if name == INDEX else f"{name}: {title}"
        nav = '<a href="../">This node</a>' if name == INDEX else '<a href="./">All runbooks</a>'
        return self.page.replace("{{title}}", html.escape(title)).replace("{{nav}}", nav).replace("{{body}}", text)


def c_text(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def main():
    pack, table, depfile, cmark, folder, page, style = sys.argv[1:]
    shell = Shell(pathlib.Path(page), pathlib.Path(style))
    paths = sorted(pathlib.Path(folder).glob("*.md"), key=lambda p: (p.stem != INDEX, p.stem))
    names = {p.stem for p in paths}
    if INDEX not in names:
        sys.exit(f"{folder}: there is no {INDEX}.md, the index of the runbooks")
    blob, rows = b"", []
    for path in paths:
        text = body(path)
        title = title_of(path, text)
        forms = [text.encode(), shell.around(path.stem, title, as_html(cmark, text, names)).encode()]
        at = [len(blob), len(blob) + len(forms[0])]
        blob += b"".join(forms)
        name = "" if path.stem == INDEX else path.stem
        rows.append(f"    {{{c_text(name)}, {c_text(title)}, {{{at[0]}, {len(forms[0])}}}, {{{at[1]}, {len(forms[1])}}}}},\n")
    packed = gzip.compress(blob, 9, mtime=0)
    pathlib.Path(pack).write_bytes(packed)
    pathlib.Path(table).write_text(
        "/* SPDX-License-Identifier: Apache-2.0 */\n/* Made of docs/runbooks by data/runbooks.py. */\n"
        '#include "service/runbook/runbook.h"\n'
        f"const RunbookPack runbook_pack = {{{len(packed)}, {len(blob)}, {zlib.crc32(blob)}u}};\n"
        f"const Runbook runbook_rows[] = {{\n{''.join(rows)}}};\n"
        "const size_t runbook_row_count = sizeof runbook_rows / sizeof runbook_rows[0];\n"
        f"const char runbook_policy[] = {c_text(shell.policy())};\n", encoding="utf-8")
    pathlib.Path(depfile).write_text(f"{pack} {table}: {folder} {' '.join(map(str, paths))}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
