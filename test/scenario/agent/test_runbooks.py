# SPDX-License-Identifier: Apache-2.0
"""Runbooks as the agent serves them, and the way there from an alert and from an incident."""
import base64
import hashlib
import html.parser
import json
import pathlib
import re
import urllib.parse

import pytest
from agent_rig import until

FOLDER = pathlib.Path(__file__).resolve().parents[3] / "docs" / "runbooks"
CLASSES = sorted(p.stem for p in FOLDER.glob("*.md") if p.stem != "README")
IDLE = "about: nothing runs\ngpus: {board: h100-sxm-80gb, count: 8}\ntruth: []\n"
EMPTY = {"meta", "br", "hr", "img", "link"}


class Read(html.parser.HTMLParser):
    """A page as a browser takes it: open tags, links, what it would load, texts by tag."""

    def __init__(self, text):
        super().__init__()
        self.open, self.seen, self.links, self.loads, self.texts = [], set(), [], [], {}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.seen.add(tag)
        self.links += [attrs["href"]] if tag == "a" else []
        self.loads += [v for k, v in attrs.items() if k in ("src", "srcset", "style") or (k == "href" and tag != "a") or k.startswith("on")]
        if tag not in EMPTY:
            self.open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, data):
        for tag in set(self.open):
            self.texts[tag][-1] += data


def page_of(agent, path):
    status, text = agent.get(path)
    assert status == 200 and agent.headers["Content-Type"] == "text/html; charset=utf-8", (path, status, text)
    return Read(text)


def test_every_page_is_served_and_leads_on(shared_agent):
    """From the index along every link, as a browser resolves them."""
    to_read, read = ["/runbooks/"], {}
    while to_read:
        path = to_read.pop()
        if path in read:
            continue
        page = read[path] = page_of(shared_agent, path)
        assert page.open == [], path
        for link in page.links:
            if re.match("https?://", link):
                continue
            target = urllib.parse.urljoin(path, link)
            assert target == "/" or re.fullmatch(r"/runbooks/[a-z0-9-]*", target), (path, link)
            if target != "/":
                to_read.append(target)
    assert sorted(read) == ["/runbooks/", *(f"/runbooks/{name}" for name in CLASSES)]
    for name in CLASSES:
        page = read[f"/runbooks/{name}"]
        assert page.texts["h1"] == [page.texts["title"][0]] and page.texts["h1"][0].startswith(f"{name}: ")
        assert len(page.texts["h2"]) == 6


@pytest.mark.parametrize("path", ["/runbooks/", "/runbooks/gpu-lost"])
def test_a_page_runs_nothing_and_loads_nothing(shared_agent, path):
    page = page_of(shared_agent, path)
    policy = dict(part.strip().split(" ", 1) for part in shared_agent.headers["Content-Security-Policy"].split(";"))
    digest = base64.b64encode(hashlib.sha256(page.texts["style"][0].encode()).digest()).decode()
    assert policy == {"default-src": "'none'", "style-src": f"'sha256-{digest}'", "base-uri": "'none'", "form-action": "'none'",
                      "frame-ancestors": "'none'"}
    assert page.loads == [] and not page.seen & {"script", "iframe", "object", "img", "link", "form", "base"}
    assert "prefers-color-scheme: dark" in page.texts["style"][0]
    assert shared_agent.headers["X-Content-Type-Options"] == "nosniff"


def test_a_page_says_what_its_markdown_says(shared_agent):
    """Every word of the prose is on the page, in its order; links to the checkout are words alone."""
    page = page_of(shared_agent, "/runbooks/gpu-lost")
    prose = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", (FOLDER / "gpu-lost.md").read_text().split("\n", 1)[1])
    words = [re.findall(r"[A-Za-z0-9]+", text) for text in (re.sub(r"^\d+\. ", "", prose, flags=re.M), page.texts["main"][0])]
    assert words[0] == words[1]
    assert not any(".." in link and link != "../" for link in page.links)


@pytest.mark.parametrize("path", ["/runbooks/gpu-lots", "/runbooks/README", "/runbooks/gpu-lost.md", "/runbooks/gpu-lost/", "/runbooksx",
                                  "/runbooks/../healthz", "/runbooks/%2e%2e/README.md", "/runbooks/" + "a" * 3000])
def test_other_pages_are_not_there(shared_agent, path):
    status, text = shared_agent.get(path)
    assert status == 404 and "error" in json.loads(text)


def test_the_place_without_its_slash_leads_there(shared_agent):
    status, _ = shared_agent.get("/runbooks")
    assert status == 308
    assert urllib.parse.urljoin("http://node/prefix/runbooks", shared_agent.headers["Location"]) == "http://node/prefix/runbooks/"


def test_the_front_page_names_them(shared_agent):
    assert '<a href="runbooks/">' in shared_agent.get("/")[1]


def test_whoever_needs_a_password_needs_it_here(make_node, make_agent, tmp_path):
    # "secret", at bcrypt's least cost
    (tmp_path / "web.yaml").write_text("basic_auth_users: {sre: $2b$04$abcdefghijklmnopqrstuuxFjoALSZiv4Eq3n4PfVWSuyx3oQ3Wx6}\n")
    agent = make_agent(make_node().env, ready=False, options=["--web-config-file", tmp_path / "web.yaml"])
    for path in ("/runbooks/", "/runbooks/gpu-lost", "/runbooks", "/runbooks/no-such"):
        assert agent.get(path)[0] == 401


@pytest.fixture
def told(make_node, make_agent, tmp_path):
    """An agent that writes the link of each alert into a file: (node, agent, links)."""
    links = tmp_path / "links"

    def start(more=""):
        (tmp_path / "idle.yaml").write_text(IDLE)
        (tmp_path / "agent.yaml").write_text(
            f"{more}alerts:\n  receivers:\n    file:\n      command: [/bin/sh, -c, 'echo \"$STOKER_CLASS $STOKER_RUNBOOK\" >> {links}']\n")
        log = tmp_path / "kmsg"
        node = make_node(str(tmp_path / "idle.yaml"), options=("--kernel-log", str(log)))
        agent = make_agent(node.env, options=["--kernel-log", log, "--journal", tmp_path / "journal.db", "--config", tmp_path / "agent.yaml"])

        def link(name):
            lines = links.read_text().splitlines() if links.exists() else []
            return next((line.split(" ")[1] for line in lines if line.startswith(name + " ")), None)

        return node, agent, link

    return start


def test_an_alerts_link_opens_here(told):
    node, agent, link = told()
    node.inject("xid", "79", "gpu=3")
    url = until(lambda: link("gpu-lost"), agent.log_text)
    assert url == f"{agent.scheme}://{agent.address}/runbooks/gpu-lost"
    assert page_of(agent, urllib.parse.urlsplit(url).path).texts["h1"][0].startswith("gpu-lost: ")
    one = next(i for i in json.loads(agent.verb("incidents", "--json").stdout)["incidents"] if i["class"] == "gpu-lost")
    shown = agent.verb("runbook", one["id"])
    assert shown.returncode == 0 and shown.stdout == (FOLDER / "gpu-lost.md").read_text().split("\n", 1)[1]
    assert "stoker runbook gpu-lost" in agent.verb("incidents", "show", one["id"]).stdout
    missing = agent.verb("runbook", "1jf8v3k2m0")
    assert missing.returncode == 3 and "there is no incident '1jf8v3k2m0'" in missing.stderr


def test_the_external_url_stands_before_it(told):
    node, agent, link = told("external_url: https://gpu.example/node7\n")
    node.inject("xid", "79", "gpu=3")
    assert until(lambda: link("gpu-lost"), agent.log_text) == "https://gpu.example/node7/runbooks/gpu-lost"
