"""What file systems that ignore more than others take a name for: the key of a name.

Names of one key are one name on HFS+, APFS, NTFS, or a folder of ext4 that ignores case.
"""

import re
import unicodedata

# Characters that some file system leaves out of a comparison: category Cf, and Default_Ignorable_Code_Point.
_IGNORED = re.compile(
    "[\u00ad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000110bd\U000110cd"
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


def name_key(name: str) -> str:
    """Return the key of a segment of a path: equal for names that some file system takes for one.

    What is ignored goes first; canonical forms and cases of one letter are the same (D145 of Unicode).
    """
    if name.isascii():
        return name.lower()
    decomposed = unicodedata.normalize("NFD", _IGNORED.sub("", name))
    return unicodedata.normalize("NFD", decomposed.casefold())
