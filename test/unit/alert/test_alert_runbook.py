# SPDX-License-Identifier: Apache-2.0
"""Where an alert's runbook link leads: the route's, the catalogue's, our own page of the class, or nowhere."""
import json

import pytest

OURS = "http://node7:9400/runbooks/gpu-lost"


@pytest.mark.parametrize("name, catalogue, route, url", [
    ("gpu-lost", "", None, OURS),
    ("gpu-lost", "https://wiki/catalogue", None, "https://wiki/catalogue"),
    ("gpu-lost", "https://wiki/catalogue", "https://wiki/{class}", "https://wiki/gpu-lost"),
    ("gpu-lost", "", "https://wiki/{class}", "https://wiki/gpu-lost"),
    ("lab-door", "", None, None),
    ("lab-door", "https://wiki/door", None, "https://wiki/door"),
    ("lab-door", "", "https://wiki/{class}", "https://wiki/lab-door"),
])
def test_which_runbook_is_linked(start, hook, name, catalogue, route, url):
    hook = hook()
    driver = start(f"""
receivers:
  h: {{webhook: {{url: "{hook.url}/in"}}}}
routes:
  - {{receiver: h{f", runbook: '{route}'" if route else ""}}}
""")
    driver.tell(id="a", runbook=catalogue, **{"class": name})
    post, = hook.wait()
    assert post.json["runbook_url"] == url


@pytest.mark.parametrize("external, url", [
    ("https://proxy.example/node7/", "https://proxy.example/node7/runbooks/gpu-lost"),
    ("https://proxy.example/node7", "https://proxy.example/node7/runbooks/gpu-lost"),
])
def test_the_external_url_leads_there(start, hook, external, url):
    hook = hook()
    driver = start(f"""
external_url: {external}
receivers: {{h: {{webhook: {{url: "{hook.url}/in"}}}}}}
routes: [{{receiver: h}}]
""")
    driver.tell(id="a", runbook="", **{"class": "gpu-lost"})
    post, = hook.wait()
    assert post.json["runbook_url"] == url and json.loads(post.body)["url"].startswith("https://proxy.example/node7/#")


@pytest.mark.parametrize("name, url", [("gpu-lost", OURS), ("lab-door", None)])
def test_an_alertmanager_gets_the_link_or_no_annotation(start, hook, name, url):
    hook = hook()
    driver = start(f'receivers: {{am: {{alertmanager: {{urls: ["{hook.url}"]}}}}}}\n')
    driver.tell(id="a", runbook="", **{"class": name})
    post, = hook.wait()
    assert post.json[0]["annotations"].get("runbook_url") == url
