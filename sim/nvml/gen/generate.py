#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the NVML header, layout check, stubs, name table, version scripts and export lists into a folder.

usage: generate.py FACTS_DIR OUT_DIR
"""

import sys
from pathlib import Path

import exports
import facts as fact_files
import header


def outputs(facts):
    """(file name, text) of everything that is generated."""
    yield "nvml_abi.h", header.emit_abi(facts)
    yield "nvml_layout_check.c", header.emit_layout_check(facts)
    yield "nvml_stubs.c", exports.emit_stubs(facts)
    yield "nvml_names.h", exports.emit_names(facts)
    for generation in fact_files.GENERATIONS:
        yield f"r{generation}.map", exports.emit_map(facts, generation)
        yield f"exports_{generation}.txt", exports.emit_export_list(facts, generation)


def main(argv):
    if len(argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        for name, text in outputs(fact_files.read(argv[1])):
            (Path(argv[2]) / name).write_text(text, encoding="utf-8")
    except (fact_files.FactError, OSError) as error:
        print(f"generate.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
