"""Residuals of federated learning: what is not sent is sent later, and takes little room meanwhile."""

import subprocess
import sys

import numpy as np
import pytest

from mvcs.channels import MessageStore, Quantizer, Residuals
from mvcs.errors import UsageError

COUNT = 5000


def changes(seed):
    return np.random.default_rng(seed).normal(size=COUNT).astype(np.float32)


def test_the_largest_share_is_sent_and_read_alike(tmp_path):
    residuals = Residuals(MessageStore(tmp_path), Quantizer(8), top=0.01)
    payload, sent = residuals.encode(3, changes(0))
    largest = np.argsort(-np.abs(changes(0)))[:50]
    assert set(np.flatnonzero(sent)) == set(largest)
    assert np.array_equal(residuals.decode(payload, COUNT), sent)


@pytest.mark.parametrize(("bits", "off"), [(32, 1e-5), (8, 0.1)])
def test_what_was_sent_and_what_is_kept_are_all_changes(tmp_path, bits, off):
    store = MessageStore(tmp_path, bits=bits)
    residuals = Residuals(store, Quantizer(8))
    sent = sum(residuals.encode(0, changes(seed))[1] for seed in range(5))
    kept = store.read(0, [0]).reshape(-1)[:COUNT]
    assert np.abs(sent + kept - sum(map(changes, range(5)))).max() < off


def test_clients_are_apart(tmp_path):
    residuals = Residuals(MessageStore(tmp_path), Quantizer(8))
    residuals.encode(0, changes(0))
    assert (
        residuals.encode(1, changes(1))[0]
        == Residuals(MessageStore(tmp_path), Quantizer(8)).encode(0, changes(1))[0]
    )


def test_a_residual_of_two_bits_is_eleven_times_smaller(tmp_path):
    store = MessageStore(tmp_path, bits=2)
    Residuals(store, Quantizer(8)).encode(0, changes(0))
    kept = store.state_dict()["edges"]["0"]
    assert 11 * (kept["scales"].nbytes + kept["codes"].nbytes) < 4 * COUNT


def test_another_number_of_changes_is_refused(tmp_path):
    residuals = Residuals(MessageStore(tmp_path), Quantizer(8))
    residuals.encode(2, changes(0))
    for other in (changes(1)[:900], np.zeros(COUNT + 1, np.float32), changes(1).reshape(2, -1)):
        with pytest.raises(UsageError, match=r"client 2 has changes \[.*\], not \[5000\]"):
            residuals.encode(2, other)


def test_clients_with_the_same_changes_round_them_apart(tmp_path):
    residuals = Residuals(MessageStore(tmp_path), Quantizer(2, stochastic=True), top=1.0)
    same = np.linspace(-1, 0.45, 512, dtype=np.float32)
    mean = np.mean([residuals.encode(client, same)[1] for client in range(500)], axis=0)
    assert np.abs(mean - same).max() < 0.1  # a code is 0.5


@pytest.mark.parametrize("before", [0, 1, 2])
def test_a_full_disk_loses_no_changes(tmp_path, before):
    program = f"""
import resource, numpy as np
from mvcs.channels import MessageStore, Quantizer, Residuals
from mvcs.errors import StorageError
def limit(size): resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
changes = np.random.default_rng(0).normal(size=(4, 4000)).astype(np.float32)
full, other = (Residuals(MessageStore({str(tmp_path)!r}, memory), Quantizer(8)) for memory in (0, 1 << 20))
for step, one in enumerate(changes):
    if step == {before}:
        limit(100)
        try:
            full.encode(7, one)
        except StorageError as error:
            print(error)
        limit(resource.RLIM_INFINITY)
    assert full.encode(7, one)[0] == other.encode(7, one)[0]
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout == "the disk takes no more residuals, as that of client 7\n"
