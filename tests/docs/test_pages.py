"""Who types what a page says sees what the page shows."""

from pathlib import Path

import pytest

from tests.docs.pages import blocks, listed

ROOT = Path(__file__).parents[2]
PAGES = [
    "README.md",
    "docs/tutorial.md",
    *sorted(f"docs/howto/{p.name}" for p in ROOT.glob("docs/howto/*.md")),
]
QUICK = ["docs/howto/without-torch.md"]
LOADED = "README.md"  # quick with programs that find torch loaded
ADAPTERS = ["docs/howto/frameworks.md"]  # needs the frameworks
MOST_NOT_RUN = 3


def marks(page: str) -> list[pytest.MarkDecorator]:
    has_bucket = "s3://" in (ROOT / page).read_text()
    if page in ADAPTERS:
        return [pytest.mark.adapters]
    return [pytest.mark.slow] * (page not in QUICK) + [pytest.mark.s3] * has_bucket


@pytest.mark.parametrize(
    ("page", "loaded"),
    [
        *(pytest.param(page, False, marks=marks(page), id=page) for page in PAGES),
        pytest.param(LOADED, True, marks=pytest.mark.s3, id=f"{LOADED}-loaded"),
    ],
    indirect=True,
)
def test_a_page_shows_what_its_reader_sees(reader, request):
    reader.follow()
    if request.config.getoption("--rewrite-pages", default=False):
        reader.rewrite()
    assert reader.changes == []


def test_hardly_a_block_is_not_run():
    left_out = [block for page in PAGES for block in blocks(ROOT / page) if not block.runs]
    assert len(left_out) <= MOST_NOT_RUN


@pytest.mark.parametrize("page", PAGES)
def test_a_commit_has_one_id_on_a_page(page):
    assert {commit: ids for commit, ids in listed(ROOT / page).items() if len(ids) > 1} == {}


@pytest.mark.parametrize(
    "message", ["does not exist", "commits that are not behind yours", "does not refuse a second writer"]
)
def test_the_table_of_errors_has_what_mvcs_says(message):
    assert f"| `{message}` |" in (ROOT / "docs/howto/buckets.md").read_text()
    assert any(message in module.read_text() for module in ROOT.glob("mvcs/**/*.py"))
