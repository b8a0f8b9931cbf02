# SPDX-License-Identifier: Apache-2.0
"""Certificates for the HTTP tests, made once."""
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def exe(build):
    return build / "test" / "unit" / "http" / "http_test_server"


def openssl(*args, cwd):
    subprocess.run(["openssl", *args], cwd=cwd, check=True, capture_output=True)


def make_ca(folder, name):
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
            f"/CN={name}", "-addext", "keyUsage=critical,keyCertSign,cRLSign", "-keyout", f"{name}.key", "-out", f"{name}.crt", cwd=folder)


def make_cert(folder, name, ca, san, usage, key=("ec", "-pkeyopt", "ec_paramgen_curve:P-256")):
    openssl("req", "-newkey", *key, "-nodes", "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr",
            cwd=folder)
    (folder / f"{name}.ext").write_text(f"subjectAltName={san}\nextendedKeyUsage={usage}\n")
    openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{ca}.crt", "-CAkey", f"{ca}.key", "-CAcreateserial", "-days",
            "2", "-extfile", f"{name}.ext", "-out", f"{name}.crt", cwd=folder)


@pytest.fixture(scope="session")
def certs(tmp_path_factory):
    """Two authorities, two certificates of the server, and clients: right, of the wrong authority, for servers only."""
    folder = tmp_path_factory.mktemp("certs")
    make_ca(folder, "ca")
    make_ca(folder, "other")
    make_cert(folder, "server", "ca", "DNS:localhost,IP:127.0.0.1", "serverAuth")
    make_cert(folder, "second", "ca", "DNS:localhost,IP:127.0.0.1", "serverAuth", key=("rsa:2048",))
    make_cert(folder, "client", "ca", "DNS:scraper.example,IP:10.1.2.3,email:a@example.org,URI:spiffe://x/y",
              "clientAuth")
    make_cert(folder, "stranger", "other", "DNS:scraper.example", "clientAuth")
    make_cert(folder, "misused", "ca", "DNS:scraper.example", "serverAuth")
    return folder
