"""A settings file may come with a folder from anybody: reading it costs little, whatever it holds."""

import tracemalloc

import pytest

from mvcs.config import Config
from mvcs.errors import CorruptionError, StorageError
from mvcs.local.user_config import UserConfig
from mvcs.toml_file import MAX_BYTES, read_settings

HALF = MAX_BYTES // 2 - 8
# What each of these would cost grows as the square of its length, or as a number names it.
COSTLY = {
    "dotted key": "a" + ".a" * HALF + " = 1",
    "dotted key of quoted parts": '"\\""' + ".'b'" * (HALF // 2) + " = 1",
    "dotted key with spaces": "a" + " .\ta" * (HALF // 2) + " = 1",
    "dotted table": "[" + "a." * HALF + "a]\nx = 1",
    "keys below a dotted table": "[" + "a." * (HALF // 2) + "a]\n" + "b.c = 1\n" * 100,
    "dotted key in an inline table": "a = {b" + ".b" * HALF + " = 1}",
    "keys below a long name": "["
    + "a" * HALF
    + "]\n"
    + "".join(f"b{number} = 1\n" for number in range(3000)),
    "nested arrays": "a = " + "[" * HALF + "]" * HALF,
    "nested tables": "a = " + "{a = " * 900 + "1" + "}" * 900,
    "a number": "a = " + "1" * (2 * HALF),
    "a name without an end": '"' + '\\"' * HALF,
}


@pytest.mark.parametrize("name", COSTLY)
def test_what_would_take_long_to_read_is_refused(tmp_path, name):
    path = tmp_path / "config.toml"
    path.write_text(COSTLY[name])
    tracemalloc.start()
    try:
        with pytest.raises(CorruptionError) as caught:
            read_settings(path)
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()
    assert str(path) in caught.value.message
    assert len(caught.value.message) < 400 + len(str(path))
    assert "mend the file by hand" in caught.value.hint


def test_a_large_file_is_not_read(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text("#" * (MAX_BYTES + 1))
    for read in (Config, UserConfig):
        with pytest.raises(StorageError, match="more than 65536 bytes"):
            read(path)


def test_a_file_that_people_write_is_read(tmp_path):
    path = tmp_path / "config.toml"
    dotted = ".".join("abcdefghijklmnop" * 3)
    path.write_text(
        f'metric."{dotted}".goal = "min"\n[remote.lab]\nurl = "s3://a.b.c.d/e.f"  # a.b.c.d.e.f.g\n'
        + "".join(f'[remote.r{number}]\nurl = "/mnt/{number}"\n' for number in range(1500))
    )
    found = Config(path)
    assert found.get(f"metric.{dotted}.goal") == "min"
    assert found.get("remote.r1499.url") == "/mnt/1499"
    assert len(found.items()) == 1502
