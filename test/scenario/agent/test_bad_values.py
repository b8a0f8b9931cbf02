# SPDX-License-Identifier: Apache-2.0
"""A value that is found wrong only after its file was read is named with file, line, column and key: by --check-config, at the
start, and at a reload, which leaves the configuration of before in force. Covers src/base/opt.c (opt_add_place, opt_fail),
src/verb/agent/config.c."""
import contextlib
import os
import re
import signal
import socket
import subprocess

import pytest
from agent_rig import until

LONG = "/" + "x" * 120
HOOK = "alerts:\n  receivers:\n  - name: desk\n    webhook:\n      url: http://127.0.0.1:9/\n"
ROUTE = HOOK + "  routes:\n  - receiver: desk\n    match:\n"

# text of the file ({t}: the test's folder), where, of which key, why
ROWS = {
    "devices": ("log: {level: info}\ndevices: 'g:0-'\n", "2:10", "devices", "'g:0-' selects no devices"),
    "links": ("switch_devices: x\n", "1:17", "switch_devices", "selects no devices"),
    "no address": ("listen: ''\n", "1:9", "listen", "at least one address"),
    "no address in a list": ("listen: []\n", "1:9", "listen", "at least one address"),
    "the second address": ("listen:\n- 127.0.0.1:0\n- 70000\n", "3:3", "listen", "'70000': expected"),
    "interval": ("collect_interval: 50\n", "1:19", "collect_interval", "50 ms is out of range"),
    "no counters": ("collectors: {t}/none.csv\n", "1:13", "collectors", "none.csv.*No such file"),
    "useless counters": ("collectors: {t}/bad.csv\n", "1:13", "collectors", "bad.csv: no row"),
    "strict counters": ("strict_counters: true\ncollectors: {t}/half.csv\n", "2:13", "collectors", "half.csv:2: "),
    "ConfigMap": ("configmap_data: counters\n", "1:17", "configmap_data", "NAMESPACE:NAME"),
    "a pod's labels": ("kubernetes:\n  pod_label_allowlist_regex: [^team$, '(open']\n", "2:39",
                       "kubernetes.pod_label_allowlist_regex", r"'\(open' is no extended regular expression"),
    "the kubelet's socket": (f"kubernetes:\n  socket: {LONG}\n", "2:11", "kubernetes.socket", "longer than 107 bytes"),
    "no kubelet's socket": ("kubernetes: {socket: ''}\n", "1:22", "kubernetes.socket", "must not be empty"),
    "control socket": (f"control: {LONG}\n", "1:10", "control", "longer than 107 bytes"),
    "sampler's socket": (f"sampler: {{socket: {LONG}}}\n", "1:19", "sampler.socket", "longer than 107 bytes"),
    "sampler": ("sampler:\n  program: {t}/none\n", "2:12", "sampler.program", "/none'.*No such file"),
    "a sampler that may not run": ("sampler: {program: {t}/bad.csv}\n", "1:20", "sampler.program", "Permission denied"),
    "library": ("driver: {library: /" + 5 * 1000 * "x" + "}\n", "1:19", "driver.library", "longer than 4095 bytes"),
    "host engine": ("dcgm:\n  address: " + 300 * "x" + "\n", "2:12", "dcgm.address", "longer than 255 bytes"),
    "root": ("root: {t}/none\n", "1:7", "root", "/none'.*No such file"),
    "URL": ("external_url: stoker.example.org\n", "1:15", "external_url", "no URL of http"),
    "the second file of faults": ("faults:\n  files:\n  - {t}/faults\n  - {t}/none.yaml\n", "4:5", "faults.files", "No such file"),
    "web-config": ("web:\n  config_file: {t}/none.yml\n", "2:16", "web.config_file", "none.yml.*No such file"),
    "within the web-config": ("web: {config_file: {t}/web.yml}\n", "1:20", "web.config_file",
                              r"/web.yml:2:14: 'tls_server_config.cert_file': .*none.crt.*No such file"),
    "an alert's URL": (HOOK.replace("http://127.0.0.1:9/", "desk"), "5:12", "url", "'desk' is not a URL"),
    "the second URL": ("alerts: {receivers: {am: {alertmanager: {urls: [http://a, ftp://b]}}}}\n", "1:59", "urls", "ftp://b"),
    "secret": (HOOK + "      secret_file: {t}/none\n", "6:20", "secret_file", "/none.*No such file"),
    "empty secret": (HOOK + "      bearer_file: {t}/empty\n", "6:20", "bearer_file", "not one line of text"),
    "authorities": (HOOK + "      tls: {ca_file: none.pem}\n", "6:22", "tls.ca_file", "{t}/none.pem.*No such file"),
    "certificate alone": (HOOK + "      tls:\n        cert_file: a\n", "7:20", "tls.cert_file", "needs 'tls.key_file'"),
    "key alone": (HOOK + "      tls:\n        key_file: a\n", "7:19", "tls.key_file", "needs 'tls.cert_file'"),
    "user alone": (HOOK + "      basic_auth: {username: a}\n", "6:30", "basic_auth.username", "needs 'basic_auth.password_file'"),
    "two ways to be known": (HOOK + "      basic_auth: {username: a, password_file: p}\n      bearer_file: b\n", "7:20",
                             "bearer_file", "one is enough"),
    "receiver": (ROUTE.replace("receiver: desk", "receivers: [desk, pager]"), "7:23", "receivers", "no receiver 'pager'"),
    "class": (ROUTE + "      class: [gpu-*, gpu-lots]\n", "9:22", "match.class", "no class 'gpu-lots'"),
    "GPU": (ROUTE + "      gpu:\n      - 0\n      - first\n", "11:9", "match.gpu", "'first' is neither"),
    "cause": (ROUTE + "      cause: heat\n", "9:14", "match.cause", "'heat' is no cause"),
    "links in alerts": ("alerts: {external_url: nowhere}\n", "1:24", "external_url", "is not a URL"),
    "day": ("maintenance:\n- from: '02:00'\n  for: 1h\n  days: [mon, someday]\n", "4:15", "days", "'someday' is no day"),
    "time of day": ("maintenance: [{from: noon, for: 1h}]\n", "1:22", "from", "must be a time of day"),
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "bad.csv").write_text("nonsense\n")
    (tmp_path / "bad.csv").chmod(0o644)
    (tmp_path / "half.csv").write_text("DCGM_FI_DEV_GPU_TEMP, gauge, core\nDCGM_FI_DEV_GPU_TEMP, gauge, twice\n")
    (tmp_path / "empty").write_text("")
    (tmp_path / "faults").mkdir()
    (tmp_path / "web.yml").write_text("tls_server_config:\n  cert_file: none.crt\n  key_file: none.key\n")
    return tmp_path


def expect(folder, row):
    """The file's text, and what is said about it."""
    text, place, key, why = row
    said = rf"{re.escape(str(folder))}/stoker\.yaml:{place}: '{re.escape(key)}'(: | ).*{why.replace('{t}', str(folder))}"
    return text.replace("{t}", str(folder)), said


def environment(folder):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("STOKER_", "DCGM_", "NVIDIA_"))}
    return {**kept, "STOKER_CONTROL": str(folder / "control"), "STOKER_JOURNAL": "none", "STOKER_KERNEL_LOG": "none",
            "STOKER_DRIVER_LIBRARY": str(folder / "none.so")}


@pytest.mark.parametrize("name", ROWS)
def test_a_bad_value_is_named_by_a_check_and_at_the_start(stoker, folder, name):
    text, said = expect(folder, ROWS[name])
    (folder / "stoker.yaml").write_text(text)
    for options in (["--check-config"], []):
        run = subprocess.run([stoker, "agent", "--config", folder / "stoker.yaml", *options], env=environment(folder),
                             capture_output=True, text=True, timeout=120)
        assert run.returncode in (2, 3) and re.search(said, run.stderr), (options, run.returncode, run.stderr)
        assert run.stdout == ""


def test_a_bad_value_is_named_at_a_reload(agent_on, folder):
    config, counters = folder / "stoker.yaml", folder / "counters.csv"
    counters.write_text("DCGM_FI_DEV_GPU_TEMP, gauge, core\n")
    good = f"collectors: {counters}\n"
    config.write_text(good)
    _, agent = agent_on(options=["--config", config])
    rows = {k: v for k, v in ROWS.items() if v[2] not in ("listen", "root")}  # command line and environment have others
    rows["a list without rows"] = ("collectors: {t}/empty\n", "1:13", "collectors", "no metric is in it any more")
    for name, row in rows.items():
        text, said = expect(folder, row)
        config.write_text(text)
        agent.process.send_signal(signal.SIGHUP)
        until(lambda: re.search(said + ".*the configuration of before stays in force", agent.log_text()),
              lambda: f"{name}: {said} in {agent.log_text()[-3000:]}")
        assert agent.page().names() >= {"DCGM_FI_DEV_GPU_TEMP"} and agent.page().one("stoker_config_last_reload_successful") == 0
    config.write_text(good)
    until(lambda: agent.page().one("stoker_config_last_reload_successful") == 1, agent.log_text)


def test_a_fast_period_that_is_the_longer_one_is_noted(stoker, folder):
    (folder / "stoker.yaml").write_text("sample:\n  normal: 1s\n  fast: 2s\n")
    run = subprocess.run([stoker, "agent", "--check-config", "--config", folder / "stoker.yaml"], env=environment(folder),
                         capture_output=True, text=True, timeout=120)
    assert run.returncode == 0 and f"note: {folder}/stoker.yaml:3:9: 'sample.fast': it is longer" in run.stdout


def test_a_file_that_may_still_come_is_noted(stoker, folder):
    (folder / "stoker.yaml").write_text(f"""faults: {{kernel_log: {folder}/none, journalctl: {folder}/none}}
driver: {{library: {folder}/none}}
dcgm: {{library: {folder}/none}}
sampler: {{socket: {folder}/none}}
hpc_job_mapping_dir: {folder}/none
kubernetes:
  socket: {folder}/none
  account: {folder}/none
""")
    names = {k: v for k, v in environment(folder).items() if k not in ("STOKER_KERNEL_LOG", "STOKER_DRIVER_LIBRARY")}
    run = subprocess.run([stoker, "agent", "--check-config", "--config", folder / "stoker.yaml"], env=names, capture_output=True,
                         text=True, timeout=120)
    assert run.returncode == 0
    noted = re.findall(r"note: .*/stoker.yaml:(\d+):\d+: '([a-z_.]+)': '.*/none': No such file or directory\n", run.stdout)
    assert sorted(noted) == [("1", "faults.journalctl"), ("1", "faults.kernel_log"), ("2", "driver.library"), ("3", "dcgm.library"),
                             ("4", "sampler.socket"), ("5", "hpc_job_mapping_dir"), ("7", "kubernetes.socket"),
                             ("8", "kubernetes.account")], run.stdout
    (folder / "stoker.yaml").write_text("faults: {kernel_log: none}\ndriver: {library: libnvidia-ml.so.1}\n")
    run = subprocess.run([stoker, "agent", "--check-config", "--config", folder / "stoker.yaml"], env=names, capture_output=True,
                         text=True, timeout=120)
    assert run.returncode == 0 and "note: " not in run.stdout  # words and names that the linker finds; nothing of defaults


def test_an_address_that_cannot_be_had_is_named(stoker, folder):
    config = folder / "stoker.yaml"
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        for text, place in ((f"listen: [127.0.0.1:0, 127.0.0.1:{port}]\n", "1:23"), (f"listen: 'unix:{folder}/bad.csv'\n", "1:9"),
                            ("web: {systemd_socket: true}\n", "1:23")):
            config.write_text(text)
            run = subprocess.run([stoker, "agent", "--config", config], env=environment(folder), capture_output=True, text=True,
                                 timeout=120)
            key = "web.systemd_socket" if "systemd" in text else "listen"
            assert run.returncode == 3 and f"{config}:{place}: '{key}': " in run.stderr, run.stderr


def test_a_path_without_which_the_agent_runs_is_named_too(agent_on, folder):
    config = folder / "stoker.yaml"
    config.write_text(f"journal:\n  path: {folder}/bad.csv/journal.db\nhpc_job_mapping_dir: {folder}/none\n")
    _, agent = agent_on(options=["--config", config])
    for place, key, why in (("2:9", "journal.path", "is there and no directory"), ("3:22", "hpc_job_mapping_dir", "open directory .*No such file")):
        until(lambda: re.search(rf"stoker\.yaml:{place}: '{key}': .*{why}", agent.log_text()), agent.log_text)


@pytest.mark.parametrize("options, variables, said", [
    (["--address", "nowhere"], {}, "option --address: .*'nowhere'"), (["-d", "x"], {}, "option --devices: 'x' selects"),
    ([], {"DCGM_EXPORTER_DEVICES_STR": "x"}, "environment variable DCGM_EXPORTER_DEVICES_STR: 'x' selects"),
    (["--faults", "/none,/none"], {}, "option --faults: .*No such file"),
])
def test_a_flag_and_a_variable_are_named(stoker, folder, options, variables, said):
    (folder / "stoker.yaml").write_text("listen: 127.0.0.1:0\ndevices: g\n")
    run = subprocess.run([stoker, "agent", "--check-config", "--config", folder / "stoker.yaml", *options],
                         env={**environment(folder), **variables}, capture_output=True, text=True, timeout=120)
    assert run.returncode == 2 and re.search(f"stoker agent: {said}", run.stderr), run.stderr
