# SPDX-License-Identifier: Apache-2.0
"""What stands between the browser and an agent in the tests of the page: a small proxy with a path prefix, which can be told to
serve another agent, to be down, to change what the agent says, and to play a stream of its own. And the browser itself, with what
a visitor would notice: complaints, requests to elsewhere."""
import contextlib
import gzip
import http.client
import http.server
import json
import pathlib
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "test/scenario/agent"))
import agent_rig as rig  # noqa: E402

PASSED_ON = ("Accept", "Accept-Encoding", "If-None-Match")
# What a browser says of a connection that was cut or refused on purpose; and of an agent that has just begun and knows no GPU yet.
CUT = ("ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_EMPTY_RESPONSE", "ERR_CONNECTION_RESET", "502 (Bad Gateway)", "503 (Service",
       "ERR_CONNECTION_CLOSED", "404 (Not Found)")


class Proxy:
    """http://127.0.0.1:PORT/PREFIX/ is the agent at `address`. `change[path]`: a function of the JSON that the agent answers there;
    `rewrite`: a function of any path with its query and the JSON there, or None; `way`: a function of the path that was asked for to
    the agent's; `stream`: a function that yields (event, data) instead of the agent's own; `down`: answer 502 to everything; `strays`: paths
    that were asked for outside the prefix."""

    def __init__(self, address, prefix="/site/7/"):
        self.address, self.prefix = address, prefix
        self.change, self.rewrite, self.way, self.stream, self.down, self.strays, self.open = {}, None, lambda path: path, None, False, [], set()
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                with contextlib.suppress(OSError):
                    proxy.answer(self)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}{prefix}"

    def answer(self, handler):
        if not handler.path.startswith(self.prefix):
            self.strays.append(handler.path)
            return self.plain(handler, 404, b"nothing here")
        path = "/" + handler.path[len(self.prefix):]
        if self.down:
            return self.plain(handler, 502, b"bad gateway")
        if path == "/api/v1/stream":
            return self.pass_stream(handler)
        try:
            status, fields, body = self.ask(self.way(path), {k: v for k, v in handler.headers.items() if k in PASSED_ON})
        except OSError:
            return self.plain(handler, 502, b"bad gateway")
        change = self.change.get(path.split("?")[0])
        if (change or self.rewrite) and status == 200 and fields.get("Content-Type") == "application/json":
            text = gzip.decompress(body) if fields.pop("Content-Encoding", "") == "gzip" else body
            told = json.loads(text)
            told = change(told) if change else told
            body = json.dumps(self.rewrite(path, told) if self.rewrite else told).encode()
        return self.plain(handler, status, body, fields)

    def ask(self, path, headers):
        connection = http.client.HTTPConnection(self.address, timeout=120)
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        body = answer.read()
        fields = {k: v for k, v in answer.getheaders() if k.lower() not in ("content-length", "transfer-encoding", "connection", "date")}
        connection.close()
        return answer.status, fields, body

    @staticmethod
    def plain(handler, status, body, fields=None):
        handler.send_response(status)
        for name, value in (fields or {}).items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def pass_stream(self, handler):
        handler.close_connection = True
        if self.stream:
            self.begin(handler)
            for event, data in self.stream():
                handler.wfile.write(f"event: {event}\ndata: {json.dumps(data)}\n\n".encode())
                handler.wfile.flush()
            return
        connection = http.client.HTTPConnection(self.address, timeout=120)
        try:
            connection.request("GET", "/api/v1/stream")
            answer = connection.getresponse()
        except OSError:
            return self.plain(handler, 502, b"bad gateway")
        self.begin(handler)
        self.open.add(connection)
        try:
            while part := answer.read1(65536):
                handler.wfile.write(part)
                handler.wfile.flush()
        except (OSError, http.client.HTTPException):
            pass
        self.open.discard(connection)
        connection.close()

    @staticmethod
    def begin(handler):
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Connection", "close")
        handler.end_headers()

    def end(self):
        self.server.shutdown()
        self.server.server_close()


class Visitor:
    """A browser at the page."""

    def __init__(self, browser, url):
        self.browser, self.url = browser, url
        self.js, self.look = browser.js, browser.look

    def open(self, way="", width=1400, height=900, theme="light"):
        self.look(width, height, theme)
        self.browser.open("about:blank")
        self.browser.open(self.url + way)
        self.until("document.documentElement.dataset.script === 'yes'")
        self.until("document.getElementById('contact').dataset.state === 'live'")
        self.until("document.querySelector('#view').children.length > 0")
        return self

    def go(self, way):
        self.js(f"location.hash = {json.dumps(way)}")
        self.browser.frame()
        self.browser.frame()

    def until(self, text, limit=rig.PATIENCE):
        """What it gives, once it is true."""
        end = time.monotonic() + limit
        while not (found := self.js(text)):
            if time.monotonic() > end:
                raise AssertionError(f"never true: {text}\n{self.text('main')[:2000]}")
            time.sleep(0.05)
        return found

    def text(self, what):
        return self.js(f"document.querySelector({json.dumps(what)})?.innerText ?? ''")

    def texts(self, what):
        return self.js(f"[...document.querySelectorAll({json.dumps(what)})].map((e) => e.innerText)")

    def click(self, what):
        """What is drawn anew each second may be away for a moment: clicks as soon as it is there."""
        self.until(f"((one) => {{ one?.click(); return one !== null; }})(document.querySelector({json.dumps(what)}))")
        self.browser.frame()

    def settled(self):
        """Charts are drawn and nothing is being fetched any more."""
        self.until("performance.getEntriesByType('resource').every((r) => r.name.endsWith('stream') || r.responseEnd > 0)")
        self.browser.frame()

    def weight(self):
        """What the page holds once all that can be thrown away is: nodes, listeners, bytes of its scripts' heap."""
        for _ in range(2):  # what the first round found dead had held others
            self.browser.call("HeapProfiler.collectGarbage")
        counters = self.browser.call("Memory.getDOMCounters")
        return counters["nodes"], counters["jsEventListeners"], self.browser.call("Runtime.getHeapUsage")["usedSize"]

    def complaints(self, cut=False):
        """What it complained about; `cut`: connections were cut on purpose."""
        return [c for c in self.browser.complaints if not (cut and any(word in c for word in CUT))]


def foreign(asked, urls):
    """What was asked of other places than these."""
    here = {url.split("/")[2] for url in urls}
    return [a for a in asked if a != "about:blank" and a.split("/")[2:3] and a.split("/")[2] not in here]
