"""The page docs/api.md: what the package offers to programs, from its docstrings."""

import inspect
import re
from collections.abc import Iterator

import mvcs
from mvcs.channels import MessageStore, Quantizer, Residuals
from mvcs.train.channels import ErrorFeedback, QuantizedAdam, QuantizedGradients, QuantizedLink

MARK = "<!-- from here on: written by `pytest tests/cli --regenerate` from docstrings -->"
_SECTIONS = ("Args:", "Attributes:", "Returns:", "Yields:", "Raises:")
_ITEM = re.compile(r"    (\*{0,2}\w+): (.*)")
_CHANNELS = {
    QuantizedLink: "link", MessageStore: "store", QuantizedGradients: "gradients", QuantizedAdam: "optimizer",
    ErrorFeedback: "feedback", Residuals: "residuals", Quantizer: "quantizer",
}  # fmt: skip
_SHOWN = (type(None), bool, int, float, str, tuple)


def sections() -> str:
    """Return the generated part of the page."""
    errors = [name for name in mvcs.__all__ if name.endswith("Error")]
    parts = ["## Open", _entry("mvcs.open_or_init", mvcs.open_or_init), *_class(mvcs.Repository, "repo")]
    parts += [_entry(f"mvcs.{name}", getattr(mvcs, name), "## ") for name in ("CommitInfo", "Restored")]
    parts += _class(mvcs.Checkpointer, "checkpointer")
    parts += [part for kind, name in _CHANNELS.items() for part in _class(kind, name)]
    parts += ["## Errors", *(_error(getattr(mvcs, name)) for name in sorted(errors, key=_order))]
    return "\n\n".join(parts) + "\n"


def _class(kind: type, name: str) -> list[str]:
    door = "mvcs" if hasattr(mvcs, kind.__name__) else kind.__module__.rpartition(".")[0]
    made = _entry(f"{door}.{kind.__name__}", kind, "## ", signed=kind is not mvcs.Repository)
    return [made, *(_entry(_from(name, method), found) for method, found in _public(kind))]


def _from(name: str, method: str) -> str:
    return method if "." in method else f"{name}.{method}"


def _public(kind: type) -> Iterator[tuple[str, object]]:
    """Yield methods and properties: those of a class before those of the classes it is made of.

    What takes the place of another package's, such as torch's, is not there for users.
    """
    own = [base for base in kind.__mro__ if base.__module__.split(".")[0] == "mvcs"]
    met = {name for base in kind.__mro__[:-1] if base not in own for name in dir(base)}
    for base in own:
        for name, found in vars(base).items():
            if name.startswith("_") or name in met or not inspect.getdoc(found):
                continue
            met.add(name)
            yield (f"mvcs.{kind.__name__}.{name}" if isinstance(found, classmethod) else name), found


def _order(name: str) -> tuple[int, str]:
    return len(getattr(mvcs, name).__mro__), name


def _error(kind: type[mvcs.MvcsError]) -> str:
    base = "" if kind is mvcs.MvcsError else f" (a `{kind.__mro__[1].__name__}`, exit code {kind.exit_code})"
    return f"- `mvcs.{kind.__name__}`{base}: {inspect.getdoc(kind)}"


def _entry(name: str, found: object, level: str = "### ", *, signed: bool = True) -> str:
    called = getattr(found, "__func__", found)
    of_class = inspect.isclass(found) and hasattr(found, "__dataclass_fields__")
    shown = _signature(called) if signed and callable(called) and not of_class else ""
    return f"{level}`{name}{shown}`\n\n{_text(inspect.getdoc(found) or '')}"


def _signature(called: object) -> str:
    parameters = list(inspect.signature(called).parameters.values())
    plain = [_plain(one) for one in parameters if one.name not in ("self", "cls")]
    return str(inspect.Signature(plain)).replace("Ellipsis", "...")


def _plain(one: inspect.Parameter) -> inspect.Parameter:
    has_default = one.default is not inspect.Parameter.empty
    default = one.default if not has_default or isinstance(one.default, _SHOWN) else ...
    return one.replace(annotation=inspect.Parameter.empty, default=default)


def _text(doc: str) -> str:
    """Return a docstring as prose and lists."""
    lines: list[str] = []
    for line in doc.splitlines():
        item = _ITEM.match(line)
        if line in _SECTIONS:
            lines += [f"{line[:-1].replace('Args', 'Arguments')}:", ""]
        elif item and not line.startswith("     "):
            lines.append(f"- `{item[1]}`: {item[2]}")
        else:
            lines.append(re.sub(r"^ {4,}", "  ", line))
    return "\n".join(lines).strip()
