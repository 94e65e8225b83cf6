"""The page of results: what stands in it, and that nobody's text is more than text there."""

import base64
import hashlib
import json
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from mvcs.bench.results import ComparisonReport
from mvcs.ui import charts
from mvcs.ui.bench_page import page
from tests.bench.ledgers import HOSTILE, NAMES, write_ledger

LARGEST = 3_000_000
TAGS = frozenset(
    {"html", "head", "meta", "title", "style", "script", "noscript", "body", "h1", "h2", "h3", "h4", "p", "b"}
    | {"strong", "span", "div", "figure", "figcaption", "details", "summary"}
    | {"table", "thead", "tbody", "tr", "th", "td"}
)


class Page(HTMLParser):
    """Elements with their attributes, and the text of each kind."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.texts, self._tag = [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._tag = tag

    def handle_endtag(self, tag):  # noqa: ARG002  # the one that is open
        self._tag = ""

    def handle_data(self, data):
        self.texts.append((self._tag, data))

    @property
    def specs(self):
        return [json.loads(data) for tag, data in self.texts if tag == "script" and data.startswith("{")]

    @property
    def scripts(self):
        return [data for tag, data in self.texts if tag == "script" and not data.startswith("{")]

    def shown(self, tag):
        return [data for found, data in self.texts if found == tag]


def made(out, *args, **options):
    write_ledger(out, *args, **options)
    return page(ComparisonReport.of(out))


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return made(tmp_path_factory.mktemp("ledger"))


@pytest.fixture(scope="module")
def found(text):
    return Page(text)


def inside(value, name):
    """Yield what stands under a name, at any depth."""
    if isinstance(value, dict):
        yield from ([value[name]] if name in value else [])
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from inside(one, name)


def test_foreign_names_are_no_elements(found):
    assert {tag for tag, _ in found.elements} <= TAGS
    assert not [name for _, attributes in found.elements for name in attributes if name.startswith("on")]


def test_foreign_names_are_shown_as_they_are(found):
    assert any(HOSTILE in data for data in found.shown("h2"))
    assert HOSTILE in found.shown("th")
    assert "<script>alert(1)<!-- 1 %" in found.shown("td")
    assert any(HOSTILE in data for data in found.shown("p"))


def test_names_in_charts_come_back_from_their_json(found):
    assert HOSTILE in {row.get("class") for spec in found.specs for row in spec["datasets"]["rows"]}


def test_nothing_is_loaded(found):
    assert not [attributes for _, attributes in found.elements if attributes.keys() & {"src", "href"}]
    assert not [True for spec in found.specs if "http" in json.dumps(spec).replace(HOSTILE, "")]


def test_only_the_script_of_the_page_may_run(found):
    (script,) = found.scripts
    (policy,) = (one["content"] for _, one in found.elements if "http-equiv" in one)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; script-src 'sha256-{digest}'" in policy
    assert "unsafe-eval" not in policy


def test_each_chart_has_a_sentence_and_a_table(found):
    tags = [tag for tag, _ in found.elements]
    assert len(found.specs) == tags.count("figure") == tags.count("figcaption") == tags.count("details") > 8
    assert tags.count("table") == len(found.specs) + 1 + 2  # methods, and settings for each bound


def test_a_method_has_one_colour_and_shape_in_all_charts(found):
    for channel in ("color", "shape"):
        scales = [
            one["scale"] for spec in found.specs for one in inside(spec, channel) if isinstance(one, dict)
        ]
        pairs = {
            pair
            for one in scales
            for pair in zip(one["domain"], one["range"], strict=False)
            if one["domain"][0] != "weights"
        }
        assert len({name for name, _ in pairs}) == len(pairs) == len(charts.SHAPES) + 1


def test_methods_of_fewest_bytes_for_weights_and_for_states_are_named(found):
    assert found.shown("strong") == ["lattice"] * 4  # two bounds


def multiplied(out, count, **options):
    """Return a page of a method under many names."""
    write_ledger(out, NAMES[1:2], bounds=(0.01,), **options)
    report = ComparisonReport.of(out)
    (run,) = report.runs
    (one,) = run.results
    results = [replace(one, method=f"method-{place}", weights=40 / (1 + place)) for place in range(count)]
    return page(replace(report, runs=[replace(run, results=results)]))


def test_dozens_of_methods_leave_a_few_colours(tmp_path):
    found = Page(multiplied(tmp_path, 40))
    marks = [attributes["style"] for tag, attributes in found.elements if tag == "b"]
    assert {style for style in marks if "--m" in style} == {f"color:var(--m{place})" for place in range(6)}
    assert "method-39" in found.shown("td")


def test_a_large_ledger_makes_a_page_that_can_be_sent(tmp_path):
    assert len(multiplied(tmp_path, 40, checkpoints=60).encode()) < LARGEST


def test_several_runs_share_the_script(tmp_path):
    write_ledger(tmp_path, NAMES[:1])
    report = ComparisonReport.of(tmp_path)
    found = Page(page(replace(report, runs=report.runs * 2)))
    assert len(found.shown("h2")) == 2
    assert len(found.scripts) == 1


def test_an_unfinished_method_is_marked_and_not_in_the_headline(tmp_path):
    write_ledger(tmp_path, NAMES[:2], bounds=(0.01,))
    next(tmp_path.rglob("lattice-v1-0.01-0/step_*.json")).unlink()
    found = Page(page(ComparisonReport.of(tmp_path)))
    assert found.shown("strong") == ["inshrinkerator"] * 2
    assert any("unfinished" in text for text in found.shown("p"))
    assert "lattice (3 of 4)" in found.shown("td")


def test_where_nothing_was_measured_the_page_says_so(tmp_path):
    found = Page(made(tmp_path, ()))
    assert "Nothing was measured." in found.shown("p")
    assert any("excp was not measured: no moments" in text for text in found.shown("p"))


def test_all_that_a_search_varies_is_shown(tmp_path):
    write_ledger(tmp_path, ["qd"], bounds=(0.01,))
    report = ComparisonReport.of(tmp_path)
    (run,) = report.runs
    (one,) = run.results
    records = [replace(record, setting={"min_bits": 2, "max_bits": 4}) for record in one.records]
    run = replace(run, results=[replace(one, records=records)])
    found = Page(page(replace(report, runs=[run])))
    assert found.shown("h4")[-1] == "Chosen settings"
    assert found.shown("td")[-10:] == ["qd: min_bits", *"2222", "qd: max_bits", *"4444"]


def test_legends_say_what_within_the_bound_means_and_who_keeps_moments_inexactly(found):
    legend = " ".join(found.shown("p"))
    assert "two standard errors" in legend
    assert "excp and lattice keep moments less than exactly" in legend


def test_what_is_no_number_is_in_no_chart(tmp_path):
    found = Page(made(tmp_path, NAMES[:2], lost=float("nan")))
    assert "nan" not in json.dumps(found.specs).lower().replace("nance", "")


def test_a_single_checkpoint_is_enough(tmp_path):
    assert Page(made(tmp_path, NAMES[:2], checkpoints=1)).specs
