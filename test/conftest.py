# SPDX-License-Identifier: Apache-2.0
"""What all Python tests share: the build folder under test, named by STOKER_BUILD (without it they are skipped), and a browser."""
import ctypes
import difflib
import importlib.util
import os
import secrets
import shutil
import signal
import string
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1]
FAILED = pytest.StashKey()


@pytest.fixture(scope="session")
def build():
    if "STOKER_BUILD" not in os.environ:
        pytest.skip("STOKER_BUILD does not name a build folder; 'make test' sets it")
    return Path(os.environ["STOKER_BUILD"]).resolve()


@pytest.fixture(scope="session")
def stoker(build):
    return build / "stoker"


@pytest.fixture(scope="session")
def golden():
    """golden(text, name): the text is that of test/data/<name>. UPDATE_GOLDEN=1 writes it anew; look at it before it is kept."""

    def check(text, name):
        path = SOURCE / "test/data" / name
        if os.environ.get("UPDATE_GOLDEN"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        want = path.read_text()
        assert text == want, "\n".join(list(difflib.unified_diff(want.split("\n"), text.split("\n"), "golden", "now", n=1))[:60])

    return check


@pytest.fixture(scope="session")
def bcrypt():
    """bcrypt(password, [cost]): a hash as web-config files have it, by the library that the agent links; Python 3.13 has no crypt."""
    library = ctypes.CDLL("libcrypt.so.1")
    library.crypt.restype = ctypes.c_char_p

    def make(password, cost=4):
        salt = "".join(secrets.choice(string.ascii_letters) for _ in range(21)) + "u"  # the last letter has two bits of it
        made = library.crypt(password.encode(), f"$2b${cost:02}${salt}".encode()).decode()
        assert len(made) == 60
        return made

    return make


def load(path):
    """A module by its file; tests are imported without a package."""
    spec = importlib.util.spec_from_file_location(f"shared_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pytest_configure(config):
    config.addinivalue_line("markers", "slow(why): left to 'make test-all'")
    config.option.markexpr = config.option.markexpr or "not slow"
    # A program under test starts with no signal ignored, also where the tests run in the background or under nohup: unlike what is
    # ignored, a handler is not inherited.
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


@pytest.hookimpl(tryfirst=True)  # before pytest selects by marker
def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.is_relative_to(SOURCE / "test/peer"):
            item.add_marker(pytest.mark.slow("other people's programs"))
    load(SOURCE / "test/order.py").longest_first(items)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Removes the folder of a test that has passed."""
    report = (yield).get_result()
    item.stash[FAILED] = item.stash.get(FAILED, False) or report.failed
    if call.when == "teardown" and not item.stash[FAILED] and "tmp_path" in item.funcargs:
        shutil.rmtree(item.funcargs["tmp_path"], ignore_errors=True)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return load(SOURCE / "test/order.py").Scheduling(config, log)


@pytest.fixture(scope="session")
def fetched(build):
    """fetched(name): the root of an unpacked program (test/peer/fetch.py); skips the test where it cannot be had."""
    fetch = load(SOURCE / "test/peer/fetch.py")
    peers = fetch.Peers(build / "peers")

    def get(name):
        try:
            return peers.get(name)
        except fetch.Unavailable as reason:
            return pytest.skip(f"{name} cannot be fetched: {reason}")

    return get


@pytest.fixture(scope="session")
def chromium(request):
    """browser.py and the program and environment of a Chromium: this machine's own, else one of Debian's archive,
    unpacked as the peers are."""
    browser = load(SOURCE / "test/browser.py")
    found = browser.program()
    if found:
        return browser, found
    found = browser.program(request.getfixturevalue("fetched")("chromium"))
    if not found:
        pytest.skip("the Chromium that was fetched has no headless shell")
    return browser, found


@pytest.fixture(scope="session")
def one_browser(chromium, tmp_path_factory):
    module, (path, env) = chromium
    made = module.Browser(path, env, tmp_path_factory.mktemp("browser"))
    yield made
    made.end()


@pytest.fixture
def browser(one_browser):
    """The browser of all tests, with a page that is new."""
    one_browser.fresh()
    return one_browser
