# SPDX-License-Identifier: Apache-2.0
"""docs/runbooks: a page for each class of faults and none beside, the same sections on each, links that lead somewhere,
and commands that the program has."""
import functools
import html.parser
import json
import pathlib
import re
import shlex
import subprocess

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[3]
FOLDER = ROOT / "docs" / "runbooks"
SECTIONS = ["What it means", "How to confirm", "What to do", "When to replace", "When it is over", "See also"]
LICENCE = "<!-- SPDX-License-Identifier: Apache-2.0 -->"
CLASSES = sorted(yaml.safe_load((ROOT / "data" / "faults" / "classes.yaml").read_text())["classes"])
PAGES = sorted(FOLDER.glob("*.md"), key=lambda p: p.stem)
OF_CLASSES = [p for p in PAGES if p.stem != "README"]
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
each_class = pytest.mark.parametrize("page", OF_CLASSES, ids=lambda p: p.stem)


class Reader(html.parser.HTMLParser):
    """What a converter makes of a page: headings, links, code."""

    def __init__(self, text):
        super().__init__()
        self.headings, self.links, self.blocks, self.spans, self.tables = [], [], [], [], 0
        self.tag = self.into = None
        self.block = False
        done = subprocess.run(["cmark", "--to", "html"], input=text, capture_output=True, text=True, check=True)
        self.feed(done.stdout)

    def handle_starttag(self, tag, attrs):
        if tag == "a":
            self.links.append(dict(attrs)["href"])
        if tag == "pre":
            self.block = True
        if re.fullmatch("h[1-6]", tag) or tag == "code":
            self.tag, self.into = tag, ""

    def handle_data(self, data):
        if self.into is not None:
            self.into += data

    def handle_endtag(self, tag):
        if tag == "pre":
            self.block = False
        if tag != self.tag:
            return
        if tag == "code":
            (self.blocks if self.block else self.spans).append(self.into)
        else:
            self.headings.append((tag, self.into))
        self.tag = self.into = None


@functools.lru_cache(None)
def read(page):
    return Reader(page.read_text())


def test_every_class_has_a_page_and_every_page_a_class():
    assert [p.stem for p in OF_CLASSES] == CLASSES


@each_class
def test_a_page_has_exactly_the_sections(page):
    lines = page.read_text().splitlines()
    assert lines[0] == LICENCE
    assert re.fullmatch(f"# {page.stem}: \\S.*[^.]", lines[1]), lines[1]
    (first, _), *rest = read(page).headings
    assert first == "h1" and [h[1] for h in rest if h[0] == "h2"] == SECTIONS
    assert all(tag in ("h2", "h3") for tag, _ in rest)


@each_class
def test_no_section_is_empty(page):
    parts = re.split(r"^## .*$", page.read_text(), flags=re.M)[1:]
    assert len(parts) == len(SECTIONS) and all(len(part.split()) >= 3 for part in parts)


def test_the_index_names_every_class():
    links = {link[:-len(".md")] for link in read(FOLDER / "README.md").links if re.fullmatch(r"[a-z0-9-]+\.md", link)}
    assert sorted(links) == CLASSES


@each_page
def test_links_lead_somewhere(page):
    for link in read(page).links:
        if re.match(r"https?://", link):
            continue
        path, _, place = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_file() and ROOT in target.parents, link
        if place:
            names = [re.sub(r"[^\w -]", "", text.lower()).replace(" ", "-") for _, text in read(target).headings]
            assert place in names, link


@each_page
def test_what_a_terminal_and_a_converter_can_show(page):
    """No tables and no raw HTML, which the converter drops; prose that is not wider than a terminal."""
    text = page.read_text()
    body = "\n".join(line for line in text.splitlines() if line != LICENCE)
    plain = re.sub(r"^```.*?^```|`[^`]*`", "", body, flags=re.M | re.S)
    assert not re.search(r"^ *\|", plain, re.M), "a table"
    assert not re.search(r"<[a-zA-Z!/]", plain), "raw HTML"
    assert max(len(re.sub(r"\]\([^)]*\)", "]", line)) for line in plain.splitlines()) <= 130


# --- commands ---------------------------------------------------------------------------------------------------------


def commands_of(page):
    """Lines of code that begin with `stoker `, and such spans within a text."""
    blocks = [line.strip() for block in read(page).blocks for line in block.splitlines()]
    return [line for line in blocks + [span.strip() for span in read(page).spans] if line.startswith("stoker ")]


def words_of(line):
    """The words of the first command of a line of shell."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words = []
    for word in lexer:
        if set(word) <= set("();<>|&"):
            break
        words.append(word)
    return words


@pytest.fixture(scope="module")
def program(stoker):
    class Program:
        @staticmethod
        @functools.lru_cache(None)
        def help(*words):
            """The help of a verb, None where there is none of this name."""
            done = subprocess.run([stoker, "help", *words], capture_output=True, text=True, check=False)
            return done.stdout if done.returncode == 0 else None

        @classmethod
        def wrong(cls, line):
            """What is wrong with a command, None nothing."""
            _, *words = words_of(line)
            if not words:
                return None
            if cls.help(words[0]) is None:
                return f"no verb {words[0]}"
            verb = words[:1]
            if len(words) > 1 and not words[1].startswith("-") and cls.help(*words[:2]) is not None:
                verb = words[:2]
            elif f"Usage: stoker {verb[0]} VERB" in cls.help(*verb):
                return f"{verb[0]} has no verb {words[1:2]}"
            known = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", cls.help(*verb).split("Options:")[1].split("\nExamples:")[0]))
            for word in words[len(verb):]:
                if word == "--":
                    break
                option = word.split("=")[0]
                if option.startswith("-") and len(option) > 1 and option not in known and \
                        option.replace("--no-", "--", 1) not in known:
                    return f"{' '.join(verb)} has no option {option}"
            return None
    return Program


@each_page
def test_commands_exist_with_their_options(page, program):
    wrong = {line: why for line in commands_of(page) if (why := program.wrong(line))}
    assert wrong == {}


@each_class
def test_runbooks_that_are_named_exist(page):
    for line in commands_of(page):
        words = words_of(line)
        if words[1:2] == ["runbook"] and len(words) > 2 and re.fullmatch("[a-z][a-z0-9-]*", words[2]):
            assert words[2] in CLASSES, line


def test_commands_are_found_at_all():
    assert sum(len(commands_of(page)) for page in OF_CLASSES) >= len(OF_CLASSES)


@pytest.mark.parametrize("line, why", [
    ("stoker relaese --for 10m", "no verb relaese"), ("stoker release --until 10m", "no option --until"),
    ("stoker incidents show ID --bundel x", "no option --bundel"), ("stoker maintenance begin --for 1h", "no verb"),
    ("stoker xid 79 -z", "no option -z"), ("stoker events --follow | grep --colour x", None),
    ("stoker incidents show ID --bundle b.json.gz   # for the case", None), ("stoker sim run x -- stoker --what", None),
    ("stoker runbook gpu-lost > page.md", None), ("stoker trace --no-such-thing x", "no option --no-such-thing"),
])
def test_the_check_sees_a_wrong_command(program, line, why):
    assert program.wrong(line) is None if why is None else why in (program.wrong(line) or "")


# --- in the program ---------------------------------------------------------------------------------------------------


@each_class
def test_the_program_has_the_page_as_it_stands(page, stoker):
    done = subprocess.run([stoker, "runbook", "--json", page.stem], capture_output=True, text=True, check=True)
    told = json.loads(done.stdout)
    assert told["class"] == page.stem
    assert told["text"] == page.read_text().split("\n", 1)[1]
    assert f"# {page.stem}: {told['title']}" == told["text"].split("\n", 1)[0]
