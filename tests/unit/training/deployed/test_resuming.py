"""A run in a task is continued once it has ended here."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import pytest

import tos_notebook as tos
from tests.integration.conftest import classifier
from tests.support.followed import followed
from tos_notebook.errors import InvalidTransition
from tos_notebook.training import factory

resuming = importlib.import_module("tos_notebook.training.resume")


@pytest.mark.parametrize("uri", ["file:/runs/r", "file:/runs/r/"])
def test_a_run_that_is_active_in_this_process_is_not_continued(uri: str) -> None:
    model = classifier()
    run: Any = followed(tos.capture(model), uri="file:/runs/r")
    factory.remember(run)
    with pytest.raises(InvalidTransition, match=r"trains r; wait\(\) for it or stop\(\) it"):
        resuming._deployed(run.parts.sc, "", uri, None, model, {})
    run.lifecycle.finish([], None)


def test_a_session_whose_server_is_in_a_task_shows_its_program() -> None:
    session: Any = object.__new__(tos.TrainingSession)
    session._base = tos.capture(classifier())
    session._options = SimpleNamespace(strategy="ps", combiner=None)
    session._closed, session._server, session._deployed = False, None, "asked for"
    session._known = session._unbuilt = None
    assert f"in a Spark task: {session._base!r}, 'ps'" in repr(session)
