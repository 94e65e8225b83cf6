"""The hook: what differs between a plain training script and one under version control."""

from difflib import SequenceMatcher

from stage import HERE, check, say

CONTEXT = 1


def show_hook() -> None:
    """Print the difference as it stands in the file, and check that it is small."""
    plain, ours = ((HERE / name).read_text().splitlines() for name in ("train_plain.py", "train.py"))
    shown = hook_lines(plain, ours)
    for line in shown:
        say(line)
    added = sum(line.startswith("+") for line in shown)
    check(added < 10, f"the hook is under ten lines: {added}")


def hook_lines(plain: list[str], ours: list[str]) -> list[str]:
    """Return lines removed ("-"), added ("+"), and those around them; what only moved in is neither."""
    stripped = [[line.strip() for line in lines] for lines in (plain, ours)]
    result: list[str] = []
    for group in SequenceMatcher(None, *stripped, autojunk=False).get_grouped_opcodes(CONTEXT):
        result += ["..."] if result else []
        for kind, left, left_end, right, right_end in group:
            if kind == "equal":
                result += [f"  {line}" for line in ours[right:right_end]]
            else:
                result += [f"- {line}" for line in plain[left:left_end]]
                result += [f"+ {line}" for line in ours[right:right_end]]
    return [line.rstrip() for line in result if line[1:].strip()]
