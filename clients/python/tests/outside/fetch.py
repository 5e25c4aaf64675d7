"""Gets the tests that are in the source packages only: fetch.py REQUIREMENTS FOLDER. The packages have pinned hashes."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile

PACKAGES = ("redis", "dogpile-cache")


def pinned(requirements: str) -> str:
    """Returns the requirements of the packages."""
    entries = re.split(r"\n(?=[a-z])", requirements)
    return "\n".join(entry for entry in entries if entry.split("==")[0] in PACKAGES)


def main(requirements: str, folder: str) -> None:
    with tempfile.TemporaryDirectory() as made:
        temporary = pathlib.Path(made)
        chosen = temporary / "chosen.txt"
        chosen.write_text(pinned(pathlib.Path(requirements).read_text()))
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        subprocess.run(
            [*pip, "download", "--no-deps", "--no-binary", ":all:", "--require-hashes", "-r", chosen, "-d", temporary],
            check=True,
        )
        for path in temporary.glob("*.tar.gz"):
            name, _, _ = path.name.rpartition("-")
            with tarfile.open(path) as archive:
                # The installed package is under test, not the sources next to its tests.
                for member in archive.getmembers():
                    _, _, member.name = member.name.partition("/")
                    if member.name.startswith("tests/") or member.name in ("pyproject.toml", "setup.cfg", "tox.ini"):
                        archive.extract(member, pathlib.Path(folder) / name)


if __name__ == "__main__":
    main(*sys.argv[1:])
