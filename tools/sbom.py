#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the bill of materials of a build as SPDX 2.3 JSON: the libraries that the programs really name, those that these name,
and what is compiled in, each with the package and version that it is from.

    sbom.py OUT VERSION LOCK CHANGELOG [--from FILE] [--opened LIBRARY]... PROGRAM...

LOCK is npm's list of what is in the page, CHANGELOG gives the date unless SOURCE_DATE_EPOCH is set. --opened names a library
that is opened at run time. FILE has lines 'LIBRARY PACKAGE VERSION' for libraries that no package manager knows. The same input gives the
same bytes."""
import argparse
import datetime
import email.utils
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess

MACHINES = {"Advanced Micro Devices X86-64": "x86_64-linux-gnu", "AArch64": "aarch64-linux-gnu"}
LICENCE = "Apache-2.0"


def read_words(*command, partly=False):
    """`partly`: also what a command says that does not know all that it was asked."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"})
    return done.stdout if done.returncode == 0 or partly else ""


def needed(path):
    return re.findall(r"\(NEEDED\).*\[([^]]+)\]", read_words("readelf", "-d", str(path)))


def folders_of(programs):
    """Where the linker looks, for the machine that the programs are for: their own run paths first."""
    machine = re.search(r"Machine: +(.+)", read_words("readelf", "-h", str(programs[0])))[1]
    triplet = MACHINES.get(machine, "unknown")
    own = [path.replace("$ORIGIN", str(program.parent)) for program in programs
           for paths in re.findall(r"\(R(?:UN)?PATH\).*\[([^]]+)\]", read_words("readelf", "-d", str(program))) for path in paths.split(":")]
    return own + [f"{top}{lib}" for top in ("", "/usr") for lib in (f"/lib/{triplet}", "/lib64", "/lib")]


def find_libraries(programs, opened):
    """{soname: path or None}, with all that each needs."""
    found, folders = {}, folders_of(programs)
    left = [*opened, *(name for program in programs for name in needed(program))]
    while left:
        name = left.pop()
        if name in found or name.startswith(("ld-linux", "linux-vdso")):
            continue
        paths = (pathlib.Path(folder) / name for folder in folders)
        found[name] = next((p.resolve() for p in paths if p.exists()), None)
        left += needed(found[name]) if found[name] else []
    return found


def packages_of(paths):
    """{path: (kind, source package, version)} from the machine's package manager. Each start of dpkg-query reads its whole data."""
    if not shutil.which("dpkg-query"):
        asked = paths if shutil.which("rpm") else []
        rows = {path: read_words("rpm", "-qf", "--qf", "%{NAME} %{VERSION}-%{RELEASE}", str(path)).split() for path in asked}
        return {path: ("rpm", *row) for path, row in rows.items() if len(row) == 2}
    spelled = {word: path for path in paths for word in (f"/usr{path}", str(path).removeprefix("/usr"), str(path))}
    owners = {spelled[word]: names.split(", ")[0] for names, word in
              (line.split(": ", 1) for line in read_words("dpkg-query", "-S", *spelled, partly=True).splitlines()) if word in spelled}
    rows = [line.split() for line in read_words("dpkg-query", "-W", "-f", "${binary:Package} ${source:Package} ${source:Version}\n",
                                                *sorted(set(owners.values()))).splitlines()]
    sources = {row[0]: row[1:] for row in rows}
    return {path: ("deb/debian", *sources[owner]) for path, owner in owners.items() if owner in sources}


def spdx_id(*words):
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", "-".join(words))


def package(name, version, licence="NOASSERTION", purl=None, **more):
    found = {"SPDXID": spdx_id("Package", name), "name": name, "versionInfo": version, "downloadLocation": "NOASSERTION",
             "filesAnalyzed": False, "licenseConcluded": "NOASSERTION", "licenseDeclared": licence, "copyrightText": "NOASSERTION", **more}
    if purl:
        found["externalRefs"] = [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl}]
    return found


def library_packages(libraries, by_hand):
    """{package: [package, sonames]}"""
    found, packages = {}, packages_of([path for path in libraries.values() if path])
    for soname, path in sorted(libraries.items()):
        kind, name, version = by_hand.get(soname) or packages.get(path) or ("generic", soname, "NOASSERTION")
        purl = None if version == "NOASSERTION" else f"pkg:{kind}/{name}@{version.replace(':', '%3A').replace('+', '%2B')}"
        row = found.setdefault(name, [package(name, version, purl=purl), []])
        row[1].append(soname)
    for row in found.values():
        row[0]["comment"] = "linked: " + ", ".join(row[1])
    return found


def made_on(changelog):
    seconds = os.environ.get("SOURCE_DATE_EPOCH")
    if not seconds:
        date = re.search(r"^ -- .*>  (.+)$", pathlib.Path(changelog).read_text(), re.M)[1]
        seconds = email.utils.parsedate_to_datetime(date).timestamp()
    return datetime.datetime.fromtimestamp(int(seconds), datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("out", "version", "lock", "changelog"):
        arguments.add_argument(name)
    arguments.add_argument("--from", dest="by_hand")
    arguments.add_argument("--opened", action="append", default=[])
    arguments.add_argument("programs", nargs="+", type=pathlib.Path)
    o = arguments.parse_args()
    rows = [line.split() for line in pathlib.Path(o.by_hand).read_text().splitlines()] if o.by_hand else []
    libraries = library_packages(find_libraries(o.programs, o.opened), {r[0]: ("generic", r[1], r[2]) for r in rows})
    stoker = package("stoker", o.version, LICENCE)
    inside = [package(name.removeprefix("node_modules/"), row["version"], row["license"],
                      f"pkg:npm/{name.removeprefix('node_modules/')}@{row['version']}")
              for name, row in json.loads(pathlib.Path(o.lock).read_text())["packages"].items() if name]
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", stoker)] + [(stoker["SPDXID"], "CONTAINS", one) for one in inside]
    relations += [(stoker["SPDXID"], "DYNAMIC_LINK", row[0]) for row in libraries.values()]
    packages = [stoker, *inside, *(row[0] for row in libraries.values())]
    digest = hashlib.sha256(json.dumps(packages).encode()).hexdigest()
    document = {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"stoker-{o.version}",
        "documentNamespace": f"https://spdx.org/spdxdocs/stoker-{o.version}-{digest}",
        "creationInfo": {"created": made_on(o.changelog), "creators": ["Tool: stoker-sbom"]}, "packages": packages,
        "relationships": [{"spdxElementId": a, "relationshipType": how, "relatedSpdxElement": b["SPDXID"]} for a, how, b in relations],
    }
    pathlib.Path(o.out).write_text(json.dumps(document, indent=1) + "\n")


main()
