"""What is secret in an address is never shown, and what is not stays readable."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mvcs.addresses import (
    holds_secret,
    is_plain,
    may_be_written,
    names_secret,
    public_address,
    secret_values,
    tells_secret,
    without_secrets,
)
from mvcs.errors import StorageError

SECRET = "q7Zx/W9+v0K=u4Tj"
HARMLESS = [
    "s3://bucket/models/gpt",
    "s3://bucket/runs@3/gpt",
    "s3://bucket/a?versionId=3",
    "s3://bucket/runs/exp#3",
    "s3://bucket/what?/a&b",
    "s3://bucket/lr=0.1&wd=0.01?seed=3;v=2",
    "gs://bucket/a#b/c?d",
    "simplecache::s3://bucket/x#1",
    "sftp://ada@host/run #3?",
    "memory://here",
    "sftp://ada@host/data/ada/run",
    "sftp://ada@host:22/data/run@v2",
    "sftp://host:22/run@v2",
    "ssh://build-01@host/x",
    "abfs://weights@account.dfs.core.windows.net/gpt",
    "gs://bucket/gpt",
    "file:///data/ada/run",
    "/data/ada/runs/a@b:c",
    "runs/what?x=1",
    "simplecache::s3://bucket/x",
]
REVEALING = {
    f"s3://KEY:{SECRET}@bucket/gpt": "s3://***@bucket/gpt",
    f"simplecache::s3://KEY:{SECRET}@bucket": "simplecache::s3://***@bucket",
    f"zip://a.zip::https://user:{SECRET}@host/a.zip": "zip://a.zip::https://***@host/a.zip",
    f"https://host/x?sig={SECRET}&versionId=3": "https://host/x?sig=***&versionId=3",
    f"s3://bucket/x?AWSSecretAccessKey={SECRET}": "s3://bucket/x?AWSSecretAccessKey=***",
    f"gs://bucket/x?lr=1&X-Goog-Signature={SECRET}": "gs://bucket/x?lr=1&X-Goog-Signature=***",
    "s3://bucket/x#ghp_abcdefghijklmnop0123456789": "s3://bucket/x#***",
    f"https://host/x?token={SECRET}": "https://host/x?token=***",
    f"https://host/x?X-Amz-Algorithm=A&X-Amz-Signature={SECRET}": "https://host/x?X-Amz-Algorithm=***&X-Amz-Signature=***",
    f"https://host/x?{SECRET}".replace("=u4Tj", ""): "https://host/x?***",
    f"https://host/x#access_token={SECRET}": "https://host/x#access_token=***",
    "https://ghp_abcdefghijklmnop0123456789@host/x": "https://***@host/x",
    "s3://AKIAIOSFODNN7EXAMPLE@bucket/x": "s3://***@bucket/x",
    "sftp://0123456789abcdef0123@host/x": "sftp://***@host/x",
    f"sftp://ada:{SECRET}@host/x": "sftp://***@host/x",
    f"S3://KEY:{SECRET}@bucket": "S3://***@bucket",
}


@pytest.mark.parametrize("url", HARMLESS)
def test_an_address_without_secrets_is_shown_as_it_is(url):
    assert without_secrets(url) == public_address(url) == url
    assert not holds_secret(url)


@pytest.mark.parametrize("url", REVEALING)
def test_what_is_secret_in_an_address_is_hidden(url):
    assert without_secrets(url) == REVEALING[url]
    assert holds_secret(url)
    assert (
        without_secrets(f"cannot open '{url}': no such host")
        == f"cannot open '{REVEALING[url]}': no such host"
    )
    assert not holds_secret(public_address(url))
    assert "***" not in public_address(url)


def test_the_public_form_names_the_same_place():
    assert public_address(f"s3://KEY:{SECRET}@bucket/gpt") == "s3://bucket/gpt"
    assert public_address(f"https://host/x?sig={SECRET}") == "https://host/x"
    assert public_address(f"abfs://weights@account/x?sig={SECRET}") == "abfs://weights@account/x"


ODD = st.text(string.ascii_letters + string.digits + "/+=%?#&:@;~!*,", min_size=8, max_size=40)
PLAIN = st.text(string.ascii_lowercase + string.digits, min_size=1, max_size=12)


@given(
    st.sampled_from(["s3", "https", "sftp", "gs", "abfs", "S3"]),
    PLAIN,
    ODD,
    PLAIN,
    st.sampled_from(["", "/a/b"]),
)
def test_no_password_is_ever_shown(protocol, name, secret, host, path):
    secret = f"!{secret}!"  # so that it is not found in the rest by chance
    url = f"{protocol}://{name}:{secret}@{host}{path}"
    for chained in (url, f"simplecache::{url}", f"zip://x.zip::{url}"):
        assert secret not in without_secrets(chained)
        assert without_secrets(chained).endswith(f"@{host}{path}")
        assert secret not in public_address(chained)
        assert holds_secret(chained)


@given(st.sampled_from(["sig", "token", "X-Amz-Signature", "X-Goog-Signature", "se", "pw", "x"]), PLAIN)
def test_no_signature_is_ever_shown(name, value):
    secret = f"0{value}0secret"
    url = f"https://host/path?a=1&{name}={secret}&b"
    assert secret not in without_secrets(url)
    assert secret not in without_secrets(f"403 for {url} and {url}")
    assert secret not in public_address(url)


PIECES = st.sampled_from(
    [
        "s3://",
        "sftp://",
        "::",
        "@",
        ":",
        "/",
        "?",
        "&",
        "#",
        "=",
        "sig",
        "KEY",
        " ",
        "'",
        "***",
        "22",
        "api_key=",
    ]
)


@given(st.lists(PIECES, max_size=14).map("".join))
def test_whatever_is_shown_holds_no_secret(text):
    assert not holds_secret(without_secrets(text))


@given(st.text(max_size=200))
def test_hiding_twice_is_hiding_once(text):
    once = without_secrets(text)
    assert without_secrets(once) == once
    if "://" not in text and "=" not in text:
        assert once == text


@pytest.mark.parametrize(
    "text",
    [f"AccountName=x;AccountKey={SECRET};Endpoint=y", f"api_key={SECRET}", f'"private_key" = "{SECRET}"'],
)
def test_assigned_keys_are_hidden(text):
    assert SECRET not in without_secrets(text)
    assert holds_secret(text)


@pytest.mark.parametrize(
    "text",
    ["'model.embed_tokens': is not a tensor", "'tokens=x' is not of the form NAME=NUMBER", "key: value"],
)
def test_ordinary_words_stay(text):
    assert without_secrets(text) == text


@pytest.mark.parametrize("text", [";://", "@s3://", "://", "see ://", "a://b://c", "'://'", "/://" * 50])
def test_odd_texts_are_shown(text):
    assert StorageError(text).message == text


def test_every_error_hides_what_is_secret_in_addresses():
    error = StorageError(f"cannot read 's3://K:{SECRET}@b/x'", hint=f"see https://h/?sig={SECRET}")
    for shown in (error.message, error.hint, str(error), repr(error)):
        assert SECRET not in shown


@pytest.mark.parametrize(
    "key",
    [
        "secret",
        "key",
        "token",
        "password",
        "passwd",
        "pwd",
        "account_key",
        "connection_string",
        "private_key",
        "api_key",
        "sas_token",
        "sas",
        "aws_secret_access_key",
        "credential",
        "passphrase",
        "pkey",
    ],
)
def test_names_of_secrets(key):
    assert names_secret(key)
    assert not may_be_written(key, "x")


@pytest.mark.parametrize("key", ["endpoint_url", "profile", "region", "anon", "use_listings_cache", "port"])
def test_harmless_options(key):
    assert not names_secret(key)
    assert may_be_written(key, "x")
    assert not may_be_written(key, f"https://user:{SECRET}@host")
    assert not may_be_written(key, {"x": 1})


def test_unknown_options_and_nested_values_are_not_written():
    assert not may_be_written("surprise", "x")
    assert not is_plain({"aws_secret_access_key": SECRET})


def test_the_values_that_no_message_may_repeat():
    options = {
        "secret": "hidden",
        "anon": True,
        "client_kwargs": {"aws_session_token": "nested"},
        "region": "eu",
    }
    assert {"hidden", "nested", f"KEY:{SECRET}", SECRET} <= set(
        secret_values(f"s3://KEY:{SECRET}@b", options)
    )
    assert "eu" not in secret_values("s3://b", options)


def test_a_value_tells_a_secret_wherever_it_stands():
    assert tells_secret({"a": [{"b": ("x", {"session_token": "x"})}]})
    assert tells_secret("[" * 100_000 + "]" * 100_000)
    assert not tells_secret({"a": [{"b": ("x", {"region": "x"})}]})
    assert not any(map(tells_secret, ["a" * 100_000, "keyboard: layout", "eu-west-1", 3, None, True]))
