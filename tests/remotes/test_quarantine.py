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
from mvcs.store.packs.entry import OPAQUE, Entry, EntryBase, Member
from mvcs.store.packs.footer import Footer, Placed
from mvcs.store.reading.pack_files import pack_path
from tests.remotes.forging import add_commit, flip, footer_of, forge_tip, keep, point, tip_pack
from tests.repository.states import content, copied, leaves, state
from tests.store.packing import PackBuilder

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
        path for folder in ("refs", "packs", "exact", "retention") for path in (root / folder).rglob("*")
    )
    return {str(path.relative_to(root)): path.read_bytes() for path in paths if path.is_file()}


def refs(repo: Repository) -> dict[str, bytes]:
    return {name: data for name, data in stored(repo).items() if not name.startswith("packs")}


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


def written(forge: Callable[[Footer], tuple]) -> Callable[[Footer], Footer]:
    return lambda footer: replace(footer, commits=forge(footer))


def no_exact_layer(footer: Footer) -> tuple:
    """Says that Ada's commits have no exact layers: what keeps them would let them go."""
    return (footer.commits[0], *(replace(each, exact_packs=()) for each in footer.commits[1:]))


def other_sizes(footer: Footer) -> tuple:
    return (footer.commits[0], *(replace(each, stored_bytes=1) for each in footer.commits[1:]))


def other_pack(footer: Footer) -> tuple:
    return (footer.commits[0], *(replace(each, pack="ab" * 32) for each in footer.commits[1:]))


@pytest.mark.parametrize("forge", [no_exact_layer, other_sizes, other_pack])
def test_a_footer_does_not_speak_of_commits_that_are_here(
    far: Path, ada: Repository, forge: Callable[[Footer], tuple]
) -> None:
    forge_tip(far, written(forge))
    refused(ada, "otherwise than is known")


def ends_a_commit_of_ours(footer: Footer) -> tuple:
    """Says that the pack ends Ada's commit, and not the one that the branch names."""
    return (replace(footer.commits[1], pack=footer.commits[0].pack),)


def test_a_pack_that_ends_another_commit_than_the_branch_names(far: Path, ada: Repository) -> None:
    forge_tip(far, written(ends_a_commit_of_ours))
    refused(ada, "does not end commit")


def test_a_commit_does_not_take_our_exact_layer_for_its_own(far: Path, ada: Repository) -> None:
    ours = ada._session.resolver.resolve("HEAD").written.exact_packs
    assert ours
    forge_tip(
        far, written(lambda footer: (replace(footer.commits[0], exact_packs=ours), *footer.commits[1:]))
    )
    refused(ada, "which belongs to another commit of this store")


def test_a_footer_that_promises_a_chunk_it_does_not_hold(far: Path, ada: Repository) -> None:
    """Later commits of that very chunk would lean on nothing."""
    wanted = object_id(Kind.CHUNK, state(9)["model"]["weight"].tobytes())

    def forge(footer: Footer) -> Footer:
        at = next(i for i, placed in enumerate(footer.entries) if placed.entry.members[0].kind is Kind.CHUNK)
        placed = footer.entries[at]
        lie = Placed(placed.offset, placed.length, placed.entry, (wanted, *placed.ids[1:]))
        return replace(footer, entries=(*footer.entries[:at], lie, *footer.entries[at + 1 :]))

    forge_tip(far, forge)
    refused(ada, "where its footer promises one")


def test_a_footer_that_leaves_out_a_pack_it_needs(far: Path, ada: Repository) -> None:
    assert footer_of(far, tip_pack(far)).reach
    forge_tip(far, lambda footer: replace(footer, reach=()))
    refused(ada, "in none of the packs that are named")


def test_a_footer_that_needs_a_pack_which_is_nowhere(far: Path, ada: Repository) -> None:
    forge_tip(far, lambda footer: replace(footer, reach=(*footer.reach, "ab" * 32)))
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
    footer = session.store.catalog.attach(head.written.pack)
    add_commit(
        far,
        "main",
        replace(head.commit, tree=lying.id, parents=(head.id,)),
        [(Kind.TREE, lying.encode())],
        reach=(head.written.pack, *footer.needed),
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


def test_a_pack_that_says_it_ends_a_commit_which_is_here_is_not_even_copied(
    far: Path, ada: Repository
) -> None:
    head = ada._session.resolver.resolve("HEAD")
    builder = PackBuilder()
    content = head.written.content
    builder.add(Entry((Member(Kind.COMMIT, len(content)),), Encoding.RAW), content, (head.id,))
    name = keep(far, builder.finish((replace(head.written, pack="", stored_bytes=0),)))
    point(far, "side", head.id, name)
    ada.fetch()
    assert ada._session.refs.read("remotes", "origin/side").pack == head.written.pack
    assert not (ada.top / ".mvcs" / pack_path(name)).exists()


def test_a_commit_that_is_new_here_is_described_by_its_own_pack(far: Path, ada: Repository) -> None:
    """The second of two new commits says of the first what the first one's pack does not."""
    with Repository.open(far.parent / "bob") as bob:
        bob.commit(state(4), bins=16)
        bob.push()

    def forge(footer: Footer) -> tuple:
        own, parent, *rest = footer.commits
        return (own, replace(parent, exact_packs=("ab" * 32,)), *rest)

    forge_tip(far, written(forge))
    before = refs(ada)
    with pytest.raises(CorruptionError, match="otherwise than is known"):
        ada.fetch()
    # What the first of them promises is there, and waits for a name that leads to it.
    assert refs(ada) == before
    report = ada.fsck()
    assert report.problems == []
    assert any("belongs to no commit" in note for note in report.notes)


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
    footer = footer_of(far, name)
    flip(far / pack_path(name), 60)
    assert ada.fetch().packs_received == 1
    assert ada.resolve("origin/main").id == footer.commits[0].id.hex()
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
    tip = footer_of(far, tip_pack(far)).commits[0]
    commit = replace(Commit.decode(tip.content), parents=(tip.id,), message="odd")
    add_commit(far, "main", commit, [], entries=[bomb])
    with pytest.raises(CorruptionError, match="no mvcs writes such a thing"):
        ada.fetch()
    assert ada.fsck().problems == []
