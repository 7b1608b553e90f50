"""What encoded updates leave out is neither lost nor counted twice, whatever else changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.worker.support import Frail, center
from tests.unit.worker.test_codecs import Steps, missing, rows, stepping
from tos_notebook.blocks.partitioners import RandomPartitioner
from tos_notebook.codecs.pair import as_codecs
from tos_notebook.combiners import Combiner, Downpour, DynSGD, FedAsync, Median
from tos_notebook.coordination.job_span import DataLayout
from tos_notebook.data.arrays import ArraySource
from tos_notebook.errors import ConfigError, ConnectionClosed
from tos_notebook.steering.machine import Command

SPARSE = "topk:0.05+ef/fp32"


def with_a_rest(count: int) -> Any:
    """Return rows, and as many zeros as it takes to send all that they left."""
    return np.concatenate([rows(count), np.zeros((40, 600), np.float32)])


def swap(training: Any, combiner: Combiner) -> None:
    training.change_settings(Command.SWAP_COMBINER, combiner.name, combiner=combiner)


def swapping(training: Any, program: Steps, combiners: dict[int, Combiner]) -> None:
    """Swap combiners while a batch is trained: its update was asked for by the one before."""

    def change(number: int) -> None:
        if number in combiners:
            swap(training, combiners[number])

    program.on_batch = change


@pytest.mark.parametrize("codec", [SPARSE, "sign+ef/fp32", "powersgd:2+ef/fp32"])
@pytest.mark.parametrize("first", [Downpour(), FedAsync(1.0)], ids=["changes", "parameters"])
def test_what_was_left_out_goes_along_when_the_combiner_is_swapped(
    serve: Any, codec: str, first: Combiner
) -> None:
    """Between rules of changes and of parameters, all of which take one worker's in full."""
    data = with_a_rest(16)
    whole = stepping(data, codec)
    serve(whole).work(Steps(), columns=1)

    training, program = stepping(data, codec, combiner=first), Steps()
    swaps = {4: DynSGD(), 8: FedAsync(1.0), 9: Downpour(), 12: FedAsync(1.0)}
    swapping(training, program, swaps)
    serve(training).work(program, columns=1)
    assert training.settings.strategy.combiner is swaps[12]
    np.testing.assert_allclose(center(training)["w"], center(whole)["w"], atol=1e-4)
    if codec == SPARSE:
        np.testing.assert_allclose(missing(training, data), 0, atol=1e-4)


@pytest.mark.parametrize("codec", ["int8", "bf16", "int4"])
def test_a_swap_under_a_lossy_codec_costs_no_more_than_its_rounding(serve: Any, codec: str) -> None:
    data = rows(16)
    plain, training, program = stepping(data, codec), stepping(data, codec), Steps()
    swapping(training, program, {4: FedAsync(1.0), 8: DynSGD(), 12: FedAsync(1.0)})
    for each, its_program in ((plain, Steps()), (training, program)):
        serve(each).work(its_program, columns=1)
    allowed = np.abs(missing(plain, data)).max()
    assert np.abs(missing(training, data)).max() <= 2 * allowed


@pytest.mark.parametrize("codec", ["fp32/int8", "powersgd:2+ef/fp32"])
def test_parameters_that_no_codec_makes_shorter_arrive_as_they_are(serve: Any, codec: str) -> None:
    """And are not taken for their difference to others: powersgd has no use for a vector."""
    data = rows(16)
    training = stepping(data, codec, combiner=FedAsync(1.0))
    serve(training).work(Steps(), columns=1)
    assert np.abs(missing(training, data)).max() < 0.2


def test_a_swap_that_the_codec_does_not_allow_changes_nothing(serve: Any) -> None:
    data = with_a_rest(12)
    training, program = stepping(data, SPARSE), Steps()

    def refused(number: int) -> None:
        if number == 6:
            with pytest.raises(ConfigError, match="median compares whole updates"):
                swap(training, Median())

    program.on_batch = refused
    serve(training).work(program, columns=1)
    assert isinstance(training.store.combiner, Downpour)
    np.testing.assert_allclose(missing(training, data), 0, atol=1e-4)


@pytest.mark.parametrize("delivered", [False, True])
def test_what_was_left_out_is_not_lost_with_the_push_that_was_to_take_it_along(
    serve: Any, tmp_path: Path, delivered: bool
) -> None:
    """The codec has changed to one that leaves nothing out; the worker dies at its first push."""
    data = rows(12)
    training, program = stepping(data, SPARSE), Steps()
    program.on_batch = lambda number: (
        number == 5 and training.change_settings(Command.SET, "", codec=as_codecs("fp32"))
    )
    served = serve(training)
    frail = Frail(served.connect(), 6, delivered)
    with pytest.raises(ConnectionClosed):
        served.work(program, columns=1, connection=frail, folder=tmp_path)
    served.work(Steps(), task=100, columns=1, folder=tmp_path)
    np.testing.assert_allclose(missing(training, data), 0, atol=1e-5)


@pytest.mark.parametrize("delivered", [False, True])
def test_nothing_is_sent_twice_when_a_partition_returns_to_an_executor_that_it_died_on(
    serve: Any, tmp_path: Path, delivered: bool
) -> None:
    """Another executor has gone on meanwhile: the first does not know what of its own counts."""
    data = np.abs(with_a_rest(16))
    training = stepping(data, SPARSE)
    served = serve(training)
    here, there = tmp_path / "here", tmp_path / "there"
    for task, (folder, number) in enumerate([(here, 5), (there, 3)]):
        folder.mkdir()
        frail = Frail(served.connect(), number, delivered)
        with pytest.raises(ConnectionClosed):
            served.work(Steps(), task=100 * task, columns=1, connection=frail, folder=folder)
    served.work(Steps(), task=200, columns=1, folder=here)
    # Each value of a row was sent once or, if it was left on an executor that died, not at all.
    lost = missing(training, data)
    assert lost.min() > -1e-4
    assert (lost < data[:10].sum(axis=0) + 1e-4).all()


@pytest.mark.parametrize("partitions", [2, 1])
def test_a_partition_takes_along_what_it_left_out_when_the_data_are_laid_out_anew(
    serve: Any, tmp_path: Path, partitions: int
) -> None:
    """On the same executor, whatever rows it has then. That of a partition that is gone is lost."""
    data = rows(40)
    training = stepping(data, SPARSE, partitions=2)
    served = serve(training)
    for partition in range(2):
        served.work(Steps(), partition, partition, columns=1, folder=tmp_path)
    left_out = np.abs(missing(training, data)).sum()
    source = ArraySource((np.zeros((80, 600), np.float32),), partitions)
    layout = DataLayout(partitions, RandomPartitioner(partitions), 1)
    training.begin_span(source, 1, 1, layout)
    for partition in range(partitions):
        served.work(Steps(), partition, 100 + partition, columns=1, folder=tmp_path)
    lost = np.abs(missing(training, data)).sum()
    assert (lost < 1e-2) if partitions == 2 else (left_out / 4 < lost < left_out)
