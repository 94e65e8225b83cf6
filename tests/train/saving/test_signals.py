"""SIGTERM is noted, chained, and left alone where it is not ours."""

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from mvcs.train.saving.signals import Termination


@pytest.fixture(autouse=True)
def handler_as_before() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def terminate() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def test_a_signal_only_sets_a_flag() -> None:
    termination = Termination()
    termination.install()
    assert not termination.requested
    terminate()
    assert termination.requested


def test_without_another_handler_it_ends_the_program() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    termination = Termination()
    termination.install()
    with pytest.raises(SystemExit) as ended:
        termination.deliver()
    assert ended.value.code == 143


def test_a_handler_that_was_there_is_called_and_put_back() -> None:
    calls = []

    def previous(number: int, frame: object) -> None:
        calls.append((number, frame))

    signal.signal(signal.SIGTERM, previous)
    termination = Termination()
    termination.install()
    terminate()
    assert calls == []
    termination.deliver()
    assert calls == [(signal.SIGTERM, None)]
    termination.remove()
    assert signal.getsignal(signal.SIGTERM) is previous


def test_an_ignored_signal_stays_ignored() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    termination = Termination()
    termination.install()
    terminate()
    termination.deliver()
    assert not termination.requested


def test_a_handler_installed_later_is_not_removed() -> None:
    termination = Termination()
    termination.install()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    termination.remove()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN


def test_another_thread_installs_nothing() -> None:
    before = signal.getsignal(signal.SIGTERM)
    termination = Termination()
    thread = threading.Thread(target=termination.install)
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGTERM) == before
    termination.remove()
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_forked_worker_dies_of_its_own_sigterm() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    termination = Termination()
    termination.install()
    child = os.fork()
    if child == 0:
        terminate()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGTERM
    assert not termination.requested
