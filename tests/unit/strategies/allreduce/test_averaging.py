"""Means of vectors of dtypes in which their weighted sum does not fit."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.reduction.conftest import meshes, together
from tos_notebook.codecs.pair import as_codecs
from tos_notebook.layout import Layout, ParameterSpec
from tos_notebook.reduction.schedules import ring
from tos_notebook.strategies.allreduce.averaging import Averager
from tos_notebook.strategies.allreduce.coding import reducers_for


@pytest.mark.parametrize("codec", ["fp32", "bf16", "fp16"])
def test_the_mean_of_halves_is_as_exact_as_they_are_whatever_their_weights(codec: str) -> None:
    with meshes(2) as formed:
        # In bfloat16 it is 2000 or 2008: a codec sends halves as they are.
        vectors = [np.full(10, 2004, "float16") for _ in formed]
        layout = Layout((ParameterSpec("w", (10,), "float16"),))
        made = [
            Averager(mesh, ring(2), [v], reducers_for(layout, mesh, ring(2), as_codecs(codec)))
            for mesh, v in zip(formed, vectors, strict=True)
        ]
        weights = [
            lambda each=each, rows=rows: each.average(rows)  # type: ignore[misc]
            for each, rows in zip(made, (32, 20), strict=True)
        ]
        assert together(weights) == [52.0, 52.0]
    np.testing.assert_allclose(vectors, 2004, rtol=1e-3)
