"""Runs the programs of the page on TensorFlow clusters that leave their checkpoint in HDFS.

    python checkpoints_program.py FOLDER DIRECTORY

Trains twice, for 100 steps more each time. Prints as one line of JSON the steps of the checkpoints
that it found in DIRECTORY, and whether the second training went on where the first had ended.
Master and settings are those of ``spark-defaults.conf`` in ``SPARK_CONF_DIR``.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import tos_notebook as tos
from tests.docs.pages import DOCS, programs

PAGE = DOCS / "how-to" / "tensorflow-clusters.md"
STEPS = (100, 200)


def definitions(known: dict[str, Any]) -> None:
    """Add the functions of the page, which trains once without HDFS."""
    found = programs(PAGE)
    for heading in ("TensorFlow clusters", "Between-graph replication", "Checkpoints on HDFS"):
        exec(found[heading], known)


def main() -> None:
    """Train, and train on."""
    folder, directory = sys.argv[1:]
    images, labels = load_digits(return_X_y=True)
    x, y = (images / 16).astype(np.float32), labels.astype(np.int64)
    known: dict[str, Any] = {"folder": folder, "spark": tos.connect()}
    known |= {"x_train": x[300:], "y_train": y[300:], "x_test": x[:300], "y_test": y[:300]}
    definitions(known)
    found = []
    for steps in STEPS:
        args = {"data": f"{folder}/train.npz", "steps": steps, "logs": directory}
        args["update"] = known["asynchronous"]
        cluster = known["TFCluster"].run(
            known["sc"], known["train_on_hdfs"], args, 3, num_ps=1, master_node="chief"
        )
        cluster.shutdown(timeout=120)
        copied = Path(folder, f"copy-{steps}")
        copied.mkdir()
        assert known["hadoop"]("-get", f"{directory}/*", str(copied))
        reader = known["tf"].train.load_checkpoint(str(copied))
        found.append(int(reader.get_tensor("global_step")))
    right = x[:300] @ reader.get_tensor("W") + reader.get_tensor("b")
    accuracy = float(np.mean(right.argmax(axis=1) == y[:300]))
    curve = tos.read_events(copied).sort_values("time")["step"]
    goes_on = bool(curve.is_monotonic_increasing)
    print(json.dumps({"steps": found, "goes_on": goes_on, "accuracy": accuracy}))


if __name__ == "__main__":
    main()
