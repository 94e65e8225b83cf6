"""`mvcs fsck`: read everything again."""

import math

import click

from mvcs.cli.declaration import CORRUPTION
from mvcs.cli.declaration import command as declare
from mvcs.cli.session import Session
from mvcs.ui import checks

EXAMPLE = """
mvcs fsck
mvcs fsck --quick --json
mvcs fsck --sample 1%
"""


def _share(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """Return a share as a part of one, from `1%` or `0.01`."""
    if value is None:
        return None
    try:
        number = float(value.removesuffix("%"))
    except ValueError:
        number = math.nan
    share = number / 100 if value.endswith("%") else number
    if not 0 < share <= 1:
        raise click.BadParameter(f"'{value}' is not a share such as 1%", context, parameter)
    return share


@declare("fsck", "read everything again", example=EXAMPLE, exits=(3, 5, 6, 7))
@click.option(
    "--quick", is_flag=True, help="Check that everything is there and reachable, without hashing contents."
)
@click.option("--packs", is_flag=True, help="Compare every byte with its checksum as well; decode nothing.")
@click.option(
    "--sample",
    callback=_share,
    metavar="SHARE",
    help="Check all of a part of the packs, such as 1%, and the next part the next time.",
)
def command(session: Session, quick: bool, packs: bool, sample: float | None) -> None:
    """Check the whole store: every byte hashed again, every name leading somewhere.

    Of a pack whose footer is damaged it says what is whole. Exit code 5 when something is wrong; nothing is
    changed. What is found is remembered, and 'mvcs repair' continues from there;
    until that is mended, 'mvcs status' and 'mvcs fsck --quick' say so.
    """
    if quick + packs + (sample is not None) > 1:
        raise click.UsageError("--quick, --packs and --sample each say how far to look: give one of them")
    with session.repository() as repository:
        report = repository.fsck(full=not quick, decode=not packs, sample=sample)
        session.answer(report, checks.checked(report, session.screen))
    if not report.ok:
        click.get_current_context().exit(CORRUPTION)
