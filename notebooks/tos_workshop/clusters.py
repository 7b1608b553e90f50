"""Exercises of ``09_your_cluster.ipynb``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .exercise import exercise, expect

ROWS, EPOCHS, SAVED, DIED = 1437, 5, 2000, 2600


@exercise("clusters.memory")
def memory(made: Callable[[float, int], Any]) -> str:
    """Take a function of gigabytes of data and executors that returns their overhead in GB."""
    expect(made(8, 4) is not None, "It returned None: return the gigabytes.")
    expect(
        np.isclose(made(0, 4), 1),
        f"With no data at all it gave {made(0, 4):g} GB: TensorFlow itself takes its part, even "
        "if there are few data.",
    )
    expect(
        made(8, 4) < made(8, 2),
        "With twice as many executors each should ask for less: they share the data.",
    )
    expect(
        np.isclose(made(8, 4), 5) and np.isclose(made(3, 2), 4),
        f"For 8 GB of data on 4 executors it gave {made(8, 4):g} GB. An executor's share is 2 GB "
        "then: how often does the table count it?",
    )
    return "Twice, because rows are held as they came and as the batches that are made of them."


@exercise("clusters.settings")
def settings(made: Mapping[str, Any]) -> str:
    """Take the settings for three executors of two cores on standalone, behind a gateway."""
    given = {name: str(value) for name, value in made.items()}
    expect(
        "spark.executor.instances" not in given,
        "spark.executor.instances is for YARN and Kubernetes; standalone gives executors until the "
        "application has the cores that it may have: which setting says how many?",
    )
    cores, each = given.get("spark.cores.max"), given.get("spark.executor.cores")
    expect(each == "2", f"An executor of two cores: spark.executor.cores is {each}.")
    expect(cores is not None, "Without spark.cores.max the application takes all cores there are.")
    expect(cores == "6", f"spark.cores.max is {cores}: you want three executors of two cores.")
    expect(
        not {"spark.driver.host", "spark.driver.port"} & given.keys()
        or "spark.tos.server.host" in given,
        "spark.driver.host and spark.driver.port are Spark's own: the parameter server has its own "
        "address.",
    )
    host, port = given.get("spark.tos.server.host"), given.get("spark.tos.server.port")
    expect(host is not None, "Executors would try the container's own address: give another one.")
    expect(host == "gateway.example.org", f"Executors would connect to {host}: who is that?")
    expect(port is not None, "The server would listen on any free port, but one alone is open.")
    expect(port == "7080", f"Executors would connect to port {port}, which is not open.")
    return (
        "Spark knows how much it may take, and executors know where the parameter server is. "
        "connect() tries that address from every executor before any row moves."
    )


@exercise("clusters.resume")
def resume(trained: Any, shown: Any) -> str:
    """Take what a process that resumes a run trains, and what the history shows in the end."""
    total = EPOCHS * ROWS
    expect(
        shown != total + DIED - SAVED,
        "The history does not show what was trained after the checkpoint and lost: it shows what "
        "is in the parameters.",
    )
    expect(shown == total, "The history shows each row once in each epoch, as if nothing happened.")
    expect(trained != total, "It does not begin at the beginning: what is in the checkpoint?")
    expect(
        trained != total - DIED,
        f"It cannot continue at {DIED:,}: the parameters of that moment died with their process.",
    )
    expect(
        trained == total - SAVED,
        f"{total:,} samples are to be in the parameters in the end. How many are already?",
    )
    return (
        f"{DIED - SAVED} samples are trained by both processes, and count once: what the first "
        "made of them is lost."
    )


REMEDIES = {"a": 4, "b": 2, "c": 1, "d": 3}


@exercise("clusters.remedy")
def remedy(made: Mapping[str, Any]) -> str:
    """Take a remedy for each message."""
    missing = [name for name in REMEDIES if made.get(name) is None]
    expect(not missing, f"No remedy yet for {', '.join(missing)}.")
    expect(
        made["a"] != REMEDIES["d"] and made["d"] != REMEDIES["a"],
        "In one case no server answered, in another one the master did: which is which?",
    )
    expect(
        made["b"] != REMEDIES["c"] and made["c"] != REMEDIES["b"],
        "One message is about what is installed on a node, another about the way from there.",
    )
    wrong = [name for name, right in REMEDIES.items() if made[name] != right]
    expect(not wrong, f"Look again at {', '.join(wrong)}: who failed to reach or to find what?")
    return "Each message names the host or the address, so that you know where to look first."
