"""The page of results in Chromium, without a network: everything is drawn, fits and runs nobody's text."""

import importlib
import re
import shutil
from importlib.util import find_spec

import pytest

from tests.bench.ledgers import HOSTILE, NAMES
from tests.ui.test_bench_page import made

CHROMIUM = shutil.which("chromium")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
LEGIBLE = 11
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        CHROMIUM is None or find_spec("playwright") is None,
        reason="Chromium or playwright is not installed; 'make test-report' installs both",
    ),
]


@pytest.fixture(scope="module")
def browser():
    with importlib.import_module("playwright.sync_api").sync_playwright() as programs:
        started = programs.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield started
        started.close()


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    (folder / "report.html").write_text(made(folder / "out", [*NAMES, "gobo", "deltadnn", "zstd:3"]))
    return folder / "report.html"


@pytest.fixture(params=[(390, "light"), (390, "dark"), (1280, "light"), (1280, "dark")], ids=str)
def shown(request, browser, path):
    """The page when all is drawn, what it asked for, and what it said was wrong."""
    width, scheme = request.param
    context = browser.new_context(
        viewport={"width": width, "height": 844}, color_scheme=scheme, offline=True, has_touch=width < 1000
    )
    page, asked, wrong = context.new_page(), [], []
    page.on("request", lambda one: asked.append(one.url))
    page.on("console", lambda one: wrong.append(one.text))
    page.on("pageerror", lambda one: wrong.append(str(one)))
    page.on("dialog", lambda one: (wrong.append("a dialog"), one.dismiss()))
    page.goto(path.as_uri())
    page.wait_for_function("![...document.querySelectorAll('.chart')].some(one => !one.querySelector('svg'))")
    yield page, asked, wrong
    context.close()


def test_all_is_drawn_and_nothing_asked_for(shown, path):
    page, asked, wrong = shown
    assert asked == [path.as_uri()]
    assert wrong == []
    assert page.locator(".chart svg").count() > 8


def test_the_page_does_not_scroll_sideways(shown):
    page, _, _ = shown
    page.locator("details").evaluate_all("all => all.forEach(one => { one.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    right = page.locator(".chart svg").evaluate_all(
        "all => all.map(one => one.getBoundingClientRect().right)"
    )
    assert max(right) <= page.evaluate("innerWidth")


def test_text_of_charts_is_legible(shown):
    page, _, _ = shown
    found = page.locator(".chart svg text").evaluate_all(
        "all => all.map(one => [one.textContent, parseFloat(getComputedStyle(one).fontSize)])"
    )
    assert len(found) > 50
    assert [text for text, size in found if text and size < LEGIBLE] == []


@pytest.mark.parametrize(("what", "least"), [(".chart svg text", 4.5), (".mark-symbol path", 2)])
def test_colours_stand_out_from_the_page(shown, what, least):
    page, _, _ = shown
    paper = luminance(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    found = page.locator(what).evaluate_all(f"all => all.map(one => getComputedStyle(one)).map({PAINT})")
    assert len(found) > 50
    assert min(contrast(luminance(one), paper) for one in set(found)) >= least


PAINT = "one => one.fill.startsWith('rgb(') ? one.fill : one.stroke"


def luminance(colour):
    """As WCAG has it, of such as rgb(1, 2, 3)."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(share * part for share, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one, other):
    return (max(one, other) + 0.05) / (min(one, other) + 0.05)


def test_lines_go_on_from_step_to_step(shown):
    page, _, _ = shown
    drawn = page.locator(".mark-line path").evaluate_all("all => all.map(one => one.getAttribute('d'))")
    across = [[float(x) for x in re.findall(r"[ML](-?[\d.]+)", path)] for path in drawn]
    charts = page.locator(".mark-line").count()
    assert charts > 8
    assert [line for line in across if line not in (sorted(line), sorted(line, reverse=True))] == []


def test_names_under_the_pointer_are_text(shown):
    page, _, wrong = shown
    page.locator(f'.mark-rect path[aria-label*="{HOSTILE}"]').first.hover(force=True)
    said = page.locator("#vg-tooltip-element")
    said.wait_for()
    assert HOSTILE in said.inner_text()
    assert page.locator("img").count() == 0
    assert wrong == []


def test_names_in_charts_are_drawn_as_text(shown):
    page, _, _ = shown
    assert page.locator("img").count() == 0
    assert any("<script>alert" in text for text in page.locator(".chart svg text").all_text_contents())
