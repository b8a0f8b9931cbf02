#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes nvml_renames.h and nvml_trampolines.c: the exported functions around the bodies, so that a trace sees results.

The bodies are compiled with nvml_renames.h included first, which gives nvmlX the name nvml_body_nvmlX.

usage: trampolines.py FACTS_DIR GEN_DIR OUT_DIR
"""

import re
import sys
from pathlib import Path

LICENCE = "/* SPDX-License-Identifier: Apache-2.0 */\n"
HEAD = LICENCE + '/* Generated: each function is its body and a line in the trace. */\n#include "sim/nvml/process.h"\n'


def names(function):
    """Argument names of a function."""
    return [] if function.params == ["void"] else [re.search(r"(\w+)$", p).group(1) for p in function.params]


def trampoline(function):
    params = ", ".join(function.params)
    call = f"nvml_body_{function.name}({', '.join(names(function))})"
    text = f"\nnvmlReturn_t nvml_body_{function.name}({params});\nnvmlReturn_t {function.name}({params})\n{{\n"
    device = names(function)[0] if function.params[0].startswith("nvmlDevice_t ") else "NULL"
    text += f"    const nvmlReturn_t answer = {call};\n"
    text += "    if (atomic_load_explicit(&nvml_trace_fd, memory_order_relaxed) != -1)\n"
    text += f"        nvml_trace(NVML_FN_{function.name}, {device}, answer);\n    return answer;\n}}\n"
    return text


def main(argv):
    if len(argv) != 4:
        print(__doc__, file=sys.stderr)
        return 2
    sys.path.insert(0, argv[2])
    import facts as fact_files

    facts = fact_files.read(argv[1])
    bodies = [f for f in facts.exported() if f.handwritten and f.result == "nvmlReturn_t"]
    renames = "".join(f"#define {f.name} nvml_body_{f.name}\n" for f in bodies)
    out = Path(argv[3])
    (out / "nvml_renames.h").write_text(LICENCE + "#pragma once\n/* Generated, see trampolines.py. */\n" + renames)
    (out / "nvml_trampolines.c").write_text(HEAD + "".join(trampoline(f) for f in bodies))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
