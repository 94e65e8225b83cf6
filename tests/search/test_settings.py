"""The numbers of a search are one value, of which a run or a benchmark may vary some."""

from dataclasses import fields, replace

import pytest

from mvcs.errors import UsageError
from mvcs.search import LatticeSearch, SearchSettings
from mvcs.search.settings import SEARCH_DEFAULTS


def test_numbers_are_read_as_they_are_typed():
    found = SEARCH_DEFAULTS.changed({"caution": "2", "enough": "5", "retreat": "0.9,0.5"})
    assert found == SearchSettings(caution=2.0, enough=5, retreat=(0.9, 0.5))
    assert SEARCH_DEFAULTS.changed({}) == SEARCH_DEFAULTS


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("cautoin", "2", "a setting of the search cannot be 'cautoin'"),
        ("caution", "much", "caution cannot be 'much'"),
        ("enough", "2.5", "enough cannot be '2.5'"),
        ("sure", "0.7;0.1", "sure cannot be '0.7;0.1'"),
    ],
)
def test_what_is_no_number_of_the_search_is_refused(name, text, said):
    with pytest.raises(UsageError, match=said):
        SEARCH_DEFAULTS.changed({name: text})


def test_each_is_told_of():
    told = SearchSettings.__doc__
    assert all(f"        {each.name}: " in told for each in fields(SearchSettings))


def test_a_search_goes_by_its_own():
    search = LatticeSearch(settings=replace(SEARCH_DEFAULTS, hystereses=(0.25, 0.0), first_deviation=2.0))
    assert {model.deviation for model in search.models.values()} == {2.0}
    assert list(search.models) == [0.25, 0.0]
