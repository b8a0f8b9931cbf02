# SPDX-License-Identifier: Apache-2.0
"""The processors of a simulated node, for programs that read them below STOKER_ROOT: the simulator leaves them to the machine."""

SOCKETS, CORES, THREADS = 2, 56, 2  # as the scenarios' lists of near processors have it
COUNT = SOCKETS * CORES


def ranged(first, count, more):
    return f"{first}-{first + count - 1},{first + more}-{first + more + count - 1}"


def write_processors(tree):
    """Processor N and N + 112 are the threads of core N; 56 cores make a socket, which is a NUMA node."""
    files = {"cpu/online": f"0-{COUNT * THREADS - 1}"}
    for socket in range(SOCKETS):
        files[f"node/node{socket}/cpulist"] = ranged(socket * CORES, CORES, COUNT)
    for cpu in range(COUNT * THREADS):
        core = cpu % COUNT
        files[f"cpu/cpu{cpu}/topology/thread_siblings_list"] = f"{core},{core + COUNT}"
        files[f"cpu/cpu{cpu}/topology/core_siblings_list"] = ranged(core // CORES * CORES, CORES, COUNT)
    for name, text in files.items():
        path = tree / "sys/devices/system" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
