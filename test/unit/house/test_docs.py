# SPDX-License-Identifier: Apache-2.0
"""The documents: links lead somewhere, commands have the verbs and options that the program has, cells of tables are short."""
import pathlib
import re
import shlex
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "deploy").rglob("*.md")])
CELL_MAX = 200
SHELL = re.compile(r"\s#\s.*$|\s(?:\||>|>>|&&|;|<|&)\s.*$|\s&$")


def name(page):
    return str(page.relative_to(ROOT))


def anchors(page):
    """As GitHub makes them of headings."""
    heads = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", h).lower()).replace(" ", "-") for h in heads}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), target
        if anchor and there.suffix == ".md":
            assert anchor in anchors(there), target


def commands(page):
    """Lines that a reader types: those of indented or fenced blocks that begin with the program."""
    for line in re.findall(r"^(?:    |\$ )?(?:sudo )?(?:build/)?(stoker [^\n]*)$", page.read_text(), re.M):
        line = SHELL.sub("", line).rstrip("\\ ")
        if not re.match(r"stoker +[A-Z.]|stoker(?: \w+)? -? ", line) and "'" not in line and '"' not in line:
            yield line.split()[1:]
        elif line.count('"') % 2 == 0 and line.count("'") % 2 == 0:
            yield shlex.split(line)[1:]


@pytest.fixture(scope="module")
def offered(stoker):
    known = {}

    def ask(*words):
        if words not in known:
            known[words] = subprocess.run([stoker, "help", "--complete", "--", *words], capture_output=True, text=True,
                                          check=True).stdout.split()
        return known[words]

    return ask


@pytest.mark.parametrize("page", [p for p in PAGES if "runbooks" not in p.parts], ids=name)
def test_commands_have_verbs_and_options_that_there_are(page, offered):
    verbs = set(offered())
    for words in commands(page):
        if not words or words[0] not in verbs:
            assert not words or not re.fullmatch(r"[a-z]+", words[0]) or len(words) > 6, words  # a sentence, not a command
            continue
        path = [words[0]]
        while len(words) > len(path) and words[len(path)] in offered(*path) and not words[len(path)].startswith("-"):
            path.append(words[len(path)])
        flags = set(offered(*path)) | {"--help", "--help-all"}
        for before, word in zip(words[len(path) - 1:], words[len(path):]):
            if word == "--" or (path == ["run"] and not word.startswith("-") and not before.startswith("-")):
                break  # a command with options of its own
            if word.startswith("--"):
                assert word.split("=")[0] in flags, f"{' '.join(words)}: {word}"


@pytest.mark.parametrize("page", [p for p in PAGES if "appendix" not in p.parts and "runbooks" not in p.parts], ids=name)
def test_cells_of_tables_are_short(page):
    long = [cell.strip() for line in page.read_text().splitlines() if line.startswith("|") for cell in line.strip("|").split("|")
            if len(cell.strip()) > CELL_MAX]
    assert long == []
