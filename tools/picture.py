#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Draws terminals as one SVG: text with SGR colours (what `tmux capture-pane -e -p` prints) in, picture out.

    tools/picture.py OUT.svg TITLE=FILE [TITLE=FILE...]
"""
import re
import sys
from html import escape, unescape

CELL_W, CELL_H, PAD, BAR = 7.7, 16, 14, 28
COLOURS = ["#2e3436", "#cc3b3b", "#5a9e2e", "#c4a000", "#4a86c8", "#8f6fae", "#1f9a9a", "#d3d7cf",
           "#6b6f6a", "#ef5959", "#8ae234", "#fce94f", "#82b1e8", "#c09fd6", "#4fdede", "#ffffff"]
WORDS = re.compile(r"\S+(?: \S+)*")  # with one blank between them: what draws SVG makes one of several
SGR = re.compile(r"\x1b\[([0-9;]*)m|\x1b[()][A-Z0-9]|\x0f|\x0e")


def cube(n):
    if n < 16:
        return COLOURS[n]
    if n >= 232:
        v = 8 + (n - 232) * 10
        return f"#{v:02x}{v:02x}{v:02x}"
    n -= 16
    level = [0, 95, 135, 175, 215, 255]
    return "#%02x%02x%02x" % (level[n // 36], level[n // 6 % 6], level[n % 6])


class Pen:
    def __init__(self):
        self.reset()

    def reset(self):
        self.fg = self.bg = None
        self.bold = self.dim = self.reverse = False

    def apply(self, codes):
        codes = [int(c or 0) for c in codes.split(";")] if codes else [0]
        while codes:
            c = codes.pop(0)
            if c == 0:
                self.reset()
            elif c == 1:
                self.bold = True
            elif c == 2:
                self.dim = True
            elif c == 22:
                self.bold = self.dim = False
            elif c in (7, 27):
                self.reverse = c == 7
            elif c in (38, 48) and codes[:1] == [5]:
                colour = cube(codes[1])
                codes = codes[2:]
                self.fg, self.bg = (colour, self.bg) if c == 38 else (self.fg, colour)
            elif 30 <= c <= 37 or 90 <= c <= 97:
                self.fg = COLOURS[c - 30 if c < 90 else c - 82]
            elif 40 <= c <= 47:
                self.bg = COLOURS[c - 40]
            elif c == 39:
                self.fg = None
            elif c == 49:
                self.bg = None

    def colours(self):
        fg, bg = self.fg or ("#8a919e" if self.dim else "#d3d7cf"), self.bg
        return (bg or "#1c1f26", fg) if self.reverse else (fg, bg)


def runs(line, pen):
    """(column, text, fg, bg, bold) for each stretch of one look."""
    column = at = 0
    for match in list(SGR.finditer(line)) + [None]:
        text = line[at:match.start() if match else len(line)]
        if text:
            yield column, text, *pen.colours(), pen.bold
            column += len(text)
        if match:
            at = match.end()
            if match.group(1) is not None:
                pen.apply(match.group(1))


def places(column, text):
    """Where a text begins; where each of its characters is if some are braille, which few fonts draw as wide as the others."""
    count = len(text) if any("\u2800" <= c <= "\u28ff" for c in text) else 1
    return " ".join(f"{PAD + (column + i) * CELL_W:.1f}" for i in range(count))


def window(title, text, y, columns=0):
    lines = text.rstrip("\n").split("\n")
    plain = [SGR.sub("", line) for line in lines]
    width = max(columns, *map(len, plain)) * CELL_W + 2 * PAD
    height = len(lines) * CELL_H + 2 * PAD + BAR
    out = [f'<g transform="translate(0 {y})"><rect width="{width:.0f}" height="{height:.0f}" rx="8" fill="#1c1f26"/>',
           f'<text x="{PAD}" y="19" fill="#8a919e" font-size="12">{escape(title)}</text>']
    pen = Pen()
    for row, line in enumerate(lines):
        base = BAR + PAD + row * CELL_H
        for column, part, fg, bg, bold in runs(line, pen):
            x = PAD + column * CELL_W
            if bg:
                out.append(f'<rect x="{x:.1f}" y="{base - 4}" width="{len(part) * CELL_W:.1f}" height="{CELL_H}" fill="{bg}"/>')
            weight = ' font-weight="bold"' if bold else ""
            for word in WORDS.finditer(part):
                out.append(f'<text x="{places(column + word.start(), word[0])}" y="{base + 8}" fill="{fg}"{weight} '
                           f'textLength="{len(word[0]) * CELL_W:.1f}">{escape(word[0])}</text>')
    return "\n".join(out) + "</g>", width, height


def draw(windows, columns=0):
    """The SVG of [(title, text)], one below the other, each at least so many columns wide."""
    parts, y, widest = [], 0, 0
    for title, text in windows:
        svg, width, height = window(title, text, y, columns)
        parts.append(svg)
        y += height + 12
        widest = max(widest, width)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{widest:.0f}" height="{y - 12:.0f}" '
            'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="12.8">\n'
            + "\n".join(parts) + "\n</svg>\n")


def read(svg):
    """The lines of text of a picture with one window: what draw was given, without colours."""
    lines = {}
    for x, y, text in re.findall(r'<text x="([\d.]+)[\d. ]*" y="(\d+)"[^>]*textLength[^>]*>([^<]*)</text>', svg):
        row, column = round((int(y) - 8 - BAR - PAD) / CELL_H), round((float(x) - PAD) / CELL_W)
        lines[row] = lines.get(row, "").ljust(column) + unescape(text)
    return [lines.get(row, "").rstrip() for row in range(max(lines, default=-1) + 1)]


def main():
    windows = []
    for argument in sys.argv[2:]:
        title, _, path = argument.partition("=")
        with open(path, encoding="utf-8") as file:
            windows.append((title, file.read()))
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(draw(windows))


if __name__ == "__main__":
    main()
