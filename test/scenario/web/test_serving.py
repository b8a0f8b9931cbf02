# SPDX-License-Identifier: Apache-2.0
"""The page's files over HTTP: who gets which form, what a browser may keep and may do."""
import gzip
import http.client
import json
import re

BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8", "Accept-Encoding": "gzip, br"}


def ask(agent, path, headers=None, method="GET"):
    connection = http.client.HTTPConnection(agent.address, timeout=120)
    connection.request(method, path, headers=headers or {})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, {k.lower(): v for k, v in answer.getheaders()}, body


def test_a_browser_gets_the_page_and_a_script_the_list(training):
    status, fields, body = ask(training, "/", BROWSER)
    assert status == 200 and fields["content-type"] == "text/html; charset=utf-8"
    assert fields["content-encoding"] == "gzip" and "web/main.js" in gzip.decompress(body).decode()
    assert "Accept" in fields["vary"]
    for headers in ({"Accept": "*/*"}, {}, {"Accept": "text/html;q=0"}):
        status, _, body = ask(training, "/", headers)
        assert status == 200 and 'href="metrics"' in body.decode()
    status, _, body = ask(training, "/", {"Accept": "text/html"})
    assert "web/main.js" in body.decode()  # not packed for who does not ask for it


def test_the_list_is_below_api_too_and_its_links_lead_somewhere(training):
    status, fields, body = ask(training, "/api/", BROWSER)
    text = gzip.decompress(body).decode() if fields.get("content-encoding") == "gzip" else body.decode()
    assert status == 200 and '<base href="../">' in text
    for link in re.findall(r'href="([^".][^"]*)"', text):
        if "stream" not in link:
            status, _, body = ask(training, "/" + link.replace("&amp;", "&"))
            assert status in (200, 503) or b"the agent keeps no journal" in body, link


def test_every_file_says_what_it_is_and_what_it_may_do(training):
    page = ask(training, "/", {"Accept": "text/html"})[2].decode()
    files = re.findall(r'(?:href|src)="(web/[^"]+)"', page)
    assert len(files) >= 4
    weight = len(page)
    for path in [*files, ""]:
        status, fields, body = ask(training, "/" + path, {"Accept": "text/html"})
        assert status == 200, path
        assert fields["content-security-policy"].startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert fields["x-content-type-options"] == "nosniff" and fields["cache-control"] == "no-cache"
        packed = ask(training, "/" + path, BROWSER)
        assert gzip.decompress(packed[2]) == body and packed[1]["etag"] == fields["etag"]
        head = ask(training, "/" + path, BROWSER, method="HEAD")
        assert head[0] == 200 and head[2] == b"" and head[1]["etag"] == fields["etag"]
        weight += len(body)
    assert weight < 300_000


def test_what_a_browser_has_is_not_sent_again(training):
    etag = ask(training, "/web/uplot.js", BROWSER)[1]["etag"]
    status, fields, body = ask(training, "/web/uplot.js", {**BROWSER, "If-None-Match": f'"x", W/{etag}'})
    assert (status, body) == (304, b"") and fields["etag"] == etag
    assert ask(training, "/web/uplot.js", {**BROWSER, "If-None-Match": '"x"'})[0] == 200


def test_there_is_nothing_else(training):
    for path in ("/web/", "/web", "/web/../main.js", "/web/nothing.js", "/web/main.js/", "//", "/web/%2e%2e/metrics"):
        assert ask(training, path, BROWSER)[0] == 404, path
    assert ask(training, "/", {**BROWSER}, method="POST")[0] == 405
    assert json.loads(ask(training, "/api/v1/status")[2])["status"] in ("ok", "failing")
