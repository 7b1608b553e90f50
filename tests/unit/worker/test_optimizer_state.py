"""What becomes of a worker's optimizer state at an exchange."""

from __future__ import annotations

from tests.support.numpy_program import Momentum
from tests.unit.worker.conftest import Serve
from tests.unit.worker.support import counting_training, numbers


def test_kept_state_goes_on_through_exchanges(serve: Serve) -> None:
    program = Momentum()
    serve(counting_training(rows=4, program=program)[0]).work(program, blocks=[(numbers(4),)])
    assert program.begun == [0, 1, 2.5, 4.25]


def test_reset_state_is_new_in_each_stretch_between_exchanges(serve: Serve) -> None:
    program = Momentum()
    program.momentum[:] = 7  # of an attempt that died in this process
    training, _ = counting_training(rows=6, program=program, sync_interval=2, epochs=2)
    serve(training).work(program, blocks=[(numbers(6),)], optimizer_state="reset")
    assert program.begun == [0] * 6
    assert program.momentum[0] == 0
