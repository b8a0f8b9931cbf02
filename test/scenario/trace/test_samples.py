# SPDX-License-Identifier: Apache-2.0
"""The profiles that come with the program: each has the cause that it was made with, and its maker makes it again."""
import gzip
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
SAMPLES = ROOT / "data" / "samples"
FILES = sorted(path.relative_to(SAMPLES) for path in SAMPLES.rglob("*.json.gz"))


@pytest.mark.parametrize("sample, cause, rank", [("training", "straggler", 2), ("decode.json.gz", "launch-bound", None),
                                                 ("loading.json.gz", "data-loading", None)])
def test_the_cause_of_a_sample_is_its_first_verdict(trace, sample, cause, rank):
    report = trace.report(SAMPLES / sample, codes=(1,))
    assert report["verdicts"][0]["id"] == cause and report["verdicts"][0]["rank"] == rank
    assert all(rank["lost"] == 0 for rank in report["ranks"])


def test_samples_are_what_their_maker_makes(tmp_path):
    subprocess.run([sys.executable, "-B", SAMPLES / "make.py", tmp_path], check=True)
    assert sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*.json.gz")) == FILES
    for path in FILES:
        assert gzip.decompress((tmp_path / path).read_bytes()) == gzip.decompress((SAMPLES / path).read_bytes()), path
    assert sum((SAMPLES / path).stat().st_size for path in FILES) < 150_000


def test_the_first_command_of_the_readme_runs_as_printed(trace):
    path = re.search(r"^    build/stoker trace (\S+)", (ROOT / "README.md").read_text(), re.M)[1]
    done = trace(path, cwd=ROOT)
    assert done.returncode == 1 and b"Verdict" in done.stdout
