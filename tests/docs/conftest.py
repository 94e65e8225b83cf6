"""What a page is followed with: a fresh folder, a home, and a bucket where the page has one."""

from importlib.util import find_spec
from pathlib import Path

import fsspec
import pytest

from tests.docs.programs import environment
from tests.docs.reader import Reader
from tests.docs.serving import commands
from tests.store.servers import KEY, SECRET

ROOT = Path(__file__).parents[2]
GIVEN = Path(__file__).with_name("given")
ENDPOINT, BUCKET = "http://10.0.0.5:9000", "my-bucket"


def pytest_addoption(parser):
    parser.addoption("--rewrite-pages", action="store_true", help="put the output that came into the pages")


@pytest.fixture
def page(request):
    """A page's path below the project's folder."""
    return request.param


@pytest.fixture
def loaded(request, tmp_path):
    """Where `python` and `mvcs` are that find torch loaded; None for those that a reader has."""
    if not request.param:
        yield None
        return
    with commands(request.getfixturevalue("forked"), tmp_path / "bin") as folder:
        yield folder


@pytest.fixture
def bucket(request, page, loaded):
    """An S3 server with an empty bucket, for a page that names one: what it is called there and here."""
    if "s3://" not in (ROOT / page).read_text():
        return {}
    server = request.getfixturevalue("s3_server")
    files = fsspec.filesystem("s3", key=KEY, secret=SECRET, skip_instance_cache=True, **server.options)
    here = f"{BUCKET}-{Path(page).stem.lower()}{'-loaded' if loaded else ''}"
    files.mkdir(here)
    return {ENDPOINT: server.options["endpoint_url"], BUCKET: here, "MY-KEY-ID": KEY, "MY-SECRET": SECRET}


@pytest.fixture
def reader(request, page, loaded, bucket, tmp_path):
    for library in ("lightning", "torchdata", "transformers"):
        if f"{library} " in (ROOT / page).read_text() and not find_spec(library):
            pytest.skip(f"'{library}' is not installed; an extra brings it")
    folder, home, given = tmp_path / "data", tmp_path / "home", GIVEN / f"{Path(page).stem}.py"
    folder.mkdir()
    home.mkdir()
    return Reader(
        page=ROOT / page,
        folder=folder,
        environment=environment(home, loaded, **known(request, page) if bucket else {}),
        stands_for=bucket | {"/data": str(folder), "/given": str(GIVEN)},
        given=given.read_text() if given.exists() else "",
    )


def known(request, page):
    """Where the bucket is and who asks, unless the page is about telling that."""
    server = request.getfixturevalue("s3_server")
    told = ENDPOINT in (ROOT / page).read_text()
    known = {"AWS_DEFAULT_REGION": "us-east-1"}
    if not told:
        known |= {"AWS_ENDPOINT_URL": server.options["endpoint_url"]}
        known |= {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
    return known
