# SPDX-License-Identifier: Apache-2.0
"""Names and circles (tools/house.py): a static function is at least verb and noun, and no two files call each other but where
one of them is a table."""
import importlib.util
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
SPEC = importlib.util.spec_from_file_location("house", ROOT / "tools/house.py")
house = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(house)


@pytest.mark.parametrize("folder", ["src", "sim"])
def test_static_functions_have_two_words(folder):
    found = {str(path.relative_to(ROOT)): house.one_word(path) for path in house.tracked(folder)}
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize("folder", ["src", "sim"])
def test_files_do_not_call_each_other_in_a_circle(build, folder):
    assert house.circles(build, folder) == []


def test_what_it_sees(tmp_path):
    path = tmp_path / "x.c"
    path.write_text("static int find(const char *x)\n{\n}\nstatic bool find_slot(void)\n{\n}\nint take(void);\n")
    assert house.one_word(path) == ["find"]
    assert sorted(map(len, house.components({"a": {"b"}, "b": {"c"}, "c": {"b"}}))) == [1, 2]


def test_tables_are_there():
    assert not [path for path in house.TABLES if not (ROOT / path).is_file()]


def test_contributing_names_every_room():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    blocks = re.split(r"(?m)^    (?=\S)", text[text.index("## The house"):text.index("## To add")])
    named = {floor: set(re.findall(r"([\w-]+)/", block)) for block in blocks for floor in re.findall(r"^(src/\w+)/", block)}
    rooms = {(path.parts[0] + "/" + path.parts[1], path.parts[2]) for path in
             (file.relative_to(ROOT) for file in house.tracked("src")) if len(path.parts) > 3}
    assert rooms
    floors = {floor for floor, room in rooms if floor != "src/verb"}
    assert floors <= named.keys()
    assert sorted(floor + "/" + room for floor, room in rooms if floor in floors and room not in named[floor]) == []
