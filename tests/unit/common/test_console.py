"""What is filtered out of standard error, and for how long."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from tos_notebook.common.console import quiet_stderr

GREETINGS = """\
WARNING: All log messages before absl::InitializeLog() is called are written to STDERR
I0000 00:00:1795177468.497985   17735 port.cc:153] oneDNN custom operations are on.
E0000 00:00:1795177403.571288   16385 cuda_platform.cc:52] failed call to cuInit
To enable the following instructions: AVX2 FMA, in other operations, rebuild TensorFlow
WARNING: Using incubator modules: jdk.incubator.vector
26/11/20 12:24:35 WARN NativeCodeLoader: Unable to load native-hadoop library
Setting Spark log level to "ERROR".
"""

ERRORS = """\
26/11/20 12:24:35 ERROR SparkContext: Error initializing SparkContext.
E0000 00:00:1795177403.571288   16385 executor.cc:1 out of memory
Traceback (most recent call last):
"""


def test_greetings_are_dropped_and_errors_are_not(capfd: pytest.CaptureFixture[str]) -> None:
    with quiet_stderr():
        os.write(2, (GREETINGS + ERRORS + GREETINGS + "half a line").encode())
    os.write(2, b", and after it")
    assert capfd.readouterr().err == ERRORS + "half a line, and after it"


LATER = """
import os
input()
os.write(2, b"later\\nWARNING: Using incubator modules: jdk.incubator.vector\\n")
"""


def test_a_child_stays_filtered_and_the_process_does_not(capfd: pytest.CaptureFixture[str]) -> None:
    """Spark's gateway lives as long as the process that started it."""
    with quiet_stderr():
        child = subprocess.Popen([sys.executable, "-c", LATER], stdin=subprocess.PIPE, text=True)
    os.write(2, b"straight\n")
    child.communicate("\n", timeout=60)
    for thread in threading.enumerate():
        if thread.name == "stderr":
            thread.join(60)
    assert capfd.readouterr().err == "straight\nlater\n"
