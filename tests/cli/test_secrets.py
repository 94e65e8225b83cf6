"""Keys and tokens: never written into a plain file, never printed."""

import json

import pytest

from tests.cli.conftest import Console

SECRET = "q7Zx/W9+v0Kxu4Tj"
URLS = [
    f"s3://KEY:{SECRET}@bucket/gpt",
    f"s3://bucket/gpt?sig={SECRET}",
    f"s3://bucket/gpt?X-Amz-Signature={SECRET}",
    "s3://ghp0123456789abcdefgh/W9@bucket".replace("/W9", ""),
    f"simplecache::s3://KEY:{SECRET}@bucket",
    f"abfs://c@account?se=1&sig={SECRET}",
]
OPTIONS = [
    "secret",
    "key",
    "token",
    "account_key",
    "connection_string",
    "private_key",
    "api_key",
    "pwd",
    "sas_token",
]

VALUES = [
    f'{{"aws_secret_access_key":"{SECRET}"}}',
    f'{{"session": {{"retries": [{{"password" : "{SECRET}"}}]}}}}',
    f'{{"tok\\u0065n": "{SECRET}"}}',
    f'"{{\\"secret\\": \\"{SECRET}\\"}}"',
    f"{{'accessKeyId': '{SECRET}'}}",
    f'[["X-Api-Key", "{SECRET}"]]',
    f"Authorization: Bearer {SECRET}",
    f"bearer {SECRET}",
    f"user=ada;token={SECRET}",
    f"http.password = {SECRET}",
]


def settings(console):
    path = console.folder / ".mvcs" / "config.toml"
    return path.read_text() if path.exists() else ""


def quiet(result):
    for secret in (SECRET, "ghp0123456789"):
        assert secret not in result.out + result.err
    return result


@pytest.mark.parametrize("url", URLS)
def test_no_url_with_a_secret_is_remembered_or_repeated(mvcs, url):
    before = settings(mvcs)
    for words in (
        ("remote", "add", "lab", url),
        ("config", "remote.lab.url", url),
        ("config", "store.url", url),
        ("config", "user.name", url),
        ("init", "other", "--store", url),
    ):
        for form in ((), ("--json",), ("--debug",)):
            assert quiet(mvcs(*words, *form, code=2)).err
    assert settings(mvcs) == before
    assert not (mvcs.folder / "other").exists()


@pytest.mark.parametrize("name", OPTIONS)
def test_no_option_that_is_a_secret_is_remembered(mvcs, name):
    before = settings(mvcs)
    for plain in ((), ("--plain",)):
        quiet(mvcs("remote", "add", "lab", "s3://b", "--option", f"{name}={SECRET}", *plain, code=2))
        quiet(mvcs("config", f"remote.lab.{name}", SECRET, *plain, code=2))
        quiet(mvcs("init", "other", "--store", "memory://x", "--option", f"{name}={SECRET}", *plain, code=2))
    assert settings(mvcs) == before
    assert mvcs.json("remote") == {}


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("name", ["client_kwargs", "region"])
def test_no_option_with_a_secret_in_its_text_is_remembered_or_shown(mvcs, name, value):
    before = settings(mvcs)
    for plain in ((), ("--plain",)):
        quiet(mvcs("remote", "add", "lab", "s3://b", "--option", f"{name}={value}", *plain, code=2))
        quiet(mvcs("config", f"remote.lab.{name}", value, *plain, code=2))
        quiet(mvcs("init", "other", "--store", "memory://x", "--option", f"{name}={value}", *plain, code=2))
    assert settings(mvcs) == before
    path = mvcs.folder / ".mvcs" / "config.toml"
    path.write_text(f'[remote.lab]\nurl = "s3://b"\n{name} = {json.dumps(value)}\n')
    for words in (("config", "--list"), ("config", f"remote.lab.{name}"), ("remote", "-v")):
        for form in ((), ("--json",)):
            quiet(mvcs(*words, *form))


def test_an_option_of_several_harmless_parts_is_remembered(mvcs):
    value = '{"endpoint_url": "https://token.example.org:9000", "headers": ["Accept: text/plain"], "n": 3}'
    mvcs("remote", "add", "lab", "s3://bucket", "--option", f"client_kwargs={value}", "--plain")
    mvcs("config", "remote.lab.endpoint_url", "https://key:9000")
    assert mvcs.json("config", "remote.lab.client_kwargs") == {"remote.lab.client_kwargs": value}


def test_an_unknown_option_is_remembered_where_one_says_so(mvcs):
    words = ("remote", "add", "lab", "s3://bucket", "--option", "surprise=x", "--option", "region=eu")
    assert "--plain" in mvcs(*words, code=2).err
    assert mvcs.json("remote") == {}
    mvcs(*words, "--plain")
    assert mvcs.json("config", "remote.lab.surprise") == {"remote.lab.surprise": "x"}
    assert "--plain" in mvcs("config", "remote.lab.another", "x", code=2).err
    mvcs("config", "remote.lab.another", "x", "--plain")
    mvcs("config", "remote.lab.another", f"https://u:{SECRET}@host", "--plain", code=2)


def test_ordinary_words_in_the_names_of_metrics_are_no_secrets(mvcs):
    mvcs("config", "metric.token_accuracy.goal", "max")


def test_what_was_written_by_hand_is_not_printed(mvcs):
    text = f'[remote.lab]\nurl = "{URLS[0]}"\nsecret = "{SECRET}"\n[user]\nname = "Ada"\n'
    (mvcs.folder / ".mvcs" / "config.toml").write_text(text)
    assert mvcs.json("remote") == {"lab": "s3://***@bucket/gpt"}
    for words in (("remote",), ("config",), ("config", "remote.lab.url"), ("config", "remote.lab.secret")):
        for form in ((), ("--json",)):
            assert "***" in quiet(mvcs(*words, *form)).out
    assert quiet(mvcs("config", "user.name")).out == "Ada\n"


def test_an_error_of_a_store_does_not_repeat_its_url(mvcs):
    quiet(mvcs("-C", f"memory://KEY:{SECRET}@nowhere/x?sig={SECRET}", "log", code=3))
    quiet(mvcs("clone", f"memory://KEY:{SECRET}@nowhere/x", "copy", code=3))
    quiet(mvcs("log", f"s3://KEY:{SECRET}@bucket", code=2))
    quiet(mvcs("log", "x", f"s3://KEY:{SECRET}@bucket", code=3))
    quiet(mvcs("clone", f"nosuch://KEY:{SECRET}@nowhere", "copy", code=2))


def test_a_clone_uses_a_secret_and_does_not_remember_it(history, tmp_path):
    url = f"memory://KEY:{SECRET}@clones/gpt"
    history("remote", "add", "far", "memory://clones/unused")
    # The memory store takes the whole address for a path: what is pushed there is what the clone must find.
    from mvcs import Repository
    from mvcs.remotes.pack_transfer import TransferSide
    from mvcs.remotes.push import TransferTerms, push_refs
    from mvcs.repository.sharing.exchange import RefsToPush
    from mvcs.repository.sharing.remote_stores import RemoteStore

    with Repository.open(history.folder) as repo:
        session = repo._session
        there = RemoteStore("far", url, {}).open(session, make=True)
        here = TransferSide(session.store, session.graph, session.refs)
        wanted = RefsToPush.chosen(session, ["main"]).whole
        push_refs(here, there, wanted, TransferTerms("Ada", session.progress, lambda _: None))
    told = quiet(Console(tmp_path)("clone", url, "copy", "--option", "skip_instance_cache=true"))
    assert "credentials in its URL" in told.err
    copy = Console(tmp_path / "copy")
    assert len(copy.json("log")) == 3
    assert copy.json("config")["remote.origin.url"] == "memory://clones/gpt"
    assert copy.json("config")["remote.origin.skip_instance_cache"] is True
    quiet(copy("status", "--json"))
    assert not [
        path
        for path in (tmp_path / "copy").rglob("*")
        if path.is_file() and SECRET.encode() in path.read_bytes()
    ]


def test_a_failure_in_the_background_is_noted_without_secrets(mvcs):
    from mvcs import Repository

    with Repository.open(mvcs.folder) as repo:
        repo.report_failure(f"step 3: cannot write '{URLS[0]}'")
    assert "***" in quiet(mvcs("status")).out + (mvcs.folder / ".mvcs" / "failures.log").read_text()
