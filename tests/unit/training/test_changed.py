"""What a resumed run is to do otherwise, before anything of it is made."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tos_notebook.codecs.pair import PLAIN, as_codecs
from tos_notebook.combiners import DCASGD, Downpour, Median
from tos_notebook.coordination.settings import Settings
from tos_notebook.errors import ConfigError
from tos_notebook.steering.sync import as_sync
from tos_notebook.strategies import AllReduce, ParameterServer, TreeAggregate
from tos_notebook.training import resume
from tos_notebook.training.changed import in_turn, require_measurable
from tos_notebook.training.checkpoint.contents import Origin
from tos_notebook.training.options import RunOptions, SessionOptions


def settings(combiner: Any, interval: int, codec: str = "fp32") -> Settings:
    own = ParameterServer().settings(combiner, as_codecs(codec))
    return Settings(own, interval, as_sync("asp"))


def test_settings_change_in_an_order_in_which_those_of_each_moment_go_together() -> None:
    """DCASGD needs interval 1, and a median takes no codec with error feedback."""
    now = settings(DCASGD(), 1, "topk:0.01+ef/int8")
    wanted = {"combiner": Median(), "sync_interval": 5, "codec": PLAIN}
    order = in_turn(now, wanted)
    for changes in order:
        now = now.changed(**changes)
    assert [*map(list, order)] == [["codec"], ["combiner"], ["sync_interval"]]
    assert (now.sync_interval, now.strategy.codec) == (5, PLAIN)


def test_settings_that_go_together_change_at_once() -> None:
    wanted = {"combiner": Downpour(), "sync_interval": 5, "codec": as_codecs("int8")}
    assert [*map(list, in_turn(settings(Median(), 2), wanted))] == [
        ["sync_interval", "codec"],
        ["combiner"],
    ]
    assert [*map(list, in_turn(settings(DCASGD(), 1), wanted))] == [
        ["combiner"],
        ["sync_interval", "codec"],
    ]


def test_no_interval_is_measured_for_a_strategy_that_comes_later() -> None:
    now = ParameterServer()
    for given in ({"strategy": "ps", "sync_interval": "auto"}, {"strategy": AllReduce()}):
        require_measurable(now, given)
    with pytest.raises(ConfigError, match="sync_interval: expected a number with another strategy"):
        require_measurable(now, {"strategy": "allreduce:parameters", "sync_interval": "auto"})


def test_a_run_whose_partitions_kept_their_rows_is_resumed_as_mllib_samples_them() -> None:
    """A checkpoint holds of ``shuffle="partitions"`` only that the order changes."""
    run = RunOptions(2, shuffle="partitions", checkpoint_every=5)
    began = Origin("run-1", SessionOptions(), run, {}, 2, (), 4, True, "0" * 32, 1.5)
    saved: Any = SimpleNamespace(
        origin=Origin.from_json(began.to_json()),
        strategy=TreeAggregate(0.2, sampler="mllib"),
        progress=SimpleNamespace(reached=SimpleNamespace(epoch=0)),
    )
    assert resume._origin(saved, {"epochs": 3}).options.epochs == 3
    with pytest.raises(ConfigError, match="repartition_every: expected none with sampler='mllib'"):
        resume._origin(saved, {"repartition_every": 1})
