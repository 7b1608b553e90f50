"""A small job: scikit-learn's digits, where starting costs as much as training.

python -m benchmarks.throughput.digits [--quick]
"""

from __future__ import annotations

from statistics import mean, median

import tos_notebook as tos

from ..lib.data import digits
from ..lib.harness import Row, program
from ..lib.models import name_of, network
from ..lib.ours import measure, spark
from ..lib.peers import Peer
from .fit import STEPS, fitter

SIZES = (64, 64, 10)
BATCH_SIZE = 32
EPOCHS = 20
COMBINER = "downpour"
"""With two workers a push meets one other on its way, and DynSGD would halve almost all: 0.947
to 0.949 in the mean of eight seeds, against 0.956 to 0.958."""


def run(quick: bool) -> list[Row]:
    """Measure in turns; every run of ours begins at the same weights."""
    rounds = 3 if quick else 7
    data, test = digits()
    model = network(SIZES, pixels=False, metrics=["accuracy"])
    initial = model.get_weights()
    ours, fits, accuracies = [], [], []
    with (
        spark() as session,
        Peer(fitter, "digits", SIZES, BATCH_SIZE) as fit,
        tos.TrainingSession(session, model, combiner=COMBINER, batch_size=BATCH_SIZE) as training,
    ):
        training.run(data, EPOCHS)
        for steps in STEPS:
            fit.call(steps, EPOCHS)
        for seed in range(rounds):
            model.set_weights(initial)
            ours.append(measure(training, data, EPOCHS, seed=seed))
            accuracies.append(model.evaluate(*test, verbose=0, return_dict=True)["accuracy"])
            fits.append({steps: fit.call(steps, EPOCHS) for steps in STEPS})
    seconds = median(m.wall for m in ours)
    ratio = median(min(f.values()) / m.wall for m, f in zip(ours, fits, strict=True))
    name = f"digits {name_of(SIZES)}, {EPOCHS} epochs"
    parts = {"ours": f"{seconds:.3f} s"}
    for steps in STEPS:
        parts[f"fit, steps_per_execution={steps}"] = f"{median(f[steps] for f in fits):.3f} s"
    each = {"each": " ".join(f"{accuracy:.4f}" for accuracy in accuracies)}
    until_first = {"start to first milestone": f"{median(m.until_first for m in ours):.3f} s"}
    return [
        Row(f"{name}: whole call, warm", seconds, "s", "< 1", until_first, rounds),
        Row(f"{name}: seconds of the best fit / ours", ratio, "x", "> 1", parts, rounds),
        Row(f"{name}: mean test accuracy", mean(accuracies), "", ">= 0.955", each, rounds),
    ]


if __name__ == "__main__":
    program(run, __doc__)
