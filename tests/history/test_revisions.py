"""Revisions: everything a person may type for a commit."""

import math
import shutil
from dataclasses import replace

import numpy as np
import pytest

from mvcs.errors import MvcsError, NotFoundError, UsageError
from mvcs.history.revisions import split_revision_file
from mvcs.objects.commit import Commit, Tag
from mvcs.objects.ids import Kind, ObjectId, object_id
from mvcs.objects.trees.tree import Tree
from mvcs.refs import REMOTES, TAGS
from mvcs.refs.refstore import RefChange
from mvcs.repository import Repository
from mvcs.store.backend.local import LocalBackend
from tests.remotes.forging import add_commit


def walk(repo):
    """Make five commits on main, a tag on the second, a branch `side` of two more from the third."""

    def commit(step, **what):
        return repo.commit({"w": np.full(4, step)}, message=f"step {step}", step=step, **what)

    losses = [3.0, 1.0, math.nan, 2.0, 1.0]
    made = [commit(step, metrics={"loss": loss, "score": loss}) for step, loss in enumerate(losses)]
    repo.create_tag("v1", "main~3")
    repo.switch("side/x", create_from="main~2")
    made += [commit(step, metrics={"loss": 0.5}) for step in (10, 11)]
    repo.switch("main")
    return [info.id for info in made]


@pytest.fixture(scope="module")
def walked(tmp_path_factory):
    """A repository to look at, and the ids of its commits."""
    with Repository.init(tmp_path_factory.mktemp("walked")) as repo:
        yield repo, walk(repo)


@pytest.fixture
def repo(request, tmp_path):
    """An empty repository, or where the test wants a `history` one that has it."""
    if "history" in request.fixturenames:
        shutil.copytree(request.getfixturevalue("walked")[0].top, tmp_path, dirs_exist_ok=True)
    else:
        Repository.init(tmp_path).close()
    with Repository.open(tmp_path) as repository:
        yield repository


@pytest.fixture
def history(walked):
    return walked[1]


@pytest.fixture
def resolver(repo):
    return repo._session.resolver


@pytest.mark.parametrize(
    ("text", "index"),
    [
        ("HEAD", 4),
        ("@", 4),
        ("main", 4),
        ("main~", 3),
        ("main^", 3),
        ("main~0", 4),
        ("main^0", 4),
        ("main~2", 2),
        ("main~~", 2),
        ("main^^", 2),
        ("main~1^~1", 1),
        ("@~4", 0),
        ("HEAD^1", 3),
        ("v1", 1),
        ("v1~1", 0),
        ("side/x", 6),
        ("side/x~2", 2),
        ("main@{0}", 4),
        ("main@{3}", 1),
        ("@{1}", 3),
        ("HEAD@{1}", 6),
        ("side/x@{1}", 5),
        ("main@{1}~1", 2),
        ("step:0", 0),
        ("step:4", 4),
        ("step:1~1", 0),
        ("best:loss", 4),
        ("best:loss~1", 3),
    ],
)
def test_revisions_name_commits(walked, text, index):
    repo, history = walked
    assert repo.resolve(text).id == history[index]


@pytest.mark.parametrize(
    "text",
    [
        "nonesuch",
        "main~5",
        "main^2",
        "main~999999999",
        "main~99999999999999999999",
        "main~" + "9" * 5000,
        "main@{5}",
        "main@{" + "9" * 5000 + "}",
        "nonesuch@{0}",
        "step:5",
        "step:10",  # only HEAD's ancestors
        "best:nonesuch",
        "best:",
        "v1@{0}",
        "0123456789abcdef",
        "abc",
        "ABCDEF",
        "a b",
        "\ud800",
        "\ud800@{0}",
        "x" * 5000,
        "~1",
        "main~x",
    ],
)
def test_what_names_nothing_is_not_found_or_a_usage_error(walked, text):
    repo, _ = walked
    with pytest.raises((NotFoundError, UsageError)) as caught:
        repo.resolve(text)
    assert len(caught.value.message) < 6000


@pytest.mark.parametrize("text", ["", "step:", "step:x", "step:1.5", "step:" + "9" * 50])
def test_what_is_no_revision_is_a_usage_error(walked, text):
    repo, _ = walked
    with pytest.raises(UsageError):
        repo.resolve(text)


def test_prefixes_of_ids(repo, history):
    for identifier in history:
        for length in (12, 40, 64):
            assert repo.resolve(identifier[:length]).id == identifier
            assert repo.resolve(f"{identifier[:length]}~0").id == identifier
    with pytest.raises(NotFoundError, match=f"'{history[0][:3]}'") as caught:
        repo.resolve(history[0][:3])
    assert "4 digits" in caught.value.hint


def alike():
    """Two commits whose ids begin with the same four digits, and their tree."""
    tree = Tree(()).encode()
    one = Commit(object_id(Kind.TREE, tree), (), "Ada", 0, "")
    seen = {}
    while (made := replace(one, time=one.time + len(seen))).id.hex()[:4] not in seen:
        seen[made.id.hex()[:4]] = made
    return [seen[made.id.hex()[:4]], made], tree


def test_an_ambiguous_prefix_lists_what_it_may_be(repo, tmp_path):
    commits, tree = alike()
    for commit in commits:
        add_commit(tmp_path / ".mvcs", f"at-{commit.time}", commit, [(Kind.TREE, tree)])
    for indexed in (False, True):
        if indexed:
            repo.lineage_rebuild()
        with pytest.raises(UsageError, match="more than one commit") as caught:
            repo.resolve(commits[0].id.hex()[:4])
        for commit in commits:
            assert commit.id.hex()[:12] in caught.value.hint
            assert repo.resolve(commit.id.hex()[:12]).id == commit.id.hex()


def test_prefixes_need_no_index(repo, history, tmp_path):
    repo.close()
    (tmp_path / ".mvcs/lineage.sqlite").unlink()
    with Repository.open(tmp_path) as again:
        for identifier in history:
            assert again.resolve(identifier[:10]).id == identifier


@pytest.mark.usefixtures("repo")
def test_an_id_is_found_without_reading_any_pack(history, tmp_path, monkeypatch):
    reads, read = [], LocalBackend.read
    monkeypatch.setattr(LocalBackend, "read", lambda *asked: reads.append(asked[1]) or read(*asked))
    with Repository.open(tmp_path) as again:
        assert again.resolve(history[0]).id == history[0]
    assert sum(name.startswith("manifests/") for name in reads) <= 2
    assert not any(name.startswith("packs/") for name in reads)


def test_a_branch_wins_over_a_tag_and_over_an_id(repo, history):
    repo.create_branch("v1", "main")
    assert repo.resolve("v1").id == history[4]
    repo.create_branch(history[0][:8], "main~1")
    assert repo.resolve(history[0][:8]).id == history[3]


def test_a_tag_does_not_stand_for_a_branch_of_another_store(repo, history):
    """Tags come from every remote, whatever they are called."""
    refs = repo._session.refs
    refs.update(REMOTES, "lab/main", None, RefChange(ObjectId(bytes.fromhex(history[1])), "ada", "fetch"))
    repo.create_tag("lab/main", "main~1")
    with pytest.raises(UsageError, match="they differ") as caught:
        repo.resolve("lab/main")
    assert "mvcs tag -d lab/main" in caught.value.hint
    repo.delete_tag("lab/main")
    assert repo.resolve("lab/main").id == history[1]


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("val_accuracy", 0),
        ("eval/acc", 0),
        ("test.f1", 0),
        ("BLEU-4", 0),
        ("valAUC", 0),
        ("acc@5", 0),
        ("reward", 0),
        ("val_loss", 1),
        ("error-rate", 1),
        ("trainPerplexity", 1),
        ("resume_excess", 1),
    ],
)
def test_best_goes_by_the_words_of_a_metrics_name(repo, commit, name, index):
    made = [commit(step, metrics={name: value}).id for step, value in enumerate((3.0, 1.0, 2.0, math.nan))]
    assert repo.resolve(f"best:{name}").id == made[index]
    assert repo.resolve(f"best:max:{name}").id == made[0]
    assert repo.resolve(f"best:min:{name}").id == made[1]
    repo.config_set(f"metric.{name}.goal", "min" if index == 0 else "max")
    assert repo.resolve(f"best:{name}").id == made[1 - index]


@pytest.mark.parametrize(
    "name",
    ["score", "lossless", "accumulated", "accuracy_loss", "rewardError", "neg_mean_squared_error", "1-acc"],
)
def test_a_name_that_tells_no_goal_is_a_usage_error_that_says_how(repo, commit, name):
    made = [commit(step, metrics={name: value}).id for step, value in enumerate((1.0, 2.0))]
    with pytest.raises(UsageError) as caught:
        repo.resolve(f"best:{name}")
    assert f"mvcs config metric.{name}.goal max" in caught.value.hint
    assert f"best:max:{name}" in caught.value.hint
    assert [repo.resolve(f"best:{goal}:{name}").id for goal in ("min", "max")] == made


def test_a_metric_that_is_called_like_a_goal_can_be_named(repo, commit):
    made = [commit(step, metrics={"max:loss": value}).id for step, value in enumerate((1.0, 2.0))]
    with pytest.raises(NotFoundError):
        repo.resolve("best:max:loss")
    assert [repo.resolve(f"best:{goal}:max:loss").id for goal in ("min", "max")] == made


def test_best_takes_the_goal_of_the_configuration_and_the_newest_of_equals(repo, history):
    repo.config_set("metric.score.goal", "max")
    assert repo.resolve("best:score").id == history[0]
    assert repo.resolve("best:loss").id == history[4]
    repo.note("main~1", {"loss": 0.25})
    assert repo.resolve("best:loss").id == history[3]
    repo.note("main~1", {"loss": math.nan})
    assert repo.resolve("best:loss").id == history[4]


def test_step_takes_the_newest_match(repo, history, commit):
    assert history
    again = commit(1)
    assert repo.resolve("step:1").id == again.id
    negative = commit(-5)
    assert repo.resolve("step:-5").id == negative.id


def test_a_step_that_nobody_committed_names_the_nearest(repo, history, commit):
    assert history
    for number in (30, 10, 20):
        commit(number)
    with pytest.raises(NotFoundError, match="has step 25") as caught:
        repo.resolve("step:25")
    assert caught.value.hint == "nearest is step:20 and step:30; 'mvcs log' shows the steps there are"


def test_the_reflog_remembers_what_the_branch_left(repo, history):
    repo.switch("away", create_from="main")
    repo.delete_branch("main", force=True)
    with pytest.raises(NotFoundError, match="deleted"):
        repo.resolve("main@{0}")
    assert repo.resolve("main@{1}").id == history[4]
    with pytest.raises(NotFoundError):
        repo.resolve("main")


def test_a_detached_head_has_a_reflog_also_where_a_person_wrote_it(repo, history, tmp_path):
    (tmp_path / ".mvcs/HEAD").write_text(f"{history[2]}\n")
    assert repo.resolve("HEAD").id == history[2]
    assert repo.resolve("step:0").id == history[0]
    found = [repo.resolve(text).id for text in ("@{0}", "HEAD@{0}", "HEAD@{1}", "@{2}")]
    assert found == [history[2], history[2], history[4], history[6]]


def test_before_the_first_commit_nothing_has_a_name(repo):
    for text in ("HEAD", "@~1", "main", "step:1", "best:loss", "@{0}", "0123abcd"):
        with pytest.raises(MvcsError) as caught:
            repo.resolve(text)
        assert caught.value.exit_code == 3


def forge(repo, name, commit):
    """A tag that no command makes; whoever writes into the store by hand can."""
    refs, target = repo._session.refs, ObjectId(bytes.fromhex(commit))
    refs.update(TAGS, name, None, RefChange(target, "eve", "test", Tag(target, "eve", 0, "").encode()))


def test_a_whole_id_is_that_commit_whatever_has_its_name(repo, history):
    forge(repo, history[0], history[4])
    assert repo.resolve(history[0]).id == history[0]
    forge(repo, "0" * 64, history[4])
    with pytest.raises(NotFoundError):
        repo.resolve("0" * 64)
    with pytest.raises(UsageError, match="looks like a commit's id"):
        repo.create_branch("1" * 64)


def test_a_name_that_an_id_begins_with_is_said(repo, history):
    repo.create_tag(history[0][:8], "main")
    session = repo._session
    told = []
    resolver = replace(session.resolver, tell=told.append)
    assert resolver.resolve(history[0][:8]).id.hex() == history[4]
    assert resolver.resolve("v1").id.hex() == history[1]
    [note] = told
    assert f"'{history[0][:8]}' was taken as the name" in note
    assert history[0][:12] in note


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("main", None),
        ("main:model.safetensors", ("main", "model.safetensors")),
        ("HEAD~2:a/b:c.npz", ("HEAD~2", "a/b:c.npz")),
        ("main@{1}:x", ("main@{1}", "x")),
        ("step:1200", None),
        ("step:1200~1:x", ("step:1200~1", "x")),
        ("best:val_loss", None),
        ("best:val_loss:x", ("best:val_loss", "x")),
        ("best:max:score", None),
        ("best:max:score^:run/x", ("best:max:score^", "run/x")),
        (":x", ("", "x")),
        ("main:", ("main", "")),
    ],
)
def test_a_colon_divides_a_revision_from_a_file(text, expected):
    assert split_revision_file(text) == expected


def test_a_revision_and_a_file_are_resolved_together(resolver, history):
    named = {
        "main~1": (3, None),
        "step:1:a/x.npz": (1, "a/x.npz"),
        "best:loss~1:x": (3, "x"),
        "v1:x:y": (1, "x:y"),
    }
    for text, (index, path) in named.items():
        found, file = resolver.resolve_file(text)
        assert (found.id.hex(), file) == (history[index], path)
    for text in (":x", "main:", ":"):
        with pytest.raises(UsageError, match="REV:FILE"):
            resolver.resolve_file(text)


def test_a_metric_with_a_colon_in_its_name_stays_a_metric(resolver, commit):
    made = [
        commit(step, metrics={"loss:a": value, "loss": 1 / value}).id for step, value in enumerate((1, 2))
    ]
    for text, path, index in [("best:loss:a", None, 0), ("best:loss:a~0", None, 0), ("best:loss:b", "b", 1)]:
        found, file = resolver.resolve_file(text)
        assert (found.id.hex(), file) == (made[index], path)


def test_a_range_and_a_file_where_a_commit_is_wanted_say_what_to_type(repo, history):
    assert history
    hints = {
        "main~2..side/x": "mvcs diff main~2 side/x",
        "v1.0...v1.1": "mvcs log v1.1",
        "main..": "mvcs diff main HEAD",
        "..side/x": "mvcs diff HEAD side/x",
        "main:model.npz": "leave out ':model.npz'",
    }
    for text, hint in hints.items():
        with pytest.raises(UsageError) as caught:
            repo.resolve(text)
        assert hint in caught.value.hint


def test_a_tag_called_best_names_a_file_of_its_commit_unless_a_metric_is_called_so(repo, commit):
    made = [commit(step, metrics={"loss": value}).id for step, value in enumerate((1.0, 2.0))]
    repo.create_tag("best", made[1])
    revision, path = repo._session.resolver.resolve_file("best:model")
    assert (revision.id.hex(), path) == (made[1], "model")
    revision, path = repo._session.resolver.resolve_file("best:loss")
    assert (revision.id.hex(), path) == (made[0], None)
