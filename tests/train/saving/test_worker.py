"""The queue of snapshots: bounded, in order, and failures are handed over before anyone stops waiting."""

import threading

from mvcs.train.saving.run_writer import CommitQueue


def take(queue: CommitQueue):
    buffers = queue.take(wait=True)
    assert buffers is not None
    return buffers


def test_work_is_done_in_order_on_another_thread() -> None:
    queue, done = CommitQueue(2), []
    for number in range(10):
        queue.submit(
            take(queue), lambda number=number: done.append((number, threading.get_ident())), done.append
        )
    queue.drain()
    assert [number for number, _ in done] == list(range(10))
    assert threading.get_ident() not in {thread for _, thread in done}
    queue.close()


def test_no_more_snapshots_than_places() -> None:
    queue, gate = CommitQueue(2), threading.Event()
    for _ in range(2):
        queue.submit(take(queue), gate.wait, print)
    assert queue.take(wait=False) is None
    gate.set()
    queue.drain()
    assert queue.take(wait=False) is not None
    queue.close()


def test_buffers_given_back_are_free_again() -> None:
    queue = CommitQueue(1)
    queue.give_back(take(queue))
    assert queue.take(wait=False) is not None
    queue.close()


def test_whatever_fails_is_handed_over_and_the_next_work_runs() -> None:
    queue, failures, done = CommitQueue(1), [], []

    def fail() -> None:
        raise KeyError("broken")

    for _ in range(3):
        queue.submit(take(queue), fail, failures.append)
        queue.drain()
    queue.submit(take(queue), lambda: done.append(1), failures.append)
    queue.close()
    assert [type(failure) for failure in failures] == [KeyError] * 3
    assert done == [1]
