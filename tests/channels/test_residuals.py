"""Residuals of federated learning: what is not sent is sent later, and takes little room meanwhile."""

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
    with pytest.raises(UsageError, match="client 2 has 900 changes, and had others before"):
        residuals.encode(2, changes(1)[:900])
