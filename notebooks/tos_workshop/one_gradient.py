"""The exercises of ``01a_one_gradient.ipynb``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .exercise import exercise, expect

NBYTES = 2600
"""Of the notebook's parameters."""


@exercise("one_gradient.busiest")
def busiest(function: Callable[[int, int], Any]) -> str:
    """Check the bytes on the busiest link: of a server, and of a worker in a ring."""
    found = {workers: function(workers, NBYTES) for workers in (2, 4, 8)}
    expect(
        all(pair is not None and len(pair) == 2 and None not in pair for pair in found.values()),
        "Return two numbers: the bytes on the server's link, and on a worker's link in the ring.",
    )
    server, ring = ({n: float(pair[at]) for n, pair in found.items()} for at in (0, 1))
    right_server = {n: 2.0 * n * NBYTES for n in found}
    right_ring = {n: 4.0 * (n - 1) / n * NBYTES for n in found}
    expect(
        not _same(server, dict.fromkeys(found, 2.0 * NBYTES)),
        "server: that is the link of one worker. All workers send to the same server.",
    )
    expect(
        not _same(server, {n: 1.0 * n * NBYTES for n in found}),
        "server: that is one direction. The server also sends the parameters back to each worker.",
    )
    expect(
        _same(server, right_server),
        "server: count the parameters that come in from each worker, and those that go out.",
    )
    expect(
        not _same(ring, {n: right / 2 for n, right in right_ring.items()}),
        "ring: a worker sends that much. How much does it receive?",
    )
    expect(
        not _same(ring, {n: n * right for n, right in right_ring.items()}),
        "ring: that is the sum of all links. How much does one of them carry?",
    )
    expect(
        _same(ring, right_ring),
        "ring: a part is 1/n of the parameters. A worker sends 2(n - 1) parts, and receives as "
        "many.",
    )
    return (
        "The server's link carries more with each worker. In the ring no link carries more than "
        "four times the parameters, however many workers there are."
    )


def _same(one: dict[int, float], other: dict[int, float]) -> bool:
    return bool(np.allclose(list(one.values()), list(other.values())))


CHANGE = np.array([0.3, -0.1, 0.05, -0.6, 0.2, 0.0])
KEPT = np.array([0.0, 0.4, 0.0, 0.1, 0.0, -0.1])


@exercise("one_gradient.feedback")
def feedback(function: Callable[[Any, Any, int], Any]) -> str:
    """Check a compression by the largest values that keeps what it does not send."""
    made = function(CHANGE.copy(), KEPT.copy(), 2)
    expect(
        made is not None and len(made) == 2 and all(each is not None for each in made),
        "Return two arrays: what is sent now, and what is kept for the next time.",
    )
    sent, kept = (np.asarray(each, np.float64) for each in made)
    expect(
        sent.shape == kept.shape == CHANGE.shape,
        f"Expected two arrays of shape {CHANGE.shape}, got {sent.shape} and {kept.shape}. A value "
        "that is not sent is 0.",
    )
    count = np.count_nonzero(sent)
    expect(count == 2, f"Expected 2 values that are sent, got {count}.")
    total = CHANGE + KEPT
    expect(
        not np.allclose(sent, _largest(CHANGE, np.abs(CHANGE))),
        "That sends the largest values of the change alone. Add what was kept before you choose.",
    )
    expect(
        not np.allclose(sent, _largest(total, total)),
        "-0.5 is a large change as well: compare the values without their signs.",
    )
    expect(
        np.allclose(sent, _largest(total, np.abs(total))),
        f"The sums are {total}. Send the two that are largest without their signs.",
    )
    expect(
        not np.allclose(kept, 0),
        "Nothing is kept, so what was not sent is lost.",
    )
    expect(
        np.allclose(sent + kept, total),
        "What is sent and what is kept must add up to the change and what was kept before.",
    )
    return (
        "A small change is not lost. It is kept until its sum is large enough to be sent. This is "
        "what +ef does in a codec such as topk:0.05+ef."
    )


def _largest(values: Any, by: Any) -> Any:
    """Return the values where `by` is largest, twice, and 0 elsewhere."""
    chosen = np.zeros_like(values)
    places = np.argsort(by)[-2:]
    chosen[places] = values[places]
    return chosen


@exercise("one_gradient.pays")
def pays(function: Callable[..., Any]) -> str:
    """Check the time of a step with n workers in a ring, and the best number of workers."""
    compute, nbytes, bandwidth, latency = 0.4, 4_000_000, 1e8, 0.001

    def seconds(workers: int) -> float:
        rounds = 2 * (workers - 1)
        return compute / workers + rounds * (nbytes / workers / bandwidth + latency)

    found = [function(n, compute, nbytes, bandwidth, latency) for n in (1, 2, 4, 16)]
    expect(
        all(each is not None for each in found),
        "The function returns nothing. Return the seconds of one step.",
    )
    right = [seconds(n) for n in (1, 2, 4, 16)]
    expect(
        np.isclose(found[0], compute),
        f"One worker computes for {compute} s and exchanges with no other worker; got "
        f"{found[0]:g} s.",
    )
    expect(
        not np.allclose(
            found, [r - compute / n + compute for n, r in zip((1, 2, 4, 16), right, strict=True)]
        ),
        "The workers share the batch, so each of them computes for compute / n seconds.",
    )
    expect(
        not np.allclose(
            found,
            [compute / n + 2 * (n - 1) * (nbytes / bandwidth + latency) for n in (1, 2, 4, 16)],
        ),
        "In each round a worker sends one part, which is 1/n of the bytes.",
    )
    expect(
        not np.allclose(
            found, [compute / n + 2 * (n - 1) * nbytes / n / bandwidth for n in (1, 2, 4, 16)]
        ),
        "The latency is missing. Each of the 2(n - 1) rounds takes it once.",
    )
    expect(
        np.allclose(found, right),
        f"With 2 workers a step takes {right[1]:g} s; got {found[1]:g} s. Add the computing and "
        "2(n - 1) rounds.",
    )
    return (
        "The computing shrinks with each worker, and the exchange does not. From some number of "
        "workers on, one more makes a step slower."
    )
