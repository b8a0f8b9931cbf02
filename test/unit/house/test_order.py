# SPDX-License-Identifier: Apache-2.0
"""The order of the Python tests (test/order.py): what it names is there, and only what shares nothing is spread."""
import importlib.util
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[3]
SPEC = importlib.util.spec_from_file_location("order", ROOT / "test/order.py")
order = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(order)


class Item:
    def __init__(self, nodeid):
        self.nodeid = nodeid


def test_what_is_named_is_there():
    assert not [path for path in order.RANK if not (ROOT / path).is_file()]
    suites = {path for suite in order.SUITES.values() for path in suite}
    assert not [path for path in {*order.SUITES, *suites, *order.BYTES, *order.THREADS} if not (ROOT / path).exists()]
    assert len(order.RANK) == len(order.TOGETHER) + len(order.SPREAD), "a file is named once"


def test_what_is_spread_shares_nothing():
    shared = ('scope="module"', "scope='module'", "shared_agent")
    assert not [path for path in order.SPREAD for word in shared if word in (ROOT / path).read_text()]


def test_the_longest_come_first_and_the_rest_stays_in_order():
    last, first = f"{order.SPREAD[-1]}::test_x[a::b]", f"{order.TOGETHER[0]}::test_y"
    items = [Item("test/unit/b.py::test_1"), Item(last), Item("test/unit/a.py::test_2"), Item(first)]
    order.longest_first(items)
    assert [item.nodeid for item in items] == [first, last, "test/unit/b.py::test_1", "test/unit/a.py::test_2"]


def test_what_a_change_can_break():
    assert order.suites_of("src/service/alert/route.c") == order.SUITES["src/service/alert"]
    assert order.suites_of("src/service/new/x.c") == order.SUITES["src/service"]
    assert order.suites_of("test/unit/http/test_http_stream.py") == ("test/unit/http/test_http_stream.py",)
    assert order.suites_of("test/unit/http/conftest.py") == ("test/unit/http",)
    assert order.suites_of("test/conftest.py") is None and order.suites_of("src/base/str.c") is None


def test_who_goes_with_whom():
    scope = order.Scheduling._split_scope
    spread, together = order.SPREAD[0], order.TOGETHER[0]
    assert scope(None, f"{spread}::test_x[a]") != scope(None, f"{spread}::test_x[b]")
    assert scope(None, f"{together}::test_x[a]") == scope(None, f"{together}::test_y") == together
