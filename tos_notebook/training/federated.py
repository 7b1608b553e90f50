"""``tos.federated(clients, rounds)``: the options of federated averaging."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..blocks.sampling import Participants
from ..combiners.averaging import FedAvg
from ..common.checks import at_least_one, with_known_options
from ..common.checks import fraction as part
from ..steering.sync import WHOLE_EPOCH
from .options import CallOptions, ObserverOptions, RunOptions, SessionOptions, subset


class Federated(dict[str, Any]):
    """Options by name, as `federated` returns them; change them as any dict."""

    def __or__(self, other: Any) -> Any:
        """Return the same with other options, and with both parts."""
        joined = super().__or__(other)
        return joined if joined is NotImplemented else Federated(joined)

    @property
    def session(self) -> Mapping[str, Any]:
        """Those of `TrainingSession`."""
        return subset(SessionOptions, self, none=True)

    @property
    def run(self) -> Mapping[str, Any]:
        """Those of `TrainingSession.start`, and of `TrainingSession.run`."""
        beside = subset(ObserverOptions, self, none=True) | subset(CallOptions, self, none=True)
        return subset(RunOptions, self, none=True) | beside


@with_known_options
def federated(clients: int, rounds: int, fraction: float = 1.0) -> Federated:
    """Return the options that make a run federated averaging, to be given to `tos_notebook.fit`.

    Each partition is a client, which keeps its rows; there may be more clients than Spark runs
    tasks at once. A round is an epoch. In each round some clients, drawn at random, begin with the
    parameters of the server. Each trains its rows once, by itself, in batches of `batch_size`, and
    pushes what has changed. The server then moves by the mean of the changes, weighted by rows.

    That is the algorithm FedAvg, with one local epoch to a round: McMahan et al. 2017,
    "Communication-Efficient Learning of Deep Networks from Decentralized Data", AISTATS,
    arXiv:1602.05629. Rows stay in their partitions, but nothing more is done for privacy: the
    server sees the changes of each client.

    The options are plain: those of `partitions`, `participation`, `sync_interval`, `combiner` and
    four more. You can change or add some: ``tos.federated(10, 8) | {"batch_size": 10}``. Another
    server optimizer needs the same `k`, the clients of a round, such as
    ``{"combiner": tos.combiners.SlowMo(k=10)}``. Where the optimizer of the model has a state, add
    ``{"optimizer_state": "reset"}``, since a client of the original keeps none.

    Parameters
    ----------
    clients : int
        How many there are, at least 1. An RDD or a DataFrame must have as many partitions, if no
        partitioner makes them. A client without rows pushes nothing, and the round waits for a
        push of the next one instead.
    rounds : int
        At least 1. It takes the place of `epochs`, which these options hold. So do not also give
        `epochs`: Python refuses ``tos.fit(model, data, epochs=8, **tos.federated(...))``.
    fraction : float
        The part of the clients that train in a round, above 0, at most 1; at least one of them.

    Returns
    -------
    dict of str
        For `tos_notebook.fit`. Its `session` and `run` are the parts for `TrainingSession` and for
        its `start`.

    Raises
    ------
    ConfigError
        A value out of range.

    Examples
    --------
    >>> options = federated(clients=10, rounds=8, fraction=0.3)
    >>> options["epochs"], options["combiner"]
    (8, FedAvg(k=3))
    >>> run = tos.fit(model, (x, y), batch_size=10, **options)                # doctest: +SKIP
    >>> session = tos.TrainingSession(spark, model, **options.session)        # doctest: +SKIP
    >>> session.run((x, y), **options.run)                                    # doctest: +SKIP
    """
    at_least_one("clients", clients)
    of_a_round = Participants(part("fraction", fraction), clients).count
    return Federated(
        epochs=at_least_one("rounds", rounds),
        partitions=clients,
        participation=fraction,
        shuffle="partitions",
        strategy="ps",
        sync="asp",
        sync_interval=WHOLE_EPOCH,
        combiner=FedAvg(k=of_a_round),
    )
