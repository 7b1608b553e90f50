"""An object store that speaks S3's protocol: moto's server, a process that ends with this one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

from tests.clusters.jars import CACHE, FETCH_TIMEOUT

PACKAGES = ("moto[s3]==5.2.5", "flask==3.*", "flask-cors==6.*")
"""Not those of the tests' own environment, which most tests would carry for nothing."""

STOP_TIMEOUT = 30.0


def installed() -> Path:
    """Return the folder of the server's packages, fetched by pip if they are not there yet."""
    folder = CACHE / PACKAGES[0].replace("[s3]==", "-")
    if not folder.is_dir():
        # Renamed last, so that an interrupted download is done again.
        partial = folder.with_name(folder.name + ".partial")
        shutil.rmtree(partial, ignore_errors=True)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(partial)]
        subprocess.run([*pip, *PACKAGES], check=True, timeout=FETCH_TIMEOUT)
        partial.rename(folder)
    return folder


class ObjectStore:
    """A server with one bucket; leaving the ``with`` block ends it, and all that it holds.

    Attributes
    ----------
    uri : str
        Of the bucket.
    environ : dict of str
        What a process has to have in its environment.
    """

    uri = "s3://bucket"

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "TERM", sys.executable, "-m", "moto.server", "-p", "0"],
            env={**os.environ, "PYTHONPATH": str(installed())},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        lines = self._process.stdout
        assert lines is not None
        found = next(filter(None, (re.search(r"http://\S+:\d+", line) for line in lines)))
        # Else its log would fill the pipe.
        self._reader = threading.Thread(target=lines.read, daemon=True)
        self._reader.start()
        self.environ = {
            "AWS_ENDPOINT_URL": found[0],
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        self._make_bucket(found[0])

    def _make_bucket(self, endpoint: str) -> None:
        from pyarrow import fs

        fs.S3FileSystem(
            endpoint_override=endpoint,
            access_key=self.environ["AWS_ACCESS_KEY_ID"],
            secret_key=self.environ["AWS_SECRET_ACCESS_KEY"],
            region=self.environ["AWS_DEFAULT_REGION"],
            allow_bucket_creation=True,
        ).create_dir(self.uri.removeprefix("s3://"))

    def __enter__(self) -> ObjectStore:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.terminate()
        self._process.wait(STOP_TIMEOUT)
        self._reader.join(STOP_TIMEOUT)
        assert self._process.stdout is not None
        self._process.stdout.close()
