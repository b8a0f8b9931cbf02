# SPDX-License-Identifier: Apache-2.0
"""A trace of XLA's profiler as the profiler's other file: the message XSpace in protobuf's wire format."""


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


def number(field, value):
    return varint(field << 3) + varint(value)


def message(field, content):
    content = content.encode() if isinstance(content, str) else content
    return varint(field << 3 | 2) + varint(len(content)) + content


class Names:
    """Texts that a plane refers to by number; `field` of the plane."""

    def __init__(self, field):
        self.field, self.ids = field, {}

    def of(self, text):
        return self.ids.setdefault(text, len(self.ids) + 1)

    def encode(self):
        return b"".join(message(self.field, number(1, i) + message(2, number(1, i) + message(2, text)))
                        for text, i in self.ids.items())


def stat(stats, name, value):
    """Numbers as numbers, some texts by reference, the others as they are."""
    if str(value).isdigit():
        content = number(3 + len(name) % 2, int(value))
    elif len(str(value)) % 2:
        content = number(7, stats.of(value))
    else:
        content = message(5, str(value))
    return message(4, number(1, stats.of(name)) + content)


def event(events, stats, e, base_ns):
    args = b"".join(stat(stats, name, value) for name, value in e.get("args", {}).items())
    return message(4, number(1, events.of(e["name"])) + number(2, (e["ts"] - base_ns) * 1000) + number(3, e["dur"] * 1000) + args)


def plane(trace, pid, name, base_ns=5_000):
    events, stats, lines = Names(4), Names(5), {}
    for e in trace.events:
        if e.get("pid") == pid and "tid" in e:
            lines.setdefault(e["tid"], []).append(e)
    out = number(1, pid - 1 if pid < 700 else 0) + message(2, name)
    for tid, of_line in lines.items():
        label = next((e["args"]["name"] for e in of_line if e["ph"] == "M"), "")
        out += message(3, number(1, tid) + message(2, label) + number(3, base_ns)
                       + b"".join(event(events, stats, e, base_ns) for e in of_line if e["ph"] == "X"))
    return message(1, out + events.encode() + stats.encode())


def encode(trace):
    """Of a build.XlaTrace whose events are later than 5 us."""
    processes = [e for e in trace.events if e.get("name") == "process_name"]
    return message(1, message(2, "/host:metadata")) + b"".join(plane(trace, e["pid"], e["args"]["name"]) for e in processes)
