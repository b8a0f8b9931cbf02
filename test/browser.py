# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, driven over its debugging protocol through two pipes: pages, keys, the pointer, pictures, and
everything that the page complains about or asks for. Any installed Chromium, or Debian's chromium-headless-shell unpacked."""
import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import time

LIMIT_S = 120
PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def program(root=None):
    """(path, environment) of a Chromium, unpacked below `root` or installed; None where there is none."""
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "LC_ALL": "C.UTF-8"}
    if root:
        lib = pathlib.Path(root) / "usr/lib"
        folders = [lib / "chromium", *lib.glob("*-linux-gnu"), *lib.glob("*-linux-gnu/pulseaudio"),
                   *(pathlib.Path(root) / "lib").glob("*-linux-gnu")]
        found = lib / "chromium" / PROGRAMS[0]
        if found.exists():
            # Its own fonts: without any it ends at the first letter, and /etc/fonts may not be there.
            fonts = pathlib.Path(root) / "fonts.conf"
            fonts.write_text(f"<fontconfig><dir>{root}/usr/share/fonts</dir><dir>/usr/share/fonts</dir>"
                             f"<cachedir>{root}/fonts.cache</cachedir></fontconfig>")
            return found, {**env, "LD_LIBRARY_PATH": ":".join(map(str, folders)), "FONTCONFIG_FILE": str(fonts)}
    path = next((p for p in map(shutil.which, PROGRAMS) if p), None)
    return (path, env) if path else None


class Browser:
    """A browser with one page. `complaints`: console errors, exceptions, refused loads. `asked`: addresses."""

    def __init__(self, path, env, folder):
        to_read, self.write_fd = os.pipe()
        self.read_fd, to_write = os.pipe()
        command = [str(path), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run",
                   "--remote-debugging-pipe", f"--user-data-dir={folder}", "--no-startup-window"]
        self.process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, pass_fds=(), preexec_fn=lambda: self._child(to_read, to_write),
                                        close_fds=False)
        os.close(to_read)
        os.close(to_write)
        self.rest, self.number, self.session, self.context = b"", 0, None, None
        self.fresh()

    def fresh(self):
        """Takes a new page, which knows nothing of what the one before has stored."""
        self.session, old = None, self.context
        self.context = self.call("Target.createBrowserContext")["browserContextId"]
        target = self.call("Target.createTarget", url="about:blank", browserContextId=self.context)["targetId"]
        if old:
            self.call("Target.disposeBrowserContext", browserContextId=old)
        self.complaints, self.asked = [], []
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    @staticmethod
    def _child(to_read, to_write):
        # The pipes may themselves have the numbers 3 and 4.
        low, high = os.dup(to_read), os.dup(to_write)
        while low < 5 or high < 5:
            low, high = (os.dup(low) if low < 5 else low), (os.dup(high) if high < 5 else high)
        os.dup2(low, 3)
        os.dup2(high, 4)
        os.closerange(5, 256)

    def _message(self):
        end = time.monotonic() + LIMIT_S
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.read_fd], [], [], max(0, end - time.monotonic()))
            assert ready, "the browser does not answer"
            more = os.read(self.read_fd, 1 << 20)
            assert more, "the browser ended"
            self.rest += more
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def _note(self, message):
        if message.get("sessionId") != self.session:
            return
        method, params = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.complaints.append(params["exceptionDetails"].get("exception", {}).get("description", str(params)))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.complaints.append(str(params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.asked.append(params["request"]["url"])

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write_fd, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == self.number:
                assert "error" not in answer, answer
                return answer["result"]
            self._note(answer)

    def look(self, width, height, theme="light"):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.until("document.readyState === 'complete'")
        self.frame()

    def js(self, text):
        done = self.call("Runtime.evaluate", expression=text, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def until(self, text):
        end = time.monotonic() + LIMIT_S
        while not self.js(text):
            assert time.monotonic() < end, f"never true: {text}"
            time.sleep(0.05)

    def frame(self):
        """Waits until what was asked for is drawn."""
        self.js("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def key(self, key):
        text = {"text": key} if len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)
        self.frame()

    def pointer(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)
        self.frame()

    def picture(self, path):
        """Draws what is seen into a file, as its ending says: .png or .webp."""
        how = {"format": "webp", "quality": 60} if path.suffix == ".webp" else {}
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", **how)["data"]))

    def end(self):
        self.process.kill()
        self.process.wait()
        os.close(self.read_fd)
        os.close(self.write_fd)
