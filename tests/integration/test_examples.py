"""The scripts of `examples/` run as their page says, and end as it says."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT
from tests.support.commands import adapted, commands
from tests.support.long import few

PAGE = DOCS / "how-to" / "scripts.md"
LOCAL = [line for line in commands(PAGE, "Run one") if not re.search("spark:|hdfs:|yarn", line)]
STAMPED = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00  epoch "


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that holds the examples, and what they write."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    return tmp_path


@contextmanager
def start(folder: Path, *command: str) -> Iterator[subprocess.Popen[str]]:
    """Start a script as the leader of a process group, on a Spark of two cores; end it at last."""
    hidden = ("SPARK_HOME", "PYSPARK_SUBMIT_ARGS", "PYSPARK_PYTHON")
    env = {key: value for key, value in os.environ.items() if key not in hidden}
    with subprocess.Popen(
        # What a shell starts in the background ignores SIGINT, and so would its children.
        ["env", "--default-signal=INT", *command],
        cwd=folder,
        env=env | {"PYTHONPATH": str(ROOT), "SPARK_MASTER": "local[2]"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def run(folder: Path, command: str) -> list[str]:
    """Run a command line to its end; return the lines that it printed."""
    with start(folder, *adapted(command, {"python": sys.executable})) as process:
        out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out.splitlines()


@pytest.mark.long
def test_the_page_s_commands_run_one_after_the_other(folder: Path) -> None:
    assert [re.findall(r"\w+(?=\.py)", line)[0] for line in LOCAL] == [
        *("train", "predict", "resume", "pipeline")
    ]
    trained, predicted, resumed, piped = (run(folder, line) for line in LOCAL)
    found = re.fullmatch(r"finished: test accuracy (0\.\d+), model in (.*)", trained[-1])
    assert found is not None
    assert float(found[1]) > 0.9
    assert Path(found[2]) == folder / "digits.keras"
    right, rows = map(int, re.findall(r"\d+", predicted[-1])[:2])
    assert (rows, right > 324) == (360, True)
    assert resumed[-1] == "Nothing to continue in runs."
    assert float(re.findall(r"0\.\d+", piped[-1])[0]) > 0.9
    # Progress comes from the pipeline's run, too.
    assert any(re.match(STAMPED, line) for line in piped)


@pytest.mark.parametrize("number", few([signal.SIGINT, signal.SIGTERM], signal.SIGTERM))
def test_a_signal_keeps_the_weights_and_has_its_exit_code(folder: Path, number: int) -> None:
    """It goes to the whole process group, as from a terminal or a scheduler: so to the JVM, too."""
    options = ["--epochs", "1000000", "--checkpoint-dir", "runs"]
    with start(folder, sys.executable, "examples/train.py", *options) as process:
        assert process.stdout is not None
        # The first lines come while workers start.
        line = next(line for line in process.stdout if "samples/s" in line)
        os.killpg(process.pid, number)
        out, err = process.communicate(timeout=120)
    name = signal.Signals(number).name
    assert process.returncode == 128 + number, err
    assert re.match(STAMPED, line)
    assert "\r" not in line + out
    assert re.search(rf"  stopped: {name}$", out, re.M)
    assert f"{name}: the run stops, and keeps its weights." in err
    assert "Traceback" not in err
    assert re.search(r"^stopped: test accuracy 0\.\d+, model in ", out, re.M)
    assert (folder / "digits.keras").is_file()
    assert list((folder / "runs").rglob("checkpoint-*.tos"))


@pytest.mark.long
def test_a_stopped_run_continues(folder: Path) -> None:
    options = ["--epochs", "400", "--checkpoint-dir", "runs"]
    with start(folder, sys.executable, "examples/train.py", *options) as process:
        assert process.stdout is not None
        next(line for line in process.stdout if "samples/s" in line)
        os.kill(process.pid, signal.SIGHUP)
        process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGHUP
    last = run(folder, "python examples/resume.py --checkpoint-dir runs")[-1]
    assert last.startswith("finished: test accuracy 0.9")


@pytest.mark.long
def test_an_error_is_one_message_and_code_1(folder: Path) -> None:
    options = ["--epochs", "0"]
    with start(folder, sys.executable, "examples/train.py", *options) as process:
        _, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "Traceback" not in err
    assert re.search(r"^ConfigError: epochs: ", err, re.M)
