"""The batch script of the page on Slurm, with one node and programs in the place of Slurm's."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from tests.clusters.application import ROOT
from tests.docs.pages import DOCS, sections

PAGE = DOCS / "how-to" / "managed" / "slurm.md"
NODE = {"7077": "PORT", "24g": "2g", "$(hostname -f)": "127.0.0.1"}
"""What an only node of this machine has in the place of a real one."""


def script(folder: Path) -> Path:
    """Write the page's script down, and what it finds in its folder."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    found = re.search(r"^```sh\n(#!.*?)^```", sections(PAGE)["A batch job"], re.M | re.S)
    assert found is not None
    text = found[1]
    for old, new in NODE.items():
        assert old in text
        text = text.replace(old, new.replace("PORT", port))
    (folder / "examples").symlink_to(ROOT / "examples")
    (folder / ".venv" / "bin").mkdir(parents=True)
    (folder / ".venv" / "bin" / "activate").write_text(f'PATH="{folder}/bin:$PATH"\n')
    (folder / "bin").mkdir()
    programs = {"python": f'exec {sys.executable} "$@"', "srun": 'exec "$@" --host 127.0.0.1'}
    for name, does in programs.items():
        (folder / "bin" / name).write_text(f"#!/bin/sh\n{does}\n")
        (folder / "bin" / name).chmod(0o755)
    made = folder / "job.sh"
    made.write_text(text)
    return made


def run(folder: Path, job: Path, stop: bool, **environ: str) -> tuple[int, str]:
    """Run the job as Slurm does, and stop it once it trains; return its code and its last word."""
    with subprocess.Popen(
        ["bash", str(job)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1", **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        try:
            if stop:
                next(line for line in process.stdout if "samples/s" in line)
                os.kill(process.pid, signal.SIGTERM)
            said = next(line for line in process.stdout if "test accuracy" in line)
            return process.wait(60), said.partition(":")[0]
        finally:
            # As Slurm does at the end of a job.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def test_a_signal_before_the_time_is_over_and_a_requeued_job(tmp_path: Path) -> None:
    """The signal goes to the batch script alone; what was trained is continued afterwards."""
    job = script(tmp_path)
    long = job.read_text().replace("$script.py", '$script.py" --epochs "300')
    job.write_text(long)
    assert run(tmp_path, job, stop=True, SLURM_CPUS_PER_TASK="2") == (143, "stopped")
    job.write_text(long.replace('" --epochs "300', ""))
    again = {"SLURM_CPUS_PER_TASK": "2", "SLURM_RESTART_COUNT": "1"}
    assert run(tmp_path, job, stop=False, **again) == (0, "finished")
