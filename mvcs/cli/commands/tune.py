"""`mvcs tune`: measure what bounded states cost, with functions of one's own."""

import click

from mvcs.cli.declare import command as declare
from mvcs.cli.loading import user_function
from mvcs.cli.session import Session
from mvcs.ui.tuning import resumed

EXAMPLE = """
mvcs tune HEAD --resume --train train:resume
mvcs tune best:val_loss --resume --train train:resume --moments light --moments resume --steps 200
"""
_STEPS = 100


@declare("tune", "what resuming from a commit costs", example=EXAMPLE, exits=(1, 3, 5, 7))
@click.argument("rev", default="HEAD")
@click.option("--resume", is_flag=True, help="Train on from what REV restores and from the exact state.")
@click.option(
    "--train", "function", metavar="MODULE:FUNCTION", help="Trains on: function(state, steps) gives losses."
)
@click.option(
    "--steps", type=click.IntRange(1), default=_STEPS, show_default=True, help="How many steps to train."
)
@click.option(
    "--moments",
    "tiers",
    multiple=True,
    type=click.Choice(["exact", "resume", "light", "auto"]),
    help="Instead of what REV restores: its exact state with moments kept like this; repeat to compare.",
)
@click.option("--note", is_flag=True, help="Add what was measured to the commit's metrics.")
def command(
    session: Session,
    rev: str,
    *,
    resume: bool,
    function: str | None,
    steps: int,
    tiers: tuple[str, ...],
    note: bool,
) -> None:
    """Train on from a commit twice over the same data: from its exact layer, and from what it restores.

    The function is yours: it gets a state as it was committed (a nested dict, tensors in host memory) and a
    number of steps, builds model and optimizer from the state, trains, and returns or yields the loss of
    every step, or pairs of step and loss. Its data must be the same each time.

    The excess is how much higher the losses are, in %, over all steps and over their second half. Steps lost
    says how far behind that is, where the exact loss falls clearly enough to tell.
    """
    if not resume:
        raise click.UsageError("say what to measure: --resume")
    if function is None:
        raise click.UsageError("--resume needs --train MODULE:FUNCTION")
    if note and tiers:
        raise click.UsageError("--note is for what REV restores, not for --moments")
    from mvcs.train.resume_probes import probe_commit

    with session.repository() as repository:
        with user_function(function) as train:
            report = probe_commit(repository, rev, train, steps, tiers)
        if note:
            repository.note(report.commit.id, report.metrics)
        costs = {
            name: (probe.excess, probe.excess_late, probe.lost_steps) for name, probe in report.probes.items()
        }
        session.answer(report, resumed(report.commit, steps, costs, session.screen))
