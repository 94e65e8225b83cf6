"""`mvcs config`: settings of this repository."""

import click

from mvcs.cli.declare import command as declare
from mvcs.cli.exits import FAILED
from mvcs.cli.options import plain_option
from mvcs.cli.session import Session
from mvcs.ui.text import printable

EXAMPLE = """
mvcs config user.name "Ada Lovelace"
mvcs config metric.accuracy.goal max
mvcs config --list
"""


@declare("config", "settings of this repository", example=EXAMPLE, exits=(1, 3, 5, 7))
@click.argument("key", required=False)
@click.argument("value", required=False)
@click.option("--unset", is_flag=True, help="Go back to the default of KEY.")
@click.option("--list", "everything", is_flag=True, help="Every setting that was made (also without KEY).")
@plain_option
def command(
    session: Session, key: str | None, value: str | None, unset: bool, everything: bool, plain: bool
) -> None:
    """Show or change a setting.

    KEY is user.name, compaction.max_depth, compaction.max_restore_ratio, commit.threads,
    retention.exact_layers, retention.exact_coding (auto or always), metric.NAME.goal (min or max),
    remote.NAME.url. Exit code 1 when KEY is not set.
    """
    if unset and (key is None or value is not None):
        raise click.UsageError("--unset takes a KEY and no VALUE")
    if everything and key is not None:
        raise click.UsageError("--list takes no KEY")
    with session.repository() as repository:
        if key is None:
            found = repository.config_list()
            session.answer(
                found, [f"{printable(name)} = {printable(str(item))}" for name, item in found.items()]
            )
        elif unset:
            repository.config_unset(key)
            session.answer({key: None}, [])
        elif value is not None:
            repository.config_set(key, value, plain=plain)
            session.answer({key: repository.config_get(key)}, [])
        else:
            _show(session, key, repository.config_get(key))


def _show(session: Session, key: str, value: object) -> None:
    session.answer({key: value}, [] if value is None else [printable(str(value))])
    if value is None:
        click.get_current_context().exit(FAILED)
