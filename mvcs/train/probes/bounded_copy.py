"""What a state would restore to from a bounded commit, though none is made."""

from mvcs.checkpoint import Captured, Role, capture_state, rebuild_state, roles_of, torch_tensor
from mvcs.local_files import scratch_folder
from mvcs.objects import ObjectId
from mvcs.quantize import QuantizerConfig
from mvcs.repository import Repository


def bounded_copy(state: object, quantizer: QuantizerConfig, *, only_moments: bool = False) -> object:
    """Return what the value layer of a bounded commit of a state restores, as if it were a run's first.

    The commit is made in a repository that is removed.

    Args:
        state: a nested dict, as `checkout` returns it; it is left alone.
        quantizer: how the commit is bounded.
        only_moments: let everything but optimizer moments be exact.

    Raises:
        StateError: something in the state cannot be stored.
        StorageError: the temporary folder is full.
    """
    with scratch_folder() as folder, Repository.init(folder) as scratch:
        scratch.config_set("retention.exact_layers", "0")
        scratch.commit(state, quantizer=quantizer)
        found = scratch.checkout()
    return _mixed(state, found) if only_moments else found


def _mixed(exact: object, bounded: object) -> object:
    """Return a copy of a state that has another's moments."""
    kept, other = capture_state(exact), capture_state(bounded)
    parts = roles_of(kept)

    def leaf(index: int) -> object:
        source: Captured = other if parts[index] is Role.MOMENT else kept
        found = source.leaves[index]
        return torch_tensor(found.dtype, found.shape, bytearray(found.source.read()))

    def blob(identifier: ObjectId, _: int) -> bytes:
        return bytes(kept.blobs[identifier].read())

    return rebuild_state(kept.root, leaf, blob)
