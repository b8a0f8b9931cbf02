# SPDX-License-Identifier: Apache-2.0
"""The agent's doors: certificates that are renewed, and who may ask what on the control socket."""
import os
import pathlib
import shutil
import ssl
import subprocess
import tempfile

import pytest
from agent_rig import until


def make_certificate(folder, name):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                    "-subj", f"/CN={name}", "-keyout", folder / "key.new", "-out", folder / "cert.new"], check=True, capture_output=True)
    os.rename(folder / "key.new", folder / "key.pem")
    os.rename(folder / "cert.new", folder / "cert.pem")


def served_name(agent):
    host, port = agent.address.rsplit(":", 1)
    pem = ssl.get_server_certificate((host, int(port)))
    out = subprocess.run(["openssl", "x509", "-noout", "-subject"], input=pem, capture_output=True, text=True, check=True).stdout
    return out.strip().rsplit("=", 1)[1].strip()


def test_a_renewed_certificate_is_taken_up_and_a_broken_one_is_not(make_node, make_agent, tmp_path):
    make_certificate(tmp_path, "first")
    web = tmp_path / "web.yaml"
    web.write_text("tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n")
    agent = make_agent(make_node().env, ready=False, options=["--web-config-file", web])
    assert agent.scheme == "https" and served_name(agent) == "first"
    make_certificate(tmp_path, "second")
    until(lambda: served_name(agent) == "second", agent.log_text)
    (tmp_path / "cert.pem").write_text("no certificate\n")
    until(lambda: "cert.pem" in agent.log_text(), agent.log_text)
    assert served_name(agent) == "second"
    web.write_text("tls_server_config: {cert_fil: cert.pem}\n")
    until(lambda: "cert_fil" in agent.log_text() and "web.yaml:1:" in agent.log_text(), agent.log_text)
    assert served_name(agent) == "second"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can ask as somebody else")
@pytest.mark.skipif(not shutil.which("setpriv"), reason="setpriv is not here")
def test_others_may_look_but_not_release(make_node, make_agent, tmp_path, stoker):
    agent = make_agent(make_node().env)
    for folder in [tmp_path, *tmp_path.parents]:
        if folder == pathlib.Path(tempfile.gettempdir()):
            break
        folder.chmod(folder.stat().st_mode | 0o055)
    agent.control.parent.chmod(0o755)
    program = tmp_path / "stoker"
    shutil.copy(stoker, program)
    program.chmod(0o755)

    def as_nobody(*words):
        return subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", program, *words, "--control",
                               agent.control], capture_output=True, text=True, timeout=300, env={"PATH": "/usr/bin:/bin"})

    look = as_nobody("status")
    assert look.returncode in (0, 1) and "8 GPUs: " in look.stdout, look.stderr  # 1: of a GPU that is not up just now
    release = as_nobody("release")
    assert release.returncode == 3 and "only root" in release.stderr
    assert "released" not in {g["state"] for g in agent.gpus()}


def test_a_second_agent_on_the_same_control_socket_says_so(make_node, make_agent, stoker, tmp_path):
    node = make_node()
    agent = make_agent(node.env)
    other = subprocess.Popen([stoker, "agent", "--listen", "127.0.0.1:0", "--control", agent.control], env=node.env,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert "http" in other.stdout.readline()
    other.terminate()
    _, log = other.communicate(timeout=120)
    assert "another agent" in log
    assert agent.verb("status").returncode == 0  # the first one's socket is untouched


def test_an_address_in_use_ends_the_start_with_its_name(make_node, make_agent, stoker, tmp_path):
    node = make_node()
    agent = make_agent(node.env)
    run = subprocess.run([stoker, "agent", "--listen", agent.address, "--control", tmp_path / "c.sock"], env=node.env,
                         capture_output=True, text=True, timeout=300)
    assert run.returncode == 3 and agent.address in run.stderr and "in use" in run.stderr.lower()
