# SPDX-License-Identifier: Apache-2.0
"""Writes one kernel as PTX text, line by line, with the parts that all kernels share: how they read their arguments, look
at the stop word, and leave a CudaBlockResult. Offsets are those of sim/cuda/abi/cuda_kernel.h."""

ARGS = {"a": (0, "u64"), "b": (8, "u64"), "c": (16, "u64"), "result": (24, "u64"), "stop": (32, "u64"), "count": (40, "u64"),
        "m": (48, "u32"), "n": (52, "u32"), "k": (56, "u32"), "rounds": (60, "u32"), "pattern": (64, "u32"), "seed": (68, "u32"),
        "flags": (72, "u32")}
ARGS_BYTES = 80
RESULT = {"smid": 0, "stopped": 4, "clocks": 8, "begin": 16, "end": 24, "checksum": 32, "errors": 40, "first": 48, "want": 56,
          "got": 60}
RESULT_BYTES = 64

# Clocks between two looks at the stop word: about half a millisecond. The word is in host memory, so that a look costs a
# microsecond or two; one thread of a block looks for all.
POLL_CLOCKS = 1 << 20


class Kernel:
    """Call it with lines of PTX; registers are made by b32(), b64(), f32(), f64() and pred(), each returns the name."""

    def __init__(self, name, threads, exact_threads=False, blocks=1):
        """`blocks`: how many of them an SM has to have room for. Without one named, ptxas makes room for two and spills."""
        self.name = name
        self.threads = threads
        self.exact_threads = exact_threads
        self.blocks = blocks
        self.lines = []
        self.registers = {}
        self.shared = []
        self.labels = 0
        self.temporaries = 0

    def __call__(self, *lines):
        for line in lines:
            self.lines.append("    " + line + ("" if line.startswith("//") else ";"))

    def note(self, text):
        self("// " + text)

    def register(self, kind, name):
        if not name:
            self.temporaries += 1
            name = f"t{self.temporaries}"
        assert name not in self.registers, f"{self.name}: register {name} is there already"
        self.registers[name] = kind
        return "%" + name

    def b32(self, name=None):
        return self.register("b32", name)

    def b64(self, name=None):
        return self.register("b64", name)

    def b16(self, name=None):
        return self.register("b16", name)

    def f32(self, name=None):
        return self.register("f32", name)

    def f64(self, name=None):
        return self.register("f64", name)

    def pred(self, name=None):
        return self.register("pred", name)

    def label(self, name):
        """A name to jump to; place() says where it is."""
        self.labels += 1
        return f"{name}_{self.labels}"

    def place(self, label):
        self.lines.append(label + ":")

    def share(self, name, size, align=16):
        """Static shared memory. Returns its name, which is its address."""
        self.shared.append(f"    .shared .align {align} .b8 {name}[{size}];")
        return name

    def argument(self, name):
        """A field of the arguments, in a register of that name."""
        offset, kind = ARGS[name]
        register = self.register("b" + kind[1:], name)
        self(f"ld.param.{kind} {register}, [args+{offset}]")
        return register

    def text(self):
        limit = "reqntid" if self.exact_threads else "maxntid"
        kinds = {}
        for name, kind in self.registers.items():
            kinds.setdefault(kind, []).append("%" + name)
        declared = [f"    .reg .{kind} {', '.join(names[at:at + 12])};" for kind, names in kinds.items()
                    for at in range(0, len(names), 12)]
        return "\n".join([f".visible .entry {self.name}(.param .align 8 .b8 args[{ARGS_BYTES}])", f".{limit} {self.threads}, 1, 1",
                          f".minnctapersm {self.blocks}", "{", *declared, *self.shared, *self.lines, "}"]) + "\n"


def begin(k):
    """What each kernel starts with: where the thread is, and whether to stop. Registers thread, threads, block, blocks and the
    predicate leader (thread 0)."""
    thread, threads, block, blocks = k.b32("thread"), k.b32("threads"), k.b32("block"), k.b32("blocks")
    leader = k.pred("leader")
    k(f"mov.u32 {thread}, %tid.x", f"mov.u32 {threads}, %ntid.x", f"setp.eq.u32 {leader}, {thread}, 0")
    y, z, size = k.b32(), k.b32(), k.b32()
    k.note("the linear index of the block")
    k(f"mov.u32 {block}, %ctaid.z", f"mov.u32 {y}, %nctaid.y", f"mov.u32 {z}, %ctaid.y", f"mad.lo.u32 {block}, {block}, {y}, {z}",
      f"mov.u32 {size}, %nctaid.x", f"mov.u32 {z}, %ctaid.x", f"mad.lo.u32 {block}, {block}, {size}, {z}",
      f"mov.u32 {z}, %nctaid.z", f"mul.lo.u32 {blocks}, {size}, {y}", f"mul.lo.u32 {blocks}, {blocks}, {z}")


class Block:
    """The shared words of a block: whether to stop, and what its threads found."""

    def __init__(self, k, inside=None):
        """`inside`: the name of shared memory that is free when finish() begins, to be used again; such a block looks at the
        stop word at its start alone."""
        self.k, self.inside = k, inside
        self.halt = None if inside else k.share("halt", 4)
        self.found = inside or k.share("found", 24)  # errors, the first bad index, want and got
        self.sums = k.share("sums", 4 * k.threads) if not inside else None
        self.stopped = k.pred("stopped") if inside else None
        self.clock, self.ns = k.b64("clock_begin"), k.b64("ns_begin")
        self.stop = k.argument("stop")
        self.polled = k.b32("polled")

    def start(self):
        """Looks at the stop word, lets all threads of the block arrive, and reads the clocks."""
        k, word = self.k, self.k.b32()
        if self.inside:
            k(f"mov.u32 {word}, 0", f"@%leader ld.volatile.global.u32 {word}, [{self.stop}]", f"setp.ne.u32 {self.stopped}, {word}, 0",
              f"bar.red.or.pred {self.stopped}, 0, {self.stopped}")
        else:
            k(f"@%leader ld.volatile.global.u32 {word}, [{self.stop}]", f"@%leader st.shared.u32 [{self.halt}], {word}")
            self.clear()
            k("bar.sync 0")
        k(f"mov.u64 {self.ns}, %globaltimer", f"mov.u64 {self.clock}, %clock64", f"mov.u32 {self.polled}, %clock")

    def clear(self):
        k, none = self.k, self.k.b64()
        k(f"mov.u64 {none}, 0", f"@%leader st.shared.u64 [{self.found}], {none}", f"@%leader st.shared.u64 [{self.found}+16], {none}",
          f"mov.u64 {none}, -1", f"@%leader st.shared.u64 [{self.found}+8], {none}")

    def halted(self, leave, alike=None):
        """Jumps to `leave` when the block has to stop. alike="warp": all threads of a warp decide alike; "block": all of the block,
        which has to meet at a barrier before it comes here again."""
        k = self.k
        word, going, now, due, passed = k.b32(), k.label("going"), k.b32(), k.pred(), k.b32()
        k(f"@!%leader bra {going}", f"mov.u32 {now}, %clock", f"sub.u32 {passed}, {now}, {self.polled}",
          f"setp.lt.u32 {due}, {passed}, {POLL_CLOCKS}", f"@{due} bra {going}", f"mov.u32 {self.polled}, {now}",
          f"ld.volatile.global.u32 {word}, [{self.stop}]", f"st.volatile.shared.u32 [{self.halt}], {word}")
        k.place(going)
        seen, halt = k.b32(), k.pred()
        if alike:
            k("bar.warp.sync -1" if alike == "warp" else "bar.sync 0")
        k(f"ld.volatile.shared.u32 {seen}, [{self.halt}]", f"setp.ne.u32 {halt}, {seen}, 0")
        if alike == "warp":
            k(f"vote.sync.any.pred {halt}, {halt}, -1")
        k(f"@{halt} bra {leave}")

    def stamp(self):
        """The work of all threads is done: reads the clocks again."""
        k = self.k
        self.clock_end, self.ns_end = k.b64("clock_end"), k.b64("ns_end")
        k("bar.sync 0", f"mov.u64 {self.clock_end}, %clock64", f"mov.u64 {self.ns_end}, %globaltimer")

    def finish(self, checksum, found=None):
        """Adds up what the threads found (`found`: errors b32, first b64, want b32, got b32), and lets thread 0 write it."""
        k = self.k
        sums = k.b32("sums_at")
        if self.inside:
            self.clear()
            k(f"mov.u32 {sums}, {self.inside}", f"add.u32 {sums}, {sums}, 32")
        else:
            k(f"mov.u32 {sums}, {self.sums}")
        at, total, one, more = k.b32(), k.b32("total"), k.b32(), k.pred()
        k.note("sums[thread] = checksum")
        k(f"mad.lo.u32 {at}, %thread, 4, {sums}", f"st.shared.u32 [{at}], {checksum}")
        if found:
            errors, first, want, got = found
            bad, wide, lowest, mine = k.pred("bad"), k.b64(), k.b64(), k.pred()
            k(f"setp.ne.u32 {bad}, {errors}, 0", f"cvt.u64.u32 {wide}, {errors}", f"@{bad} red.shared.add.u64 [{self.found}], {wide}",
              f"@{bad} red.shared.min.u64 [{self.found}+8], {first}")
        k("bar.sync 0")
        if found:
            k(f"ld.shared.u64 {lowest}, [{self.found}+8]", f"setp.eq.and.u64 {mine}, {lowest}, {first}, {bad}",
              f"@{mine} st.shared.u32 [{self.found}+16], {want}", f"@{mine} st.shared.u32 [{self.found}+20], {got}")
        k.note("threads 0..31 add up every 32nd, thread 0 adds up theirs")
        summed, each, least, end = k.label("summed"), k.b32(), k.b32(), k.label("end")
        k(f"setp.ge.u32 {more}, %thread, 32", f"@{more} bra {summed}", f"mov.u32 {total}, 0", f"mov.u32 {each}, %thread")
        self.add_up(k.label("sum"), at, each, total, one, more, "%threads", 32)
        k(f"mad.lo.u32 {at}, %thread, 4, {sums}", f"st.shared.u32 [{at}], {total}")
        k.place(summed)
        k("bar.sync 0", f"@!%leader bra {end}", f"min.u32 {least}, %threads, 32", f"mov.u32 {total}, 0", f"mov.u32 {each}, 0",
          f"mov.u32 {at}, {sums}")
        self.add_up(k.label("sum"), at, each, total, one, more, least, 1)
        self.write(total)
        k.place(end)
        k("ret")

    def add_up(self, loop, at, each, total, one, more, end, step):
        """total += sums[each], sums[each + step], ... below `end`; `at` is the address of the first."""
        k = self.k
        k.place(loop)
        k(f"ld.shared.u32 {one}, [{at}]", f"add.u32 {total}, {total}, {one}", f"add.u32 {each}, {each}, {step}",
          f"add.u32 {at}, {at}, {4 * step}", f"setp.lt.u32 {more}, {each}, {end}", f"@{more} bra {loop}")

    def write(self, total):
        k = self.k
        to, word, wide, stopped = k.b64("to"), k.b32(), k.b64(), self.stopped
        result = k.argument("result")
        k(f"mad.wide.u32 {to}, %block, {RESULT_BYTES}, {result}", f"mov.u32 {word}, %smid", f"st.global.u32 [{to}+{RESULT['smid']}], {word}")
        if not stopped:
            stopped = k.pred("stopped")
            k(f"ld.shared.u32 {word}, [{self.halt}]", f"setp.ne.u32 {stopped}, {word}, 0")
        k(f"selp.u32 {word}, 1, 0, {stopped}")
        k(f"st.global.u32 [{to}+{RESULT['stopped']}], {word}",
          f"sub.u64 {wide}, {self.clock_end}, {self.clock}", f"st.global.u64 [{to}+{RESULT['clocks']}], {wide}",
          f"st.global.u64 [{to}+{RESULT['begin']}], {self.ns}", f"st.global.u64 [{to}+{RESULT['end']}], {self.ns_end}",
          f"cvt.u64.u32 {wide}, {total}", f"st.global.u64 [{to}+{RESULT['checksum']}], {wide}")
        for name, offset in (("errors", 0), ("first", 8)):
            k(f"ld.shared.u64 {wide}, [{self.found}+{offset}]", f"st.global.u64 [{to}+{RESULT[name]}], {wide}")
        for name, offset in (("want", 16), ("got", 20)):
            k(f"ld.shared.u32 {word}, [{self.found}+{offset}]", f"st.global.u32 [{to}+{RESULT[name]}], {word}")


class Sum:
    """The checksum of a thread: the 32-bit sum of words."""

    def __init__(self, k):
        self.k = k
        self.total = k.b32("checksum")
        k(f"mov.u32 {self.total}, 0")

    def add(self, words, inside=None):
        guard = f"@{inside} " if inside else ""
        for word in words:
            self.k(f"{guard}add.u32 {self.total}, {self.total}, {word}")


class Found:
    """The errors of a thread. Indexes have to come in ascending order, so that the first one found is the lowest."""

    def __init__(self, k):
        self.k = k
        self.errors, self.first, self.want, self.got = k.b32("errors"), k.b64("first"), k.b32("want"), k.b32("got")
        self.wrong, self.newest = k.pred("wrong"), k.pred("newest")
        k(f"mov.u32 {self.errors}, 0", f"mov.u64 {self.first}, -1", f"mov.u32 {self.want}, 0", f"mov.u32 {self.got}, 0")

    def check(self, index, want, got):
        self.k(f"setp.ne.u32 {self.wrong}, {want}, {got}")
        self.note(index, want, got)

    def note(self, index, want, got):
        """`wrong` says whether it is one."""
        k = self.k
        k(f"setp.eq.and.u32 {self.newest}, {self.errors}, 0, {self.wrong}", f"@{self.wrong} add.u32 {self.errors}, {self.errors}, 1",
          f"@{self.newest} mov.u64 {self.first}, {index}", f"@{self.newest} mov.u32 {self.want}, {want}",
          f"@{self.newest} mov.u32 {self.got}, {got}")

    def all(self):
        return self.errors, self.first, self.want, self.got


def hash_word(k, x):
    """cuda_hash of a register, in place."""
    half = k.b32()
    k(f"shr.u32 {half}, {x}, 16", f"xor.b32 {x}, {x}, {half}", f"mul.lo.u32 {x}, {x}, 0x85ebca6b", f"shr.u32 {half}, {x}, 13",
      f"xor.b32 {x}, {x}, {half}", f"mul.lo.u32 {x}, {x}, 0xc2b2ae35", f"shr.u32 {half}, {x}, 16", f"xor.b32 {x}, {x}, {half}")
    return x
