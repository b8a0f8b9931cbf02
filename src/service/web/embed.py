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


IMPORT = re.compile(r"^import \{([^}]+)\} from \"\./(\w+)\.js\";\n", re.M)
EXPORT = re.compile(r"^export (const|class|function|async function) (\w+)", re.M)
# A line break between two of these ends no statement.
OPEN, CLOSE = "{;,([=&|?:+", "})]&|?:."
BEFORE_REGEX = "(,=:[!&|?{};>"
GLOBALS = {"document", "event", "fetch", "history", "location", "name", "print", "scrollTo", "status"}  # which no export may hide


def is_ours(path):
    return "SPDX-License-Identifier: Apache-2.0" in path.read_text(encoding="utf-8")


def body(path):
    """A file as it is served."""
    text = path.read_text(encoding="utf-8")
    if not is_ours(path):
        return text
    text = re.sub(r"^[ \t]*(/\*.*?\*/|<!--.*?-->|//[^\n]*)[ \t]*\n", "", text, flags=re.M | re.S)
    text = re.sub(r"^[ \t]+|\n(?=\n)", "", text, flags=re.M)
    return re.sub(r"[ \n]*([{};,])[ \n]*", r"\1", text).replace(": ", ":") if path.suffix == ".css" else text


def literal_end(text, start, ends):
    """The place behind a string, a regular expression or a part of a template that begins at `start` and ends with one of `ends`."""
    at, in_class = start + 1, False
    while in_class or not any(text.startswith(end, at) for end in ends):
        in_class = ends == ("/",) and (text[at] == "[" or in_class and text[at] != "]")
        at += 2 if text[at] == "\\" else 1
    return at + next(len(end) for end in ends if text.startswith(end, at))


def squeeze(text):
    """A script without the blanks that no one misses: strings, templates and regular expressions stay as they are."""
    out, at, depths = [], 0, []
    is_word = lambda char: char.isalnum() or char in "_$"
    while at < len(text):
        char, last = text[at], out[-1][-1] if out else ";"
        in_template = char == "}" and depths and depths[-1] == 0
        if char == "`" or in_template:
            end = literal_end(text, at, ("`", "${"))
            if in_template:
                depths.pop()
            if text[end - 1] == "{":
                depths.append(0)
        elif char in "\"'":
            end = literal_end(text, at, (char,))
        elif text.startswith(("/*", "//"), at):
            at = text.index("*/", at) + 2 if text[at + 1] == "*" else text.index("\n", at)
            continue
        elif char == "/" and (last in BEFORE_REGEX or "".join(out[-6:]) == "return"):
            end = literal_end(text, at, ("/",))
        elif char.isspace():
            end = at + len(text[at:]) - len(text[at:].lstrip())
            following = text[end:end + 1] or ";"
            if "\n" in text[at:end] and last not in OPEN and following not in CLOSE:
                out.append("\n")
            elif is_word(last) and is_word(following) or last in "+-" and following == last:
                out.append(" ")
            at = end
            continue
        else:
            end = at + 1
            if depths and char in "{}":
                depths[-1] += 1 if char == "{" else -1
        out.append(text[at:end])
        at = end
    return "".join(out)


def bundle(modules):
    """One script of modules that import from each other by name alone: those that are needed come first. Each is a block; what it exports
    is declared around all of them, so that exported names are told apart by themselves."""
    texts, done, out, shared = {m.stem: m for m in modules}, [], [], []

    def take(name, way=()):
        assert name not in way, f"modules need each other: {way}"
        if name in done:
            return
        text = body(texts[name])
        for names, other in IMPORT.findall(text):
            assert " as " not in names, f"{name}: an import under another name"
            take(other, (*way, name))
            assert set(re.findall(r"\w+", names)) <= set(shared), f"{name}: {names} is not exported by {other}"
        text = IMPORT.sub("", text)
        names = [n for _, n in EXPORT.findall(text)]
        taken = set(names) & (set(shared) | GLOBALS)
        assert not taken, f"{name}: {taken} is exported by two, or is the browser's"
        shared.extend(names)
        text = EXPORT.sub(lambda m: m[2] if m[1] == "const" else f"{m[2]} = {m[1]} {m[2]}", text)
        out.append(f"{{\n{text}}}\n")
        done.append(name)

    for name in sorted(texts):
        take(name)
    return squeeze(f"let {', '.join(shared)};\n" + "".join(out))


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
