"""An index that does not exist yet."""

import pytest

from mvcs.lineage import Lineage


@pytest.fixture
def path(tmp_path):
    return tmp_path / "lineage.sqlite"


@pytest.fixture
def lineage(path):
    return Lineage.open(path)
