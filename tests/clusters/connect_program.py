"""Connects to one cluster again and again, each time with something wrong; prints what is said.

    python connect_program.py BARE STUBS

BARE is a Python without packages; STUBS a folder with packages of other versions. The master is
that of ``spark-defaults.conf`` in ``SPARK_CONF_DIR``.
"""

import json
import os
import sys

import tos_notebook as tos


def attempt(python: str, found: str = "", *, ship: bool = False, **settings: str) -> list[str]:
    """Connect with a Python and a folder for its packages; return what is said, line by line."""
    os.environ["PYSPARK_PYTHON"] = python
    settings = {key.replace("_", "."): value for key, value in settings.items()}
    config = {"spark.executorEnv.PYTHONPATH": found, **settings}
    try:
        spark = tos.connect(config=config, ship_package=ship)
    except tos.errors.TosError as error:
        return [type(error).__name__, *str(error).splitlines()]
    spark.stop()
    return []


def main(bare: str, stubs: str) -> None:
    """Make all attempts."""
    said = {
        "bare": attempt(bare),
        "old": attempt(bare, stubs),
        "shipped": attempt(bare, stubs, ship=True),
        "unreached": attempt(bare, stubs, ship=True, spark_tos_server_host="no-such-host.invalid"),
    }
    print(json.dumps(said))


if __name__ == "__main__":
    main(*sys.argv[1:])
