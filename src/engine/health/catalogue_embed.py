#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Puts the fault catalogue into the program: one C array of bytes for each file, packed by gzip.

    catalogue_embed.py OUTPUT FILE...

Comment lines and empty lines are kept as empty lines, so that the line numbers of messages stay true."""
import gzip
import pathlib
import sys


def body(path):
    lines = pathlib.Path(path).read_text(encoding="utf-8").split("\n")
    text = "\n".join("" if line.lstrip().startswith("#") else line.rstrip() for line in lines)
    return gzip.compress(text.encode(), 9, mtime=0)


def array(name, data):
    rows = [",".join(map(str, data[i:i + 40])) for i in range(0, len(data), 40)]
    return f"static const unsigned char {name}[{len(data)}] = {{\n" + ",\n".join(rows) + "};\n"


def main():
    output, *paths = sys.argv[1:]
    text = "/* SPDX-License-Identifier: Apache-2.0 */\n/* Made of data/faults by catalogue_embed.py. */\n"
    text += '#include "engine/health/catalogue.h"\n'
    rows = []
    for i, path in enumerate(paths):
        data = body(path)
        text += array(f"text_{i}", data)
        rows.append(f'    {{"faults/{pathlib.Path(path).name}", (const char *)text_{i}, sizeof text_{i}}},\n')
    text += "const CatalogueText catalogue_texts[] = {\n" + "".join(rows) + "};\n"
    text += "const size_t catalogue_text_count = sizeof catalogue_texts / sizeof catalogue_texts[0];\n"
    pathlib.Path(output).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
