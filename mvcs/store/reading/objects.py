"""The verified way out of a store: find an object, decode it, hash it again, and only then hand it over."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from threading import RLock
from typing import TYPE_CHECKING

from mvcs.delta import Buffer, Content
from mvcs.errors import CorruptionError, MvcsError, NotFoundError
from mvcs.memory import Budget, Use
from mvcs.objects import (
    Blob,
    Commit,
    ExactTensor,
    Kind,
    Leaf,
    ObjectId,
    QuantizedTensor,
    Tree,
    blob_chunk_lengths,
    chunk_length,
    half,
    object_id,
    short_id,
)
from mvcs.store.backend import Backend
from mvcs.store.manifests import Manifests
from mvcs.store.packs.expansion_limit import FREE_BYTES, is_plausible
from mvcs.store.reading.catalog import Catalog
from mvcs.store.reading.chains import Chain, way_to_gap
from mvcs.store.reading.decoded_entries import DamagedEntryError, DecodedEntries
from mvcs.store.reading.last_tree import LastTree
from mvcs.store.reading.located import ChunkPlace, Located, Run
from mvcs.store.reading.pack_files import how_to_get_back, pack_path
from mvcs.store.reading.recent_contents import RecentContents
from mvcs.store.reading.verification import Verification

if TYPE_CHECKING:
    from mvcs.quantize import Restorer


@dataclass(frozen=True)
class _Layer:
    """A commit whose exact layer is stored near the restored values of its tensors."""

    tree: Tree

    @cached_property
    def tensors(self) -> Mapping[ObjectId, QuantizedTensor]:
        """These tensors by the halves of their ids, worked out when one is asked for."""
        found = (leaf.tensor for leaf in self.tree.leaves)
        return {half(tensor.id): tensor for tensor in found if isinstance(tensor, QuantizedTensor)}


class ObjectStore:
    """Objects by id, from packs in a backend. Safe to use from several threads."""

    def __init__(
        self, backend: Backend, memory: Budget | None = None, manifests: Manifests | None = None
    ) -> None:
        """Read from `backend`; footers are loaded as they are needed.

        Args:
            backend: where objects lie.
            memory: what may be kept of them, by whoever reads and writes here; by default what the machine
                has for it.
            manifests: those of `backend`, of which another view has read some.
        """
        self.backend = backend
        self.memory = memory or Budget.of()
        self.catalog = Catalog(backend, manifests or Manifests(backend))
        self.manifests = self.catalog.manifests
        self.verification = Verification(backend, self.catalog, self.memory)
        self.recent = RecentContents(self.memory.hold(Use.CODES))
        self.recent_values = RecentContents(self.memory.hold(Use.WEIGHTS))
        self.wrote = False  # a commit, so that another may follow in this process
        self._entries = DecodedEntries(
            backend, self.catalog, self.verification, self.base_values, self.memory
        )
        self._layers: dict[str, _Layer] = {}
        self._searching = RLock()  # by who looks for what is damaged: one at a time
        self.last_tree = LastTree(self.memory.hold(Use.CACHES))

    @cached_property
    def restorer(self) -> "Restorer":
        """What gives the values that codes stand for; a history that is only listed needs none."""
        from mvcs.quantize import Restorer

        return Restorer(partial(self.read, Kind.CHUNK), self.memory.hold(Use.CACHES).resize)

    @cached_property
    def _direct_restorer(self) -> "Restorer":
        """The same from chunks that are not hashed: the digest of what they restore to proves them."""
        from mvcs.quantize import Restorer

        return Restorer(self._unproven_chunk, self.memory.hold(Use.CACHES).resize)

    def _unproven_chunk(self, identifier: ObjectId) -> Content:
        return self._entries.member(self.catalog.locate(identifier))

    def apart(self) -> "ObjectStore":
        """Return another view of the same store, which knows of no pack yet; both keep to one budget."""
        return ObjectStore(self.backend, self.memory)

    def read(self, kind: Kind, identifier: ObjectId, *, exact: bool = False) -> Content:
        """Return the content of an object after hashing it again.

        Args:
            kind: what the id names.
            identifier: the object.
            exact: look in the attached packs of exact layers as well.

        Raises:
            NotFoundError: no pack holds it.
            CorruptionError: what was stored does not hash to the id.
        """
        while True:
            known = len(self.catalog.damaged)
            located = self.catalog.locate(identifier, exact=exact)
            try:
                return self.read_copy(kind, identifier, located)
            except (CorruptionError, NotFoundError):
                with self._searching:
                    if len(self.catalog.damaged) != known:
                        continue  # another thread found what may be the cause
                    culprit = self.culprit(kind, located)
                    if culprit is None:
                        if (told := self.catalog.explains(identifier)) is not None:  # it was given up
                            raise told from None
                        raise
                    self.catalog.distrust(culprit.place)

    def culprit(self, kind: Kind, located: Located) -> Located | None:
        """Return the first entry behind an object, bases first, that cannot be used and was not known so.

        Returns:
            None when there is none such: other copies do not help, or reading failed for once.
        """
        useless = self.useless(kind, located)
        return next((link for link in useless if link.place not in self.catalog.damaged), None)

    def useless(self, kind: Kind, located: Located) -> list[Located]:
        """Return the entries behind an object that cannot be used: the one at fault, then what needs it."""
        self._entries.clear()
        self.last_tree.clear()
        way = way_to_gap(located, lambda name, exact: self.catalog.locate(name, exact=exact))
        if way:
            return way
        try:
            self.check_expansion(kind, located)
            chain = self.catalog.chain_of(located)
        except CorruptionError:
            return [located]
        return list(self._useless(chain))

    def _useless(self, chain: Chain) -> Iterator[Located]:
        """Yield the first link that is not what its footer says, then those that need it."""
        held: dict[ChunkPlace, Content] = {}
        failed: set[ChunkPlace] = set()
        decoded = self._entries.decode(chain, held)
        for link in chain.links:
            if chain.needs(link.place).isdisjoint(failed) and (failed or self._is_whole(link, decoded, held)):
                continue
            failed.add(link.place)
            yield link

    @staticmethod
    def _is_whole(link: Located, decoded: Iterator[None], held: Mapping[ChunkPlace, Content]) -> bool:
        try:
            next(decoded)
        except (CorruptionError, NotFoundError):
            return False
        return _is_named(held[link.place], link)

    def check_expansion(self, kind: Kind, located: Located) -> None:
        """See that a description is not far larger than what it is made from.

        Raises:
            CorruptionError: it is.
        """
        if kind is not Kind.CHUNK and located.length > FREE_BYTES:
            stored = self.catalog.chain_of(located).stored_bytes
            if not is_plausible(located.length, stored):
                raise CorruptionError(
                    f"a description of {located.length} bytes stands in '{located.pack}' as {stored} bytes; "
                    "no mvcs writes such a thing"
                )

    def commit(self, identifier: ObjectId) -> Commit:
        """Return a commit."""
        return Commit.decode(self.read(Kind.COMMIT, identifier))

    def tree(self, identifier: ObjectId) -> Tree:
        """Return a tree."""
        return self.last_tree.get(identifier, lambda: self.read(Kind.TREE, identifier))

    def chunks(self, leaf: Leaf, *, exact: bool = False) -> Iterator[Content]:
        """Yield the bytes of a leaf chunk by chunk, each verified: the value, or the exact layer."""
        return (self.chunk(leaf, index, exact=exact) for index in range(self.chunk_count(leaf, exact=exact)))

    @staticmethod
    def chunk_count(leaf: Leaf, *, exact: bool = False) -> int:
        """Return how many chunks a leaf has: the value, or the exact layer."""
        tensor = leaf.handed_over if exact else leaf.tensor
        return tensor.chunk_count if isinstance(tensor, QuantizedTensor) else len(tensor.chunks)

    def chunk(
        self, leaf: Leaf, index: int, *, exact: bool = False, into: memoryview | None = None
    ) -> Content:
        """Return the bytes of one chunk of a leaf, verified: of the value, or of the exact layer.

        They may be put `into` memory of so many bytes, which is returned then.
        """
        tensor = leaf.handed_over if exact else leaf.tensor
        if isinstance(tensor, QuantizedTensor):
            return self.restored_chunk(tensor, index, into)
        expected = chunk_length(tensor.dtype, tensor.shape, index) * tensor.dtype.itemsize
        identifier = tensor.chunks[index]
        return self._of_length(self.read(Kind.CHUNK, identifier, exact=exact), expected, identifier)

    def several(
        self, wanted: Sequence[tuple[Leaf, int, memoryview]], *, exact: bool = False
    ) -> Iterator[Content]:
        """Yield what `chunk` returns for each, neighbours read together.

        Args:
            wanted: leaves and numbers of chunks, with memory of as many bytes as each needs.
            exact: the exact layer's chunks.
        """
        tensors = [leaf.handed_over if exact else leaf.tensor for leaf, _, _ in wanted]
        ids = [
            tensor.chunks[index]
            for tensor, (_, index, _) in zip(tensors, wanted, strict=True)
            if isinstance(tensor, ExactTensor)
        ]
        runs = self.catalog.runs(ids, exact=exact) if len(ids) == len(wanted) > 1 else None
        if runs is None:
            yield from (self.chunk(leaf, index, exact=exact, into=memory) for leaf, index, memory in wanted)
            return
        start = 0
        for run in runs:
            names, places = ids[start : start + run.count], wanted[start : start + run.count]
            start += run.count
            contents = self._neighbours(run, names) or (
                self.read(Kind.CHUNK, name, exact=exact) for name in names
            )
            for content, name, (_, _, memory) in zip(contents, names, places, strict=True):
                yield self._of_length(content, memory.nbytes, name)

    def _neighbours(self, run: Run, names: Sequence[ObjectId]) -> list[Content] | None:
        """Return the contents of chunks that are neighbours in an entry; None where one is damaged."""
        try:
            found = [*run.singly(self.entry_content(run.first))]
        except (CorruptionError, NotFoundError):
            return None
        return found if [object_id(Kind.CHUNK, content) for content in found] == names else None

    def entry_of(self, leaf: Leaf, index: int, *, exact: bool = False) -> ChunkPlace | None:
        """Return which entry holds the codes of a chunk of a leaf, or its bytes; None where none is known."""
        tensor = leaf.handed_over if exact else leaf.tensor
        named = tensor.codes if isinstance(tensor, QuantizedTensor) else tensor.chunks
        if index >= len(named):
            return None
        with suppress(NotFoundError):
            return self.catalog.locate(named[index], exact=exact).place
        return None

    def restored_chunk(self, tensor: QuantizedTensor, index: int, into: memoryview | None = None) -> Content:
        """Return the restored values of one chunk of a quantized tensor, little-endian, verified.

        They may be put `into` memory of so many bytes, which is returned then.

        Raises:
            CorruptionError: codes, parameters and exceptions do not fit together.
        """
        try:
            return self.unproven_values(tensor, index, into)
        except (CorruptionError, NotFoundError):
            # Chunk by chunk, from whichever copy is whole, and with an error that says which is not.
            return self.restorer.restore(tensor, index)

    def unproven_values(self, tensor: QuantizedTensor, index: int, into: memoryview | None = None) -> Content:
        """Return the same from the first copy of each chunk: only a digest of the values proves them.

        Raises:
            NotFoundError: a chunk is nowhere.
            CorruptionError: one is damaged, or they do not fit together.
        """
        return self._direct_restorer.restore(tensor, index, into)

    def codes(self, identifier: ObjectId) -> Buffer:
        """Return a chunk of codes; those of the last commit made here are still in memory."""
        held = self.recent.look(identifier)
        return self.read(Kind.CHUNK, identifier) if held is None else held

    def named_blob(self, identifier: ObjectId, length: int) -> Blob:
        """Return the blob that a tree names with a length.

        Raises:
            CorruptionError: it is damaged, or of another length.
            NotFoundError: it is nowhere.
        """
        blob = Blob.decode(self.read(Kind.BLOB, identifier))
        if blob.length != length:
            raise CorruptionError(
                f"blob {short_id(identifier)} has {blob.length} bytes where its tree says {length}"
            )
        return blob

    def blob(self, identifier: ObjectId, length: int) -> Iterator[Content]:
        """Yield the bytes of a blob chunk by chunk, each verified.

        Raises:
            CorruptionError: they are damaged, or not of the `length` that its tree names.
        """
        blob = self.named_blob(identifier, length)
        for chunk, expected in zip(blob.chunks, blob_chunk_lengths(blob.length), strict=True):
            yield self._of_length(self.read(Kind.CHUNK, chunk), expected, chunk)

    def check_lengths(self, tensor: ExactTensor | QuantizedTensor) -> None:
        """Compare the lengths of a tensor's chunks, as far as they are there, with what its shape needs.

        Raises:
            CorruptionError: one is of another length.
        """
        chunks, width = (
            (tensor.chunks, tensor.dtype.itemsize)
            if isinstance(tensor, ExactTensor)
            else (tensor.codes, tensor.width)
        )
        for index, chunk in enumerate(chunks):
            located = self.catalog.find(chunk)
            if located is not None:
                expected = chunk_length(tensor.dtype, tensor.shape, index) * width
                self._check_length(located.length, expected, chunk)

    def _of_length(self, chunk: Content, expected: int, identifier: ObjectId) -> Content:
        self._check_length(len(chunk), expected, identifier)
        return chunk

    @staticmethod
    def _check_length(length: int, expected: int, identifier: ObjectId) -> None:
        if length != expected:
            raise CorruptionError(
                f"chunk {short_id(identifier)} has {length} bytes; the grid asks for {expected}"
            )

    def base_values(self, base: ObjectId, chunk: int, pack: str) -> Content:
        """Return the restored values that an entry of an exact pack is near, verified.

        Args:
            base: half the id of the tensor.
            chunk: which of its chunks.
            pack: of the entry.

        Raises:
            NotFoundError: no commit that was leant on has such a tensor.
            CorruptionError: it has no such chunk, or cannot be restored.
        """
        tensor = self.leant_on(base, pack)
        if tensor is None:
            raise NotFoundError(f"nothing says what tensor {short_id(base)} is, which an entry is near")
        if chunk >= tensor.chunk_count:
            raise CorruptionError(f"an entry is based on chunk {chunk} of a tensor of {tensor.chunk_count}")
        return self.restored_chunk(tensor, chunk)

    def leant_on(self, base: ObjectId, pack: str) -> QuantizedTensor | None:
        """Return the tensor of half an id that an entry of a pack is near; None where it is not known.

        It is that of the commit whose pack it is, or of another with the same.
        """
        own = self._layers.get(pack)
        layers = ([] if own is None else [own]) + list(self._layers.values())
        return next((layer.tensors[base] for layer in layers if base in layer.tensors), None)

    def lean_on(self, tree: Tree, packs: Iterable[str]) -> None:
        """Know the tensors of a commit: the packs of its exact layer are stored near what they restore."""
        self._layers |= dict.fromkeys(packs, _Layer(tree))

    def lean_off(self, pack: str) -> None:
        """Forget them again."""
        self._layers.pop(pack, None)

    def read_copy(self, kind: Kind, identifier: ObjectId, located: Located) -> Content:
        """Return the content of one copy of an object after hashing it again.

        Raises:
            NotFoundError: its pack or a base is not there.
            CorruptionError: what was stored does not hash to the id.
        """
        self.check_expansion(kind, located)
        try:
            content = self._entries.member(located)
        except NotFoundError:
            raise
        except DamagedEntryError as error:
            # What is said of the entry says it all.
            raise self._damaged(located, identifier, error, error.located) from None
        except CorruptionError as error:
            raise self._damaged(located, identifier, error) from None
        if not object_id(kind, content).startswith(identifier):
            raise self._damaged(located, identifier, None)
        return content

    def entry_content(self, located: Located) -> Content:
        """Return what an entry decodes to: all its members, not yet hashed.

        Raises:
            NotFoundError: its pack or a base is not there.
            CorruptionError: it is damaged, or what it needs is.
        """
        return self._entries.content(located)

    def keep(self, packs: Iterable[str]) -> None:
        """Forget what is known of all packs but these, so that a long run's memory stays bounded."""
        kept = set(packs)
        self.catalog.keep(kept)
        self._entries.keep(kept)
        self._layers.clear()

    def begin_anew(self, packs: Iterable[str]) -> None:
        """Know of no pack any more; what entries of these were decoded to may stay in memory."""
        self.catalog.keep(())
        self._entries.keep(set(packs))
        self._layers.clear()

    def _damaged(
        self, located: Located, identifier: ObjectId, cause: MvcsError | None, at: Located | None = None
    ) -> CorruptionError:
        """Return the error for an object at `located`, which leans on what is damaged `at` another place."""
        at = at or located
        path = pack_path(at.pack, exact=at.exact)
        reason = cause.message if cause else "its content does not hash to its id"
        what = f"object {short_id(identifier)}"
        if at.place == located.place:
            message = f"{what} in '{path}' is damaged: {reason}"
        else:
            message = f"{what} cannot be decoded: what it is stored near is damaged, in '{path}': {reason}"
        return CorruptionError(
            message, hint=f"{how_to_get_back(exact=at.exact)}; 'mvcs fsck' shows what else is touched"
        )


def _is_named(content: Content, located: Located) -> bool:
    """Tell whether an entry's content is that of the objects which its footer names."""
    start = 0
    for member, identifier in zip(located.placed.entry.members, located.placed.ids, strict=True):
        if object_id(member.kind, content[start : start + member.length]) != identifier:
            return False
        start += member.length
    return True
