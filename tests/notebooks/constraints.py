"""Pin for Binder what this environment has: python -m tests.notebooks.constraints.

Writes binder/constraints.txt, with the packages that binder/requirements.txt needs, directly or
not. Run it in an environment whose tests have passed.
"""

from __future__ import annotations

import re
from contextlib import suppress
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

BINDER = Path(__file__).parents[2] / "binder"
FILE = BINDER / "constraints.txt"
HEAD = "# Written by python -m tests.notebooks.constraints, for Python 3.11 on Linux.\n"


def named(requirements: str) -> list[Requirement]:
    """Return what a file of requirements names; options such as ``-c`` are left out."""
    lines = [line.split("#")[0].strip() for line in requirements.splitlines()]
    # A name that begins with a dot is this package, from the repository.
    local = [re.sub(r"^\.(?=\[|$)", "tos_notebook", line) for line in lines]
    return [Requirement(line) for line in local if line and not line.startswith("-")]


def needed(requirements: list[Requirement]) -> list[Distribution]:
    """Return the packages here that requirements name, directly or not, but for our own."""
    found: dict[str, Distribution] = {}
    left, seen = list(requirements), set()
    while left:
        asked = left.pop()
        if str(asked) in seen:
            continue
        seen.add(str(asked))
        with suppress(PackageNotFoundError):
            found[asked.name] = distribution(asked.name)
            left += [
                each
                for each in map(Requirement, found[asked.name].requires or ())
                if each.marker is None
                or any(each.marker.evaluate({"extra": extra}) for extra in ("", *asked.extras))
            ]
    return [each for name, each in found.items() if name != "tos_notebook"]


def pins(requirements: str) -> str:
    """Return a file of constraints: one line for each package that requirements need."""
    packages = needed(named(requirements))
    lines = {f"{normal(each.metadata['Name'])}=={each.version}" for each in packages}
    return HEAD + "".join(f"{line}\n" for line in sorted(lines))


def normal(name: str) -> str:
    """Return a package's name as indexes write it."""
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    FILE.write_text(pins((BINDER / "requirements.txt").read_text("utf-8")), encoding="utf-8")
