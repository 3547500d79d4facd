#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the software bill of materials of a source tarball, CycloneDX 1.5 as JSON.

  sbom.py TARBALL OUT [TREE]

Code of others is in the script of the page, tools/flame/flame.min.js, whose head names it, and in vendor/.  What Stook may be linked to
is what CMakeLists.txt and tools/CMakeLists.txt look for; a library that they look for and this file does not know is an error.  The same tarball gives the same bytes: serial
number and time come from it.  Needs cyclonedx-python-lib, which scripts/dist.sh installs into build-dist/venv.
"""
import datetime
import hashlib
import pathlib
import re
import subprocess
import sys
import uuid

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output.json import JsonV1Dot5
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

# pkg-config's module: the library, its licence, what uses it.
KNOWN = {
    "liburcu-memb": ("liburcu", "LGPL-2.1-or-later", "libstook-urcu: grace periods"),
    "liburcu-qsbr": ("liburcu", "LGPL-2.1-or-later", "libstook-urcu: grace periods"),
    "libdw": ("elfutils", "LGPL-3.0-or-later", "the command stook: lines of call sites"),
    "libmicrohttpd": ("libmicrohttpd", "LGPL-2.1-or-later", "the command stook: stook export"),
    "ncursesw": ("ncurses", "X11", "the command stook: stook top"),
}


def main(arguments):
    if len(arguments) not in (2, 3):
        print(__doc__)
        return 2
    tarball, out = map(pathlib.Path, arguments[:2])
    root = pathlib.Path(arguments[2] if len(arguments) > 2 else pathlib.Path(__file__).parent.parent)
    name, version = re.fullmatch(r"(.+)-([\d.]+)\.tar\.xz", tarball.name).groups()
    digest = hashlib.sha256(tarball.read_bytes()).hexdigest()
    lists = "".join((root / p).read_text(encoding="utf-8") for p in ("CMakeLists.txt", "tools/CMakeLists.txt"))
    modules = re.findall(r"pkg_check_modules\(\w+ IMPORTED_TARGET ([\w-]+)\)|set\(tool_[A-Z]+ ([\w-]+)\)", lists)
    modules = ["".join(module) for module in modules]
    unknown = set(modules) - set(KNOWN)
    if not modules or unknown:
        print(f"sbom.py: unknown libraries: {unknown or 'CMakeLists.txt looks for none'}")
        return 1

    stook = Component(type=ComponentType.LIBRARY, name=name, version=version, bom_ref=f"{name}@{version}",
                      licenses=[DisjunctiveLicense(id="MIT")], purl=PackageURL("generic", None, name, version),
                      hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)])
    bom = Bom(serial_number=uuid.uuid5(uuid.NAMESPACE_URL, f"urn:sha256:{digest}"))
    bom.metadata.component = stook
    bom.metadata.timestamp = datetime.datetime.fromtimestamp(tarball_time(tarball), datetime.timezone.utc)
    used = {}
    for module in modules:
        used.setdefault(KNOWN[module][0], KNOWN[module])
    parts = [Component(type=ComponentType.LIBRARY, name=library, bom_ref=library, scope=ComponentScope.OPTIONAL,
                       licenses=[DisjunctiveLicense(id=licence)], description=purpose,
                       purl=PackageURL("generic", None, library))
             for library, licence, purpose in used.values()]
    vendored = re.findall(r"([\w-]+) (\d+\.\d+\.\d+) \(([\w.-]+)\)", (root / "tools/flame/flame.min.js").read_text(encoding="utf-8"))
    parts += [Component(type=ComponentType.LIBRARY, name=library, version=release, bom_ref=f"{library}@{release}",
                        scope=ComponentScope.REQUIRED, licenses=[DisjunctiveLicense(id=licence)],
                        description="inside of tools/flame/flame.min.js, the script of the page of stook report",
                        purl=PackageURL("npm", None, library, release)) for library, release, licence in vendored]
    for readme in sorted((root / "vendor").glob("*/README")):
        library, release, licence = re.match(r"([\w-]+) ([\d.]+) \(([^)]+)\)", readme.read_text(encoding="utf-8")).groups()
        parts.append(Component(type=ComponentType.LIBRARY, name=library, version=release, bom_ref=f"{library}@{release}",
                               scope=ComponentScope.REQUIRED, licenses=[DisjunctiveLicense(id=licence)],
                               description="linked into the tool, from vendor/", purl=PackageURL("github", "rust-lang", library, release)))
    parts.append(Component(type=ComponentType.LIBRARY, name="libc", bom_ref="libc", scope=ComponentScope.REQUIRED,
                           description="the C library of the machine: glibc, or musl"))
    for part in parts:
        bom.components.add(part)
    bom.register_dependency(stook, parts)
    text = JsonV1Dot5(bom).output_as_string(indent=2)
    error = JsonStrictValidator(SchemaVersion.V1_5).validate_str(text)
    if error:
        print(f"sbom.py: not CycloneDX 1.5: {error}")
        return 1
    out.write_text(text + "\n", encoding="utf-8")
    return 0


def tarball_time(tarball):
    """When the commit was made: of all entries, as git archive writes them."""
    listed = subprocess.run(["tar", "--utc", "--full-time", "-tvf", tarball], check=True, capture_output=True,
                            text=True).stdout.splitlines()[0].split()
    return datetime.datetime.fromisoformat(f"{listed[3]} {listed[4]}+00:00").timestamp()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
