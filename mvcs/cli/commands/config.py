"""`mvcs config`: settings of this repository, and of the user's own."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from mvcs.cli import completers
from mvcs.cli.declaration import FAILED
from mvcs.cli.declaration import command as declare
from mvcs.cli.foreign_words import ValueCommand
from mvcs.cli.options import plain_option
from mvcs.cli.session import Session
from mvcs.ui import printable

if TYPE_CHECKING:
    from mvcs.config import Config

EXAMPLE = """
mvcs config metric.accuracy.goal max
mvcs config -l
mvcs config --global user.name "Ada Lovelace"
mvcs config --global --add safe.directory /shared/runs/gpt
"""


@declare(
    "config",
    "settings of this repository, or of your own",
    example=EXAMPLE,
    exits=(1, 3, 5, 7),
    cls=ValueCommand,
)
@click.argument("key", required=False, shell_complete=completers.setting)
@click.argument("value", required=False)
@click.option("--unset", is_flag=True, help="Go back to the default of KEY.")
@click.option("--get", "getting", is_flag=True, help="Show KEY (also without this).")
@click.option(
    "-l", "--list", "everything", is_flag=True, help="Every setting that was made (also without KEY)."
)
@click.option("--global", "own", is_flag=True, help="Settings of yours alone, for all repositories.")
@click.option("--local", is_flag=True, help="Settings of this repository alone.")
@click.option("--add", is_flag=True, help="With --global: one more value beside those KEY has.")
@plain_option
def command(
    session: Session,
    key: str | None,
    value: str | None,
    unset: bool,
    getting: bool,
    everything: bool,
    own: bool,
    local: bool,
    add: bool,
    plain: bool,
) -> None:
    """Show or change a setting; what is changed is this repository's, unless --global is given.

    KEY is user.name, store.max_bytes (a size such as 500GB), metric.NAME.goal (min or max),
    remote.NAME.url, commit.threads, commit.max_tensor_error, delta.coder (auto or huffman) or
    memory.budget (a size such as 2GiB, or auto). Of old commits tell compaction.max_depth,
    restore.max_cost (times the cost of a snapshot), compaction.max_restore_seconds (estimated, for
    each GB), compaction.background (a share of one processor), compaction.max_waste,
    retention.exact_layers and retention.exact_coding (auto or always). Exit code 1 when KEY is not set.

    With --global, KEY is user.name, safe.directory (a folder of another user whose repository you trust,
    or * for all) or safe.protocol (a further kind of store, such as hf). They lie in
    ~/.config/mvcs/config.toml, and no repository can set them.
    """
    if (unset or getting) and (key is None or value is not None):
        raise click.UsageError(f"--{'unset' if unset else 'get'} takes a KEY and no VALUE")
    if everything and (key is not None or unset or add):
        raise click.UsageError("--list takes no KEY and changes nothing")
    if own and local:
        raise click.UsageError("--global and --local are two places: name one")
    if add and not (own and value is not None):
        raise click.UsageError("--add goes with --global, a KEY and a VALUE")
    if own:
        _own(session, key, value, unset=unset, add=add)
        return
    from mvcs.local import wrong_settings

    wrong = wrong_settings(session.where, session.trust)
    if wrong is not None:
        _mend(session, wrong, key, value, unset=unset)
        return
    with session.repository() as repository:
        if key is None:
            _list(session, repository.config_list(own=not local))
        elif unset:
            repository.config_unset(key)
            session.answer({key: None}, [])
        elif value is not None:
            repository.config_set(key, value, plain=plain)
            session.answer({key: repository.config_get(key)}, [])
        else:
            _show(session, key, repository.config_get(key, own=not local))


def _mend(session: Session, config: "Config", key: str | None, value: str | None, *, unset: bool) -> None:
    """Show settings of which some are wrong, or change one of those: with them no repository is opened."""
    from mvcs.local import shown_setting

    shown = {name: shown_setting(name, item) for name, item in config.items().items()}
    if key is None:
        _list(session, shown)
    elif not unset and value is None:
        _show(session, key, shown.get(key) or config.get(key))
    elif key not in config.wrong:
        raise next(iter(config.wrong.values()))
    elif value is None:
        config.unset(key)
        session.answer({key: None}, [])
    else:
        config.set(key, value)
        session.answer({key: config.get(key)}, [])
    for error in config.wrong.values():
        session.tell(f"{error.message}; {error.hint}")


def _own(session: Session, key: str | None, value: str | None, *, unset: bool, add: bool) -> None:
    """Look into, or change, the user's own settings; no repository is opened for that."""
    config = session.trust.config
    if key is None:
        _list(session, config.items())
    elif unset:
        config.unset(key)
        session.answer({key: None}, [])
    elif value is not None:
        config.set(key, value, add=add)
        session.answer({key: config.items()[key]}, [])
    else:
        config.listed(key)
        _show(session, key, config.items().get(key))


def _list(session: Session, found: Mapping[str, object]) -> None:
    lines = [f"{printable(name)} = {line}" for name, item in found.items() for line in _lines(item)]
    session.answer(dict(found), lines)


def _show(session: Session, key: str, value: object) -> None:
    session.answer({key: value}, _lines(value))
    if value is None:
        click.get_current_context().exit(FAILED)


def _lines(value: object) -> list[str]:
    values = value if isinstance(value, list) else [] if value is None else [value]
    return [printable(str(item)) for item in values]
