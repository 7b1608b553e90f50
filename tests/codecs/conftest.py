"""Every test of a codec runs twice: with the kernels in C, and with numpy alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tos_notebook.codecs import native


@pytest.fixture(scope="module", autouse=True, params=["compiled", "numpy"])
def kernels(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.param == "compiled" and native.extension is None:
        pytest.skip("needs a C compiler when this package is installed")
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "numpy":
            patch.setattr(native, "extension", None)
        yield
