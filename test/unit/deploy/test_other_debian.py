# SPDX-License-Identifier: Apache-2.0
"""The other supported Debian, in a root of its own: the tree builds there without a warning, the C tests and those of HTTP, TLS and
gRPC pass, and an agent on the simulated node answers a scrape. The root stays in the build folder, so that a second run only builds what has changed."""
import re

import pytest

pytestmark = pytest.mark.slow("builds and tests in a root of the other Debian")

OTHER = {"12": "trixie", "13": "bookworm"}
SCRAPE = """cd /src/build
./stoker sim run default -- ./stoker agent --listen 127.0.0.1:29413 --control /tmp/stoker.sock --journal none & agent=$!
for try in $(seq 600); do
    if page=$(curl -s http://127.0.0.1:29413/metrics) && echo "$page" | grep -q '^DCGM_FI_DEV_GPU_TEMP'; then break; fi
    sleep 0.1
done
echo "$page"
for again in 1 2 3; do curl -sf http://127.0.0.1:29413/healthz >/dev/null; done
kill $agent; wait $agent || true
"""


@pytest.fixture(scope="module")
def inside(debian_root, this_debian, source):
    """Runs a shell script in the root; /src is the tree."""
    root = debian_root(OTHER.get(this_debian) or pytest.skip("this machine is neither Debian 12 nor 13"))
    root.copy(source)
    root.run("cd /src && tools/deps.sh build test")
    return root.run


def test_it_builds_without_a_warning(inside):
    inside("cd /src && { [ -f build/build.ninja ] || meson setup build --werror; } && ninja -C build")


def test_the_c_tests_pass(inside):
    inside("cd /src && meson test -C build --no-rebuild --print-errorlogs --timeout-multiplier 10")


def run_tests(inside, paths):
    inside("cd /src && STOKER_BUILD=$PWD/build PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 -m pytest -q -p no:cacheprovider --import-mode=importlib -n 2 "
           + paths)


def test_the_tests_of_http_and_tls_pass(inside):
    run_tests(inside, "test/unit/http test/unit/fetch test/unit/alert test/scenario/agent/test_doors.py")


def test_the_tests_of_grpc_and_the_cluster_pass(inside):
    run_tests(inside, "test/unit/podresources test/scenario/agent/test_cluster.py test/scenario/agent/test_kubelet.py test/scenario/agent/test_who_kubelet.py")


def test_an_agent_answers_a_scrape(inside):
    page = inside(SCRAPE)
    assert len(re.findall(r"^DCGM_FI_DEV_GPU_TEMP\{", page, re.M)) == 8, page
