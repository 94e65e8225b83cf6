"""Each kind of leaf, form and encoding that format 1 has comes back as it was written, in both readers."""

import json
import shutil

import pytest

from mvcs import Repository
from mvcs.delta import Encoding
from mvcs.objects.forms import FORMS
from tests.elsewhere.read_stores import found
from tests.golden.kinds import HERE, KINDS, commits
from tests.golden.test_golden import CODERS, VERSIONS

TABLE = 0


def expected(name: str) -> dict[str, list[str | None]]:
    return json.loads((HERE / name / "expected.json").read_text())


@pytest.mark.parametrize("name", KINDS)
def test_mvcs_restores_what_was_restored_then(name, tmp_path):
    place = shutil.copytree(HERE / name / "store", tmp_path / "store")
    assert commits(place) == expected(name)
    with Repository.open(place) as repository:
        report = repository.fsck()
        assert (report.ok, report.problems) == (True, [])
        assert bool(report.notes) == (name == "moved")  # data were dropped there


@pytest.mark.parametrize("name", KINDS)
def test_the_second_reader_restores_the_same(name):
    read = found(HERE / name / "store")
    assert (read["commits"], read["damaged"]) == (expected(name), 0)


def test_nothing_that_format_1_has_is_missing():
    golden = [HERE.parent / name for name in VERSIONS + CODERS]
    read = [found(place / "store") for place in [*(HERE / name for name in KINDS), *golden]]
    assert {number for one in read for number in one["encodings"]} == {each.value for each in Encoding}
    assert {number for one in read for number in one["forms"]} == {TABLE, *FORMS}
