"""Every test of a codec that has kernels in C runs twice: with them, and with numpy alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tos_notebook.codecs import native

WITH_KERNELS = ("int8", "sign")
"""What `native.kernels_of` knows, where there is a C compiler."""


@pytest.fixture(scope="module", autouse=True, params=["compiled", "numpy"])
def kernels(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.param == "compiled" and native.extension is None:
        pytest.skip("needs a C compiler when this package is installed")
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "numpy":
            patch.setattr(native, "extension", None)
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out the first of two runs that would be the same."""
    items[:] = [item for item in items if not _repeated(item)]


def _repeated(item: pytest.Item) -> bool:
    """Whether a test is to run with kernels that its codec, by its name or the test's, lacks."""
    call = getattr(item, "callspec", None)
    if call is None or call.params.get("kernels") != "compiled":
        return False
    codec = str(call.params.get("name", item.name))
    return not any(each in codec for each in WITH_KERNELS)
