"""What `mvcs fsck` says that it looked at, and when what was found."""

import re

from mvcs.local import Findings
from mvcs.refs import now_microseconds


def damage(console):
    pack = console.packs()[-1]
    pack.chmod(0o644)
    data = pack.read_bytes()
    pack.write_bytes(data[: len(data) // 2] + bytes(20) + data[len(data) // 2 + 20 :])


def test_each_level_says_what_it_read(mvcs):
    mvcs.commit("one")
    quick = mvcs("fsck", "--quick").out
    assert re.search(r"^ok: names and history of \d+ objects, .* kB; contents not read$", quick, re.MULTILINE)
    assert "until now" not in quick
    packs = mvcs("fsck", "--packs").out
    assert "compared with checksums; nothing decoded" in packs
    assert "until now" not in packs
    assert mvcs.json("fsck", "--quick")["level"] == "quick"
    assert ", until now\n" in mvcs("fsck").out


def test_what_was_found_is_dated_by_the_check_that_found_it(mvcs):
    mvcs.commit("one")
    mvcs("fsck")
    damage(mvcs)
    before = now_microseconds()
    mvcs("fsck", "--packs", code=5)
    found = Findings.load(mvcs.folder / ".mvcs")
    assert found.problems
    assert all(time is not None and time >= before for time in found.times)
    mvcs("fsck", "--quick")
    assert Findings.load(mvcs.folder / ".mvcs").times == found.times
    assert "the fsck of 2" in mvcs("status").out
