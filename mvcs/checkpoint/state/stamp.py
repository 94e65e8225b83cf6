"""What tells whether a file was written since: its size, its times, and which file it is."""

import os
from dataclasses import dataclass, replace

TICK_NS = 20_000_000  # clocks of systems go on in steps of up to 10 ms
COARSE_TICK_NS = 2_000_000_000 + TICK_NS  # what knows seconds alone may count in twos
_SECOND_NS = 1_000_000_000


@dataclass(frozen=True)
class Stamp:
    """What tells whether a file is still the one that was looked at.

    Attributes:
        size: bytes.
        mtime_ns: when its content was last written, as writers may set it.
        ctime_ns: when anything of it was last changed, as the system has it.
        inode: its number; another file of the same name has another.
    """

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> "Stamp":
        """Take it from what the system says of a file."""
        return cls(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)

    @classmethod
    def of_none(cls, size: int = 0, mtime_ns: int = 0) -> "Stamp":
        """Return a stamp that no file has."""
        return cls(size, mtime_ns, 0, -1)

    def settled(self, moment_ns: int) -> "Stamp":
        """Return what tells of every change after a moment: the stamp, or one that no file has.

        A change within the tick of a clock in which the file was changed before may leave the stamp as it is.
        """
        times = (self.mtime_ns, self.ctime_ns)
        is_told = all(time + _tick_ns(time) < moment_ns for time in times)
        return self if is_told else self.of_none(self.size, self.mtime_ns)

    def renamed(self, found: "Stamp", moment_ns: int) -> "Stamp":
        """Return what tells of every change since a file of this stamp, that nobody knew, got its name.

        Renaming counts as a change. Who changes the file within the same tick would have to put the time of
        writing back as well: that is ruled out only where a tick is long enough for a person.

        Args:
            found: the stamp of what has that name.
            moment_ns: when that was looked at.
        """
        is_same = replace(found, ctime_ns=self.ctime_ns) == self
        judged = self if _tick_ns(found.ctime_ns) == TICK_NS else found
        is_told = is_same and judged.settled(moment_ns) == judged
        return found if is_told else self.of_none(found.size, found.mtime_ns)

    def tells_renamed(self, moment_ns: int) -> bool:
        """Tell whether `renamed` will know a file that nobody else knew up to a moment."""
        return _tick_ns(self.ctime_ns) == TICK_NS and self.settled(moment_ns) == self


def _tick_ns(time_ns: int) -> int:
    """Return how far apart two times may be that a file system tells as one, judged by one of them."""
    return TICK_NS if time_ns % _SECOND_NS else COARSE_TICK_NS
