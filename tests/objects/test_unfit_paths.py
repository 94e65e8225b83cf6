"""Which paths no commit may bring into a folder: the rule of the page on objects, broken in every way."""

import sys
import unicodedata
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mvcs.objects.trees.paths import TOOL_FOLDERS, UnfitPath, UnfitReason, name_key, unfit_paths, unfit_text

HIDDEN = "\u200b\u200c\u2060\ufeff\ufe0f\u034f\u00ad\u3164"
SIGNS = "aAbB.: ~1²ßſKkéÉe\u0301İıφϕΣςσ…：ＣｃＯｏｎNcCmMuUlLpPtTxXrR$\u200c\ufe0fgGiIＧ\udcff"
NAMES = st.text(SIGNS, min_size=1, max_size=8)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)


def reasons(*paths: str) -> list[UnfitReason]:
    return [unfit.reason for unfit in unfit_paths(paths)]


@st.composite
def disguised(draw: st.DrawFn, name: str) -> str:
    """A spelling of a name that some file system takes for it: other cases, and signs that are not seen."""
    signs = [draw(st.sampled_from([sign, sign.upper()])) for sign in name]
    return "".join(sign + draw(st.text(HIDDEN, max_size=1)) for sign in signs)


@given(st.data(), st.sampled_from(sorted(TOOL_FOLDERS)), st.sampled_from(["", ".", " . ", ":x", "::$DATA"]))
def test_every_spelling_of_a_tools_folder_acts(data: st.DataObject, tool: str, end: str) -> None:
    path = f"sub/{data.draw(disguised(tool))}{end}/config"
    # Where nothing but case and the end differ, a store's folder is no path at all.
    plain = path.casefold().split("/")[1].rstrip(". ") == ".mvcs"
    assert reasons("model.pt", path) == [UnfitReason.MALFORMED if plain else UnfitReason.ACTING]


@given(st.data(), st.sampled_from(["git", "hg", "svn", "jj", "sl", "bzr", "mvcs"]), st.integers(1, 9999))
def test_every_spelling_of_a_short_name_acts(data: st.DataObject, tool: str, number: int) -> None:
    assert reasons(f"{data.draw(disguised(tool))}~{number}") == [UnfitReason.ACTING]


@given(
    st.data(),
    st.sampled_from(
        ["con", "prn", "aux", "nul", "conin$", "conout$"]
        + [f"{port}{number}" for port in ("com", "lpt") for number in "123456789¹²³"]
    ),
    st.sampled_from(["", ".txt", ".tar.gz", "  .pt", "/x", ".d/x"]),
)
def test_every_spelling_of_a_device_is_one(data: st.DataObject, device: str, end: str) -> None:
    assert reasons(f"a/{data.draw(disguised(device))}{end}") == [UnfitReason.DEVICE]


@given(NAMES, st.text("abc", max_size=3))
def test_a_colon_is_a_stream(name: str, stream: str) -> None:
    assert reasons(f"x/{name}x:{stream}")[0] in (UnfitReason.STREAM, UnfitReason.ACTING)
    assert reasons(f"x/model.pt:{stream}") == [UnfitReason.STREAM]


@pytest.mark.parametrize("end", [".", " ", "...", ". .", ".\u200b", "\u200c \ufe0f"])
@pytest.mark.parametrize("rest", ["", "/model.pt"])
def test_dots_and_spaces_at_an_end(end: str, rest: str) -> None:
    assert reasons(f"run/model{end}{rest}") == [UnfitReason.ENDING]


@pytest.mark.parametrize("name", ["a" * 256, "ü" * 128, "模" * 86, "\U0001f600" * 64, "\udcff" * 256])
def test_names_that_common_systems_cannot_hold(name: str) -> None:
    assert reasons(name) == reasons(f"{name}/x") == [UnfitReason.LONG]
    assert reasons(name[:-1]) == []


@pytest.mark.parametrize(
    "path",
    [
        *("console.txt", "com", "com0", "com10", "nul1", "aux_loss.pt", "lpt", "my con", "auxiliary/x"),
        *("step-1.pt", ".gitignore", ".github/x", ".hidden", "a~1", "model.pt~", "_darc", "…", "等等…"),
        *("größe/模型", "ＣＯＮ", "run：1", "x²", "\U0001f469\u200d\U0001f4bb.txt", "a\udcff", "a b. c/x"),
    ],
)
def test_other_names_are_fit(path: str) -> None:
    assert unfit_paths([path]) == []


@pytest.mark.parametrize(
    ("one", "other", "places"),
    [
        ("Model.pt", "model.pt", None),
        ("A/x", "a/y", ("A", "a")),
        ("A/x", "a", ("A", "a")),
        ("run/e\u0301/x", "run/é/x", ("run/e\u0301", "run/é")),
        ("Straße", "STRASSE", None),
        ("sK", "sk", None),
        ("Σς", "σσ", None),
        ("x\u200d", "x", None),
        ("\u2764\ufe0f.txt", "\u2764.txt", None),
        ("a/b/C/d", "a/b/c/e", ("a/b/C", "a/b/c")),
    ],
)
def test_names_that_some_system_takes_for_one(one: str, other: str, places: tuple[str, str] | None) -> None:
    (found,) = unfit_paths(["z", one, other, "a/0"])
    assert found.reason is UnfitReason.ALIKE
    assert set(found.places) == set(places or (one, other))


@pytest.mark.parametrize(
    ("one", "other"), [("x²", "x2"), ("ﬁ.pt", "f1.pt"), ("sınır", "sinir"), ("a/X", "b/x")]
)
def test_names_that_every_system_keeps_apart(one: str, other: str) -> None:
    assert unfit_paths([one, other]) == []


def test_alike_folders_are_followed_together() -> None:
    found = unfit_paths(["A/X/one", "a/x/two", "A/X/three", "a/x/four"])
    assert [unfit.places for unfit in found] == [("A", "a"), ("a/X", "a/x")]


@given(st.lists(PATHS, max_size=5))
def test_two_paths_are_alike_where_a_folder_or_file_has_one_key_and_two_spellings(paths: list[str]) -> None:
    fit = [path for path in paths if not unfit_paths([path])]
    places = {tuple(path.split("/")[:depth]) for path in fit for depth in range(1, path.count("/") + 2)}
    expected = any(
        len(one) == len(other) and list(map(name_key, one)) == list(map(name_key, other))
        for one, other in combinations(places, 2)
    )
    assert (UnfitReason.ALIKE in reasons(*fit)) is expected


@given(PATHS)
def test_a_fit_path_stays_fit_however_a_system_spells_it(path: str) -> None:
    if unfit_paths([path]):
        return
    for spelled in (
        "/".join(map(name_key, path.split("/"))),
        *(unicodedata.normalize(form, path) for form in ("NFC", "NFD")),
        path.casefold(),
        path.lower(),
        "".join(sign for sign in path if sign not in HIDDEN),
        "/".join(name.rstrip(". ") for name in path.split("/")),
        "/".join(name.partition(":")[0] for name in path.split("/")),
    ):
        assert unfit_paths([spelled]) == []
        assert spelled == path or UnfitReason.ALIKE in reasons(path, spelled)


@given(st.text(max_size=12))
def test_every_text_is_judged_and_told(path: str) -> None:
    found = unfit_paths([path, "model.pt"])
    assert not found or unfit_text(found, "is", "are").isprintable()


def test_every_letter_has_one_key_in_all_its_spellings() -> None:
    for number in range(sys.maxunicode + 1):
        sign = chr(number)
        key = name_key(sign)
        assert name_key(key) == key
        assert unicodedata.category(sign) != "Cf" or key == ""
        for form in ("NFC", "NFD"):
            assert name_key(unicodedata.normalize(form, sign)) == key
        # What NTFS compares; Windows keeps the dotless i apart.
        if len(sign.upper()) == 1 and sign != "ı":
            assert name_key(sign.upper()) == key


def test_a_message_groups_by_reason_and_is_bounded() -> None:
    paths = [*(f"run/{number:03}:x" for number in range(100)), "nul", "A", "a", ".m\u200cvcs/x", "x" * 300]
    text = unfit_text(unfit_paths(paths), "is refused", "are refused")
    acting, streams, device, long, alike = text.split("; ")
    assert acting == "'.m\\u200cvcs/x' is refused: version control tools would act on it"
    assert streams.startswith("'run/000:x', 'run/001:x', ")
    assert "'run/019:x' and 80 more are refused: " in streams
    assert device == "'nul' is refused: Windows takes it for a device"
    assert long.startswith(f"'{'x' * 200}...' is refused: ")
    assert alike == "'A' and 'a' are refused: macOS and Windows take them for one name"


def test_deep_folders_cost_no_more_than_their_length() -> None:
    """Each with all above it would be a million names of a thousand letters."""
    paths = [f"{'ab:/' * 200}{number}:/{'b:/' * 50}x" for number in range(4000)]
    found = unfit_paths(paths)
    assert len(found) == 200 + 51 * 4000
    assert found[0] == UnfitPath(UnfitReason.STREAM, min(paths), 3)


@pytest.mark.parametrize("sign", '<>"|?*')
def test_names_that_windows_cannot_hold_are_unfit(sign):
    (found,) = unfit_paths([f"a/b{sign}c.txt", "a/other.txt"])
    assert (found.reason, found.places) == (UnfitReason.CHARACTER, (f"a/b{sign}c.txt",))
