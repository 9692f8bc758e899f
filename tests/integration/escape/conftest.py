"""Two sandboxes with the tools: one that attacks, and one beside it that must not notice."""

import pytest

from probe import Inside


@pytest.fixture(scope="module")
def inside(create_shared, harness):
    return Inside(create_shared(), harness.folder)


@pytest.fixture(scope="module")
def victim(create_shared, harness):
    return Inside(create_shared(), harness.folder)
