"""What comes from outside is believed after it was read and hashed, and never about what is here already."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mvcs import Repository
from mvcs.delta.choose import choose_opaque
from mvcs.delta.element import ElementFormat
from mvcs.delta.encoding import Encoding
from mvcs.errors import CorruptionError, StorageError
from mvcs.objects.commit import Commit
from mvcs.objects.ids import Kind, ObjectId, object_id
from mvcs.objects.trees.tree import Tree
from mvcs.store.manifests import Manifest, manifest_path
from mvcs.store.packs.entry import OPAQUE, Entry, EntryBase, Member
from mvcs.store.packs.footer import Footer, Placed
from mvcs.store.reading.pack_files import pack_path
from tests.remotes.forging import add_commit, flip, forge_footer, forge_tip, keep, tip_manifest, tip_pack
from tests.repository.states import content, copied, leaves, state

NOWHERE = ObjectId(bytes(32))


@pytest.fixture(scope="module")
def exchanged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ada's bounded commits, of which she keeps two exact layers, and one of Bob's that she has not seen."""
    folder = tmp_path_factory.mktemp("exchanged")
    with Repository.init(folder / "ada") as ada:
        ada.add_remote("origin", str(folder / "far"))
        for number in range(3):
            ada.commit(state(number), bins=16)
        ada.push()
        with Repository.clone(str(folder / "far"), folder / "bob") as bob:
            bob.commit(state(3), bins=16)
            bob.push()
    return folder


@pytest.fixture
def far(tmp_path: Path, exchanged: Path) -> Path:
    """A copy of them, and of the store between them."""
    copied(exchanged, tmp_path)
    return tmp_path / "far"


@pytest.fixture
def ada(far: Path) -> Repository:
    return Repository.open(far.parent / "ada")


def stored(repo: Repository) -> dict[str, bytes]:
    """Everything durable but what a clone remembers for itself."""
    root = repo.top / ".mvcs"
    paths = (
        path
        for folder in ("refs", "packs", "manifests", "exact", "retention")
        for path in (root / folder).rglob("*")
    )
    return {str(path.relative_to(root)): path.read_bytes() for path in paths if path.is_file()}


def refused(ada: Repository, match: str) -> None:
    """Nothing is taken, nothing stays, and the victim's next commit leans on nothing that is not there."""
    before = stored(ada)
    for action in (ada.fetch, ada.pull):
        with pytest.raises(CorruptionError, match=match) as caught:
            action()
        assert caught.value.hint
        assert "'main' of 'origin'" in caught.value.message
    assert stored(ada) == before
    assert list((ada.top / ".mvcs/incoming").iterdir()) == []
    with Repository.open(ada.top) as again:
        made = again.commit(state(9), bins=16)
        assert again.fsck().problems == []
        assert leaves(again.restore("HEAD~1", numpy=True).state) == leaves(state(2))
    with Repository.clone(str(ada.top), ada.top.parent / "whole") as whole:
        assert content(whole, made.id) == content(ada, made.id)


def lying_ancestors(told: Manifest) -> Manifest:
    """Says that Ada's commits have no exact layers, and other sizes; who keeps layers would let them go."""
    lies = (replace(each, exact_packs=(), stored_bytes=1) for each in told.ancestors)
    return replace(told, ancestors=tuple(lies))


def test_a_manifest_does_not_speak_of_commits_that_are_here(far: Path, ada: Repository) -> None:
    before = [(info.id, info.stored_bytes, info.exact_layer) for info in ada.log()]
    forge_tip(far, lying_ancestors)
    ada.pull()
    with Repository.open(ada.top) as again:
        after = [(info.id, info.stored_bytes, info.exact_layer) for info in again.log()]
        assert after[1:] == before
        assert again.fsck().problems == []


def test_the_manifest_of_another_commit_than_the_branch_names(far: Path, ada: Repository) -> None:
    tip = tip_manifest(far)
    other = far / manifest_path(tip.ancestors[0].id, 0)
    (far / manifest_path(tip.written.id, 0)).write_bytes(other.read_bytes())
    refused(ada, "is that of commit")


@pytest.mark.parametrize("count", [4097, 300_000])
def test_a_manifest_of_very_many_packs(far: Path, ada: Repository, count: int) -> None:
    names = tuple(number.to_bytes(32).hex() for number in range(count))
    forge_tip(far, lambda told: replace(told, placement=replace(told.placement, others=names)))
    refused(ada, "packs; 4096 are allowed")


def test_packs_that_a_commit_does_not_need_are_not_kept_on_its_account(far: Path, ada: Repository) -> None:
    """A manifest over there names packs of a branch that is only here."""
    ada.commit(state(8), bins=16, branch="mine")
    mine = set(ada._session.store.manifests.placement(ada._session.resolver.resolve("mine").id).own)

    def forge(told: Manifest) -> Manifest:
        return replace(told, placement=replace(told.placement, others=(*told.placement.others, *mine)))

    for name in mine:
        keep(far, (ada.top / ".mvcs" / pack_path(name)).read_bytes())
    forge_tip(far, forge)
    ada.fetch()
    taken = ada._session.store.manifests.placement(ada._session.resolver.resolve("origin/main").id)
    assert mine.isdisjoint(taken.packs)


def test_a_commit_does_not_take_our_exact_layer_for_its_own(far: Path, ada: Repository) -> None:
    ours = ada._session.resolver.resolve("HEAD").written.exact_packs
    assert ours
    forge_tip(far, lambda told: replace(told, written=replace(told.written, exact_packs=ours)))
    refused(ada, "which belongs to another commit of this store")


def test_a_footer_that_promises_a_chunk_it_does_not_hold(far: Path, ada: Repository) -> None:
    """Later commits of that very chunk would lean on nothing."""
    wanted = object_id(Kind.CHUNK, state(9)["model"]["weight"].tobytes())

    def forge(footer: Footer) -> Footer:
        at = next(i for i, placed in enumerate(footer.entries) if placed.entry.members[0].kind is Kind.CHUNK)
        placed = footer.entries[at]
        lie = Placed(placed.offset, placed.length, placed.entry, (wanted, *placed.ids[1:]))
        return replace(footer, entries=(*footer.entries[:at], lie, *footer.entries[at + 1 :]))

    forge_footer(far, forge)
    refused(ada, "where its footer promises one")


def needing(others: Callable[[tuple[str, ...]], tuple[str, ...]]) -> Callable[[Manifest], Manifest]:
    return lambda told: replace(told, placement=replace(told.placement, others=others(told.placement.others)))


def test_a_manifest_that_leaves_out_a_pack_it_needs(far: Path, ada: Repository) -> None:
    assert tip_manifest(far).placement.others
    forge_tip(far, needing(lambda _: ()))
    refused(ada, "in none of the packs that are named")


def test_a_manifest_that_needs_a_pack_which_is_nowhere(far: Path, ada: Repository) -> None:
    forge_tip(far, needing(lambda others: (*others, "ab" * 32)))
    refused(ada, "no such file")


def test_a_commit_whose_tree_is_nowhere(far: Path, ada: Repository) -> None:
    commit = ada._session.resolver.resolve("HEAD").commit
    add_commit(far, "main", replace(commit, tree=NOWHERE), [])
    refused(ada, f"object {NOWHERE.hex()[:12]}")


def test_a_commit_whose_parent_is_nowhere(far: Path, ada: Repository) -> None:
    commit = ada._session.resolver.resolve("HEAD").commit
    add_commit(far, "main", replace(commit, parents=(NOWHERE,)), [])
    refused(ada, f"{NOWHERE.hex()[:12]}")


def test_a_commit_whose_tensor_lacks_a_chunk(far: Path, ada: Repository) -> None:
    """The tree is there; only a chunk that it names is not."""
    session = ada._session
    head = session.resolver.resolve("HEAD")
    tree = session.store.tree(head.commit.tree)
    leaf = next(leaf for leaf in tree.leaves if leaf.original is not None)
    tensor = leaf.tensor
    tensor = replace(tensor, codes=(NOWHERE,) * len(tensor.codes))
    assert tensor.codes
    lies = tuple(replace(each, tensor=tensor) if each is leaf else each for each in tree.leaves)
    lying = replace(tree, leaves=lies)
    packs = session.store.manifests.placement(head.id).packs
    add_commit(
        far,
        "main",
        replace(head.commit, tree=lying.id, parents=(head.id,)),
        [(Kind.TREE, lying.encode())],
        others=packs,
    )
    refused(ada, f"object {NOWHERE.hex()[:12]}")


ONE, OTHER = (object_id(Kind.CHUNK, bytes([number]) * 64) for number in (1, 2))


@pytest.mark.parametrize(
    ("encoding", "bases", "match"),
    [
        (Encoding.ZSTD_DELTA, (EntryBase(OTHER), EntryBase(ONE)), "are nowhere, or damaged"),
        (Encoding.ZSTD_DELTA, (EntryBase(ONE), EntryBase(OTHER)), "are nowhere, or damaged"),
        (Encoding.RANS_RESIDUAL, (EntryBase(ONE, 0), EntryBase(OTHER, 0)), "outside an exact layer"),
    ],
)
def test_bases_that_lead_nowhere(
    far: Path, ada: Repository, encoding: Encoding, bases: tuple[EntryBase, EntryBase], match: str
) -> None:
    commit = replace(ada._session.resolver.resolve("HEAD").commit, message="in a circle")
    element = ElementFormat(4, floating=True) if encoding is Encoding.RANS_RESIDUAL else OPAQUE
    entries = [
        (Entry((Member(Kind.CHUNK, 64),), encoding, element, (base,)), b"\0" * 20, (identifier,))
        for identifier, base in zip((ONE, OTHER), bases, strict=True)
    ]
    add_commit(far, "main", commit, [], entries=entries)
    refused(ada, match)


def test_good_branches_are_taken_and_bad_ones_are_named(far: Path, ada: Repository) -> None:
    commit = ada._session.resolver.resolve("HEAD").commit
    add_commit(far, "broken", replace(commit, tree=NOWHERE, message="broken"), [])
    with pytest.raises(CorruptionError, match="branch 'broken' of 'origin' was not taken; the others were"):
        ada.fetch()
    assert ada.resolve("origin/main").id == Repository.open(far.parent / "bob").head().id
    assert "origin/broken" not in {name for names in ada.decorations().values() for name in names}
    assert ada.fsck().problems == []
    with pytest.raises(CorruptionError, match="broken"):
        Repository.clone(str(far), far.parent / "late")
    with Repository.open(far.parent / "late") as late:
        assert content(late, "main") == content(ada, "origin/main")
        assert {branch.name for branch in late.branches()} == {"main"}


def test_a_fetch_that_was_stopped_leaves_its_packs_for_the_next(far: Path, ada: Repository) -> None:
    """What lies in quarantine is hashed again, and is not copied twice."""
    name = tip_pack(far)
    left = ada.top / ".mvcs/incoming/0123456789abcdef"
    left.mkdir(parents=True)
    (left / "lock").touch()
    (left / f"{name}.pack").write_bytes((far / pack_path(name)).read_bytes())
    (left / f"{'ab' * 32}.pack").write_bytes(b"cut off")
    tip = tip_manifest(far).written.id
    flip(far / pack_path(name), 60)
    assert ada.fetch().packs_received == 1
    assert ada.resolve("origin/main").id == tip.hex()
    assert list((ada.top / ".mvcs/incoming").iterdir()) == []
    assert ada.fsck().problems == []


def test_nothing_is_taken_over_from_folders_that_no_fetch_made(far: Path, ada: Repository) -> None:
    """A folder that somebody sent may hold links, and folders that have a lock for other reasons."""
    mine = far.parent / "mine"
    incoming = ada.top / ".mvcs/incoming"
    for folder in (mine, incoming / "app"):
        folder.mkdir(parents=True)
        (folder / "lock").write_text("1234")
    (incoming / "0123456789abcdef").symlink_to(mine)
    ada.fetch()
    assert (mine / "lock").read_text() == (incoming / "app/lock").read_text() == "1234"


@pytest.mark.parametrize("name", ["incoming", "local"])
def test_a_folder_of_the_local_side_that_leads_elsewhere_is_refused(far: Path, name: str) -> None:
    mine, top = far.parent / "mine", far.parent / "ada"
    (mine / "app").mkdir(parents=True)
    (mine / "app/lock").write_text("1234")
    shutil.rmtree(top / ".mvcs" / name, ignore_errors=True)
    (top / ".mvcs" / name).symlink_to(mine)
    with pytest.raises(StorageError, match="is a link") as caught:
        Repository.open(top)
    assert "put a folder in its place" in caught.value.hint
    assert [path.name for path in mine.rglob("*")] == ["app", "lock"]


def test_what_fsck_would_call_damage_is_not_taken(far: Path, ada: Repository) -> None:
    """A description that no reader would believe, also where nothing leads to it."""
    content = Tree((), root="a" * 200_000).encode()
    encoding, payload = choose_opaque(content)
    bomb = Entry((Member(Kind.TREE, len(content)),), encoding), payload, (object_id(Kind.TREE, content),)
    tip = tip_manifest(far).written
    commit = replace(Commit.decode(tip.content), parents=(tip.id,), message="odd")
    add_commit(far, "main", commit, [], entries=[bomb])
    with pytest.raises(CorruptionError, match="no mvcs writes such a thing"):
        ada.fetch()
    assert ada.fsck().problems == []
