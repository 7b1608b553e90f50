"""Do without Docker what Binder does, and execute a notebook in its 2 GB of memory.

    python -m tests.notebooks.as_binder [NOTEBOOK ...]

The steps are those of repo2docker, on a copy of what is committed, in an environment of its own:
install what binder/requirements.txt says, run binder/postBuild, and the notebooks under
binder/start. Prints what each took. Java must be there, as binder/apt.txt would have it.

Packages that the requirements name, themselves or through others, and that this environment has,
are linked instead of downloaded and unpacked a second time. What they do not name is left out, and
what is not here pip installs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import Distribution
from importlib.util import cache_from_source
from pathlib import Path
from time import perf_counter

from benchmarks.start_up.course import Processes
from tests.notebooks.constraints import FILE, named, needed, pins

ROOT = Path(__file__).parents[2]
FIRST = "00_first_steps"
MEMORY = 2 * 2**30
"""Bytes of a user on mybinder.org."""

GROUPS = (
    (Path("/sys/fs/cgroup"), "memory.max"),
    (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"),
)
"""Where Linux may let us make a control group, and what its limit is called: versions 2 and 1."""

TIMEOUT = 1200
"""Seconds for one step."""


def main(names: Sequence[str]) -> None:
    """Install, and execute the notebooks with these names.

    Raises
    ------
    CalledProcessError
        A step failed, such as a notebook that was killed for its memory.
    MemoryError
        More was used than Binder gives, and the limit could not be enforced.
    """
    with tempfile.TemporaryDirectory(prefix="tos-binder-") as folder:
        copy, environment = Path(folder, "repository"), Path(folder, "environment")
        # Debian has Java on PATH.
        java = [str(Path(os.environ["JAVA_HOME"], "bin"))] if "JAVA_HOME" in os.environ else []
        path = os.pathsep.join([str(environment / "bin"), *java, os.environ["PATH"]])
        found = os.environ | {"PATH": path, "TF_CPP_MIN_LOG_LEVEL": "3"}
        # What is imported is compiled then, and written down: a tenth of all that is installed.
        found.pop("PYTHONDONTWRITEBYTECODE", None)
        pip = ("python", "-m", "pip", "install", "--quiet", "--no-compile")
        step("copy", ["git", "clone", "--quiet", ROOT, copy], ROOT, found)
        step("environment", [sys.executable, "-m", "venv", environment], copy, found)
        requirements = (copy / "binder/requirements.txt").read_text(encoding="utf-8")
        lend(requirements, environment)
        # Binder gets the versions that are pinned; here they are those that are lent.
        (copy / "binder" / FILE.name).write_text(pins(requirements), encoding="utf-8")
        step("install", [*pip, "-r", "binder/requirements.txt"], copy, found)
        step("postBuild", ["binder/postBuild"], copy, found)
        for name in names:
            execute = ["binder/start", "jupyter", "execute", "--timeout=600"]
            with limited() as prefix:
                command = [*prefix, *execute, f"notebooks/{name}.ipynb"]
                step(name, command, copy, found, MEMORY)


def lend(requirements: str, environment: Path) -> None:
    """Link what the lines demand of this package into another environment; pip finds it there."""
    for each in needed(named(requirements)):
        for source in installed(each):
            target = environment / source.relative_to(sys.prefix)
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                put(source, target, environment)


def installed(package: Distribution) -> Iterator[Path]:
    """Yield the files of a package, and what Python has compiled of them."""
    for file in package.files or ():
        path = Path(os.path.normpath(str(package.locate_file(file))))
        compiled = [Path(cache_from_source(path))] if path.suffix == ".py" else []
        yield from (each for each in (path, *compiled) if each.is_file())


def put(source: Path, target: Path, environment: Path) -> None:
    """Link a file, or copy it if it is a script, whose first line names its environment."""
    if source.parent == Path(sys.prefix, "bin"):
        script = source.read_bytes()
        for here in (sys.prefix, os.path.realpath(sys.prefix)):
            script = script.replace(os.fsencode(here), os.fsencode(environment))
        target.write_bytes(script)
        shutil.copymode(source, target)
        return
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def step(
    name: str,
    command: Sequence[str | Path],
    folder: Path,
    environment: dict[str, str],
    most: int | None = None,
) -> None:
    """Run a command that may use `most` bytes, and print what it took."""
    began = perf_counter()
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL
    ) as process:
        watching = Processes(process.pid)
        watching.start()
        try:
            code = process.wait(TIMEOUT)
        finally:
            process.kill()
            watching.stop()
    seconds, mib = perf_counter() - began, watching.peak.total() / 2**20
    print(f"{name:<24} {seconds:7.1f} s  {mib:6.0f} MiB", flush=True)
    if code:
        raise subprocess.CalledProcessError(code, command)
    if most is not None and watching.peak.total() > most:
        raise MemoryError(f"{name}: expected at most {most // 2**20} MiB, used {mib:.0f} MiB.")


@contextmanager
def limited() -> Iterator[tuple[str, ...]]:
    """Make a group that may use what Binder gives; return what to begin a command with.

    Where Linux does not let us, the command is only watched.
    """
    for root, limit in GROUPS:
        group = root / f"tos-binder-{os.getpid()}"
        with suppress(OSError):
            group.mkdir()
        if (group / limit).exists():
            (group / limit).write_text(str(MEMORY))
            try:
                yield ("sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh")
            finally:
                # Not while a process is still ending.
                with suppress(OSError):
                    group.rmdir()
            return
        with suppress(OSError):
            group.rmdir()
    print("No control groups here: memory is watched, not limited.")
    yield ()


if __name__ == "__main__":
    main(sys.argv[1:] or [FIRST])
