"""Object stores that speak S3's and Google's protocols: processes that end with this one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from tests.clusters.jars import CACHE, FETCH_TIMEOUT

STOP_TIMEOUT = 30.0


def installed(packages: Sequence[str]) -> Path:
    """Return the folder of a server's packages, fetched by pip if they are not there yet.

    They are not those of the tests' own environment, which most tests would carry for nothing.
    """
    folder = CACHE / re.sub(r"(\[.*\])?==", "-", packages[0])
    if not folder.is_dir():
        # Renamed last, so that an interrupted download is done again.
        partial = folder.with_name(folder.name + ".partial")
        shutil.rmtree(partial, ignore_errors=True)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(partial)]
        subprocess.run([*pip, *packages], check=True, timeout=FETCH_TIMEOUT)
        partial.rename(folder)
    return folder


class ObjectStore:
    """A server with one bucket; leaving the ``with`` block ends it, and all that it holds.

    Attributes
    ----------
    packages : sequence of str
    command : sequence of str
        What Python is to run; it prints the server's address.
    uri : str
        Of the bucket.
    environ : dict of str
        What a process has to have in its environment.
    """

    packages: Sequence[str]
    command: Sequence[str]
    uri: str

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "TERM", sys.executable, *self.command],
            env={**os.environ, "PYTHONPATH": str(installed(self.packages))},
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
        self.environ = self._made(found[0])

    def _made(self, endpoint: str) -> dict[str, str]:
        """Make a bucket unless there is one; return the environment."""
        raise NotImplementedError

    def __enter__(self) -> ObjectStore:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.terminate()
        self._process.wait(STOP_TIMEOUT)
        self._reader.join(STOP_TIMEOUT)
        assert self._process.stdout is not None
        self._process.stdout.close()


class AmazonStore(ObjectStore):
    """S3's protocol, by moto."""

    packages = ("moto[s3]==5.2.5", "flask==3.*", "flask-cors==6.*")
    command = ("-m", "moto.server", "-p", "0")
    uri = "s3://bucket"

    def _made(self, endpoint: str) -> dict[str, str]:
        from pyarrow import fs

        environ = {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        fs.S3FileSystem(
            endpoint_override=endpoint,
            access_key=environ["AWS_ACCESS_KEY_ID"],
            secret_key=environ["AWS_SECRET_ACCESS_KEY"],
            region=environ["AWS_DEFAULT_REGION"],
            allow_bucket_creation=True,
        ).create_dir(self.uri.removeprefix("s3://"))
        return environ


SERVE = """
import threading
from gcp_storage_emulator.server import create_server
server = create_server("127.0.0.1", 0, in_memory=True, default_bucket="bucket")
server.start()
print(f"http://127.0.0.1:{server._api._httpd.server_port}", flush=True)
threading.Event().wait()
"""


class GoogleStore(ObjectStore):
    """The protocol of Google Cloud Storage, by its emulator."""

    packages = ("gcp-storage-emulator==2026.7.19",)
    command = ("-c", SERVE)
    uri = "gs://anonymous@bucket"

    def _made(self, endpoint: str) -> dict[str, str]:
        return {"CLOUD_STORAGE_EMULATOR_ENDPOINT": endpoint}
