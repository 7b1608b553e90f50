"""Training against TensorFlow's `ParameterServerStrategy`, with two workers and one server.

Its workers read and change the parameters at each step, ten steps to a call. Ours exchange at each
tenth step, as is the default, and in a second comparison at each step.

    python -m benchmarks.neighbours.parameter_servers [--quick]
"""

from __future__ import annotations

from ..lib.harness import Row, program
from ..lib.neighbor import Neighbor, compare
from ..lib.ours import BATCH_SIZE

INTERVALS = {10: "exchange every 10 steps", 1: "exchange at each step"}


def run(quick: bool) -> list[Row]:
    """Measure in turns."""
    with Neighbor("servers_side", [str(BATCH_SIZE)]) as servers:
        return [
            compare("ParameterServerStrategy", how, servers, quick, sync_interval=interval)
            for interval, how in INTERVALS.items()
        ]


if __name__ == "__main__":
    program(run, __doc__)
