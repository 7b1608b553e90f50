"""Where the server of a run is: in this process, or in a Spark task over Spark Connect."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from tos_notebook.cluster import environment
from tos_notebook.cluster.environment import is_probed, warm_up, why_deployed
from tos_notebook.cluster.executors import DEPLOY_MODE, deploy_mode
from tos_notebook.cluster.remote.context import RemoteContext
from tos_notebook.errors import ClusterUnreachable, ConfigError

PLACE = "192.0.2.1", 7077


class Context(RemoteContext):
    """Of a server with two slots, whose executors cannot reach the driver."""

    def __init__(self, mode: str | None) -> None:
        builder = SimpleNamespace(endpoint="h:15002", secure=False)
        super().__init__(SimpleNamespace(client=SimpleNamespace(_builder=builder)))
        self.settings = {} if mode is None else {DEPLOY_MODE: mode}

    def setting(self, key: str, default: str) -> str:
        return self.settings.get(key, default)


@pytest.fixture(autouse=True)
def reports(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Executors say what they would; whether anybody listened for them is noted."""
    listened: list[Any] = []

    def report(sc: Any, timeout: float, reach: Any) -> list[dict[str, Any]]:
        listened.append(reach)
        lost = "192.0.2.1:7077 (TimeoutError: timed out)" if reach else ""
        return [{"host": "a", "missing": {}, "packages": {}, "unreached": lost}]

    monkeypatch.setattr(environment, "_probe_all", report)
    monkeypatch.setattr(environment, "ReachabilityProbe", lambda *_: _Probe())
    return listened


class _Probe:
    def __enter__(self) -> _Probe:
        return self

    def __exit__(self, *error: object) -> None:
        pass


def test_a_task_has_the_server_where_executors_do_not_reach_this_process() -> None:
    sc: Any = Context(None)
    warm_up(sc, server=PLACE)
    assert "192.0.2.1:7077 (TimeoutError: timed out)" in why_deployed(sc, PLACE)
    assert why_deployed(sc, ("127.0.0.1", 7077)) == ""
    assert is_probed(sc, PLACE)


def test_a_client_is_refused_in_one_sentence_with_the_settings_that_help() -> None:
    sc: Any = Context("client")
    with pytest.raises(ClusterUnreachable) as caught:
        warm_up(sc, server=PLACE)
    (sentence,) = str(caught.value).splitlines()
    assert "spark.tos.server.host" in sentence
    assert "spark.tos.server.port" in sentence
    assert why_deployed(sc, PLACE) == ""


def test_what_was_found_for_a_task_does_not_count_for_a_client() -> None:
    sc: Any = Context(None)
    warm_up(sc, server=PLACE)
    sc.settings[DEPLOY_MODE] = "client"
    assert not is_probed(sc, PLACE)


def test_a_task_has_the_server_where_it_is_asked_for_and_nobody_listens(reports: list[Any]) -> None:
    sc: Any = Context("Cluster")
    warm_up(sc, server=PLACE)
    assert reports == [None]
    assert why_deployed(sc, PLACE) == f"{DEPLOY_MODE} is cluster"


@pytest.mark.parametrize("mode", ["auto", "client"])
def test_what_was_found_for_a_task_that_was_asked_for_says_nothing_of_this_process(
    mode: str, reports: list[Any]
) -> None:
    sc: Any = Context("cluster")
    warm_up(sc, server=PLACE)
    assert is_probed(sc, PLACE)
    sc.settings[DEPLOY_MODE] = mode
    assert not is_probed(sc, PLACE)
    with nullcontext() if mode == "auto" else pytest.raises(ClusterUnreachable):
        warm_up(sc, server=PLACE)
    assert reports[-1] is not None
    sc.settings[DEPLOY_MODE] = "auto"
    assert is_probed(sc, PLACE) == (mode == "auto")


def test_a_driver_and_a_task_have_the_server_themselves() -> None:
    sc: Any = Context("cluster")
    sc.taken = 1
    assert deploy_mode(sc) == "client"
    driver: Any = SimpleNamespace()
    assert deploy_mode(driver) == "client"


def test_another_word_is_refused() -> None:
    sc: Any = Context("task")
    with pytest.raises(ConfigError, match="expected auto, client or cluster, got 'task'"):
        deploy_mode(sc)
