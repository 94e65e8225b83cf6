"""Progress is for work that takes a while, on a terminal."""

import io
import threading

from mvcs.ui.progress import LineProgress, NotesOnly, TerminalProgress


class Terminal(io.StringIO):
    """A stream that says it is a terminal and tells when something is drawn."""

    def __init__(self):
        super().__init__()
        self.drawn = threading.Event()

    def isatty(self):
        return True

    def write(self, text):
        if "packs" in text:
            self.drawn.set()
        return super().write(text)


def test_short_work_shows_nothing():
    stream = Terminal()
    progress = TerminalProgress(stream, print, delay=1000)
    progress.start("sending packs", 10, "packs")
    progress.advance(10)
    progress.finish()
    assert stream.getvalue() == ""


def test_long_work_shows_a_bar_and_takes_it_away(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    progress = TerminalProgress(stream, print, delay=0)
    progress.start("sending packs", 1_000_000, "bytes")
    assert stream.drawn.wait(60)
    progress.advance(500_000)
    progress.finish()
    assert "sending packs" in stream.getvalue()
    progress.finish()


def test_a_stage_after_another_replaces_it(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    progress = TerminalProgress(stream, print, delay=0)
    progress.start("hashing", None, "items")
    progress.start("sending packs", 3, "packs")
    assert stream.drawn.wait(60)
    progress.finish()


def test_notes_are_told_whether_a_bar_is_there_or_not(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    told = []
    stream = Terminal()
    progress = TerminalProgress(stream, told.append, delay=0)
    progress.note("first")
    progress.start("sending packs", 3, "packs")
    assert stream.drawn.wait(60)
    progress.note("second")
    progress.finish()
    assert told == ["first", "second"]


def test_a_pipe_gets_notes_only():
    told = []
    progress = NotesOnly(told.append)
    progress.start("sending packs", 3, "packs")
    progress.advance(1)
    progress.note("hello")
    progress.finish()
    assert told == ["hello"]


def test_what_is_piped_gets_lines_now_and_then():
    stream, told = io.StringIO(), []
    progress = LineProgress(stream, told.append, every=0)
    progress.start("rewriting commits", 40, "commits")
    progress.advance(12)
    progress.start("sending packs", 2_000_000, "bytes")
    progress.advance(500_000)
    progress.start("walking commits", None, "commits")
    progress.advance(3)
    progress.note("by the way")
    progress.finish()
    assert stream.getvalue().splitlines() == [
        "rewriting commits: 12 of 40 commits",
        "sending packs: 500 kB of 2.0 MB",
        "walking commits: 3 commits",
    ]
    assert told == ["by the way"]


def test_short_work_says_nothing_where_it_is_piped():
    stream = io.StringIO()
    progress = LineProgress(stream, print, every=1000)
    progress.start("sending packs", 10, "packs")
    progress.advance(10)
    progress.finish()
    assert stream.getvalue() == ""
