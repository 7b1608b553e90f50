"""Parse what stands behind a magic, and describe it for ``?`` and for completion."""

from __future__ import annotations

import argparse
import shlex
import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NoReturn

from IPython.core.error import UsageError

from ..common.checks import did_you_mean
from .offers import CHOICES, Offers, brief

TEXT_COLUMN = 30
"""Where the explanations of options begin in the help."""


_CAPTURED = "Capture the model with it, and name what that returns: --model program, where program"
ELSEWHERE = {
    "--sample-weight": f"{_CAPTURED} = tos.capture(model, weights=True), and --data x,y,weights.",
}
"""Options of other libraries, and what to do here."""


class Parser:
    """The options of one magic.

    Parameters
    ----------
    name : str
        With its percent signs.
    example : str
        What may stand behind it.
    groups : mapping of str to collection of str, optional
        Titles, and the options below each in the help. All others come last.
    elsewhere : mapping of str to str, optional
        What is said of options that it does not have.
    """

    def __init__(
        self,
        name: str,
        example: str = "",
        groups: Mapping[str, Collection[str]] | None = None,
        elsewhere: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self._elsewhere = elsewhere or {}
        self._groups = groups or {}
        self._example = example
        self.kinds: dict[str, str] = {}
        self._defaults: dict[str, Any] = {}
        self._parser = _Raising(name, add_help=False, allow_abbrev=False)
        self._actions: list[argparse.Action] = []

    def add(self, *flags: str, kind: str = "", told: Any = None, **settings: Any) -> Parser:
        """Add an option, or an argument without a flag, as argparse takes it.

        Parameters
        ----------
        *flags : str
        kind : str
            What completion offers as its value.
        told : object, optional
            The value by default, where it is not the parser that has it.
        **settings
            Those of ``ArgumentParser.add_argument``.
        """
        action = self._parser.add_argument(*flags, **settings)
        self._defaults[action.dest] = action.default if told is None else told
        self._actions.append(action)
        for flag in action.option_strings or [action.dest]:
            self.kinds[flag] = kind
        return self

    @property
    def flags(self) -> list[str]:
        """Every option, with its dashes."""
        return [flag for action in self._actions for flag in action.option_strings]

    @property
    def argument(self) -> str:
        """The name of the argument without a flag; empty if there is none."""
        return next((a.dest for a in self._actions if not a.option_strings), "")

    @property
    def words(self) -> Offers:
        """Every option, with its dashes, and a word about it."""
        return {f: brief(_meaning(a)) for a in self._actions for f in a.option_strings}

    def values(self, flag: str) -> Offers:
        """Return the words that an option takes, or the number by default; else nothing."""
        action = next(a for a in self._actions if flag in (a.option_strings or [a.dest]))
        if action.choices:
            return {str(word): CHOICES.get(str(word), "") for word in action.choices}
        default = self._defaults.get(action.dest, action.default)
        # A bool is a number, too.
        known = type(default) in (int, float)
        return {f"{default:g}": "by default"} if known else {}

    def takes_value(self, flag: str) -> bool:
        """Whether an option is followed by a value."""
        return any(flag in a.option_strings and a.nargs != 0 for a in self._actions)

    def stands_alone(self, flag: str) -> bool:
        """Whether an option may be given without a value."""
        return any(flag in a.option_strings and a.nargs in (0, "?") for a in self._actions)

    def takes_place(self, flag: str) -> bool:
        """Whether the value of an option is a file or a folder."""
        return any(
            flag in (a.option_strings or [a.dest]) and a.metavar in ("URI", "DIR")
            for a in self._actions
        )

    def parse(self, line: str) -> argparse.Namespace:
        """Return the values in a line.

        Raises
        ------
        UsageError
            Something in it is wrong; the message says what, and where to look.
        """
        try:
            words = shlex.split(line)
        except ValueError as error:
            raise self._wrong(f"{error} in: {line}") from None
        self._refuse_unknown(words)
        self._refuse_both(words)
        try:
            found = self._parser.parse_args(words)
        except argparse.ArgumentError as error:
            missing = str(error).startswith("the following arguments are required")
            raise self._wrong(self._expected() if missing else str(error)) from None
        self._refuse_repeated(found)
        return found

    def _expected(self) -> str:
        """Say what the magic does not do without."""
        needed = [a for a in self._actions if a.required]
        text = " and ".join(f"{a.metavar} ({(a.help or '') % vars(a)})" for a in needed)
        return f"expected {text}, such as {self.name} {self._example}."

    def _refuse_unknown(self, words: Iterable[str]) -> None:
        for word in words:
            flag = word.split("=")[0]
            if flag.startswith("-") and not _is_number(flag) and flag not in self.flags:
                if flag in self._elsewhere:
                    raise self._wrong(self._elsewhere[flag])
                if flag in ELSEWHERE:
                    raise self._wrong(f"unknown option {flag}. {ELSEWHERE[flag]}")
                # All begin with dashes, which make none nearer.
                names = [each.lstrip("-") for each in self.flags]
                hint = did_you_mean(flag.lstrip("-"), names, "--") or self._known()
                raise self._wrong(f"unknown option {flag}.{hint}")

    def _refuse_both(self, words: Iterable[str]) -> None:
        given = {word.split("=")[0] for word in words}
        for action in self._actions:
            if len(both := [flag for flag in action.option_strings if flag in given]) > 1:
                raise self._wrong(f"expected {' or '.join(both)}, which are one option; got both.")

    def _refuse_repeated(self, found: argparse.Namespace) -> None:
        """Refuse a setting with two values, of which only one can be meant."""
        for action in self._actions:
            if action.type is not pair:
                continue
            given: dict[str, list[str]] = {}
            for name, value in getattr(found, action.dest) or ():
                given.setdefault(name, []).append(value)
            for name, values in given.items():
                if len(values) > 1:
                    raise self._wrong(f"{name}: expected one value, got {' and '.join(values)}.")

    def _known(self) -> str:
        return f" Its options: {' '.join(self.flags)}." if self.flags else " It has no options."

    def _wrong(self, text: str) -> UsageError:
        return UsageError(f"{self.name}: {text} For help: {self.name}?")

    @property
    def usage(self) -> str:
        """How the magic is written."""
        options = " [options]" if self.flags else ""
        plain = [a for a in self._actions if not a.option_strings]
        return self.name + "".join(f" {_spelled(a)[0]}" for a in plain) + options

    @property
    def explained(self) -> list[tuple[list[str], str]]:
        """Every option, in each of its spellings, with what it means."""
        return [(_spelled(a), _meaning(a)) for a in self._actions]

    def help(self) -> str:
        """Return usage and options as text, in their groups."""
        lines = [f"Usage: {self.usage}"]
        for title, actions in self._grouped().items():
            lines += ["", title, *(line for a in actions for line in _lines(a))]
        return "\n".join(lines)

    def _grouped(self) -> dict[str, list[argparse.Action]]:
        """Return options by the titles above them, those of a group in its order."""
        by_name = {a.option_strings[0] if a.option_strings else a.dest: a for a in self._actions}
        found = {t: [by_name.pop(n) for n in names] for t, names in self._groups.items()}
        rest = {"Others" if found else "Options": [*by_name.values()]} if by_name else {}
        return found | rest


class _Raising(argparse.ArgumentParser):
    """Raise instead of leaving the interpreter."""

    def error(self, message: str) -> NoReturn:
        raise argparse.ArgumentError(None, message.rstrip(".") + ".")


def _lines(action: argparse.Action) -> list[str]:
    """Return an option in the help."""
    head = "  " + ", ".join(_spelled(action))
    text = textwrap.wrap(_meaning(action), 100 - TEXT_COLUMN)
    above = [head] if len(head) > TEXT_COLUMN - 2 else []
    indent = " " * TEXT_COLUMN
    first = indent if above else head.ljust(TEXT_COLUMN)
    return [*above, first + text[0], *(indent + more for more in text[1:])]


def _meaning(action: argparse.Action) -> str:
    return (action.help or "") % vars(action)


def _spelled(action: argparse.Action) -> list[str]:
    value = action.metavar or action.dest.upper()
    if action.choices and not action.metavar:
        value = "{" + ",".join(action.choices) + "}"
    if action.option_strings:
        return [f if action.nargs == 0 else f"{f} {value}" for f in action.option_strings]
    ends = {"?": "[{}]", "*": "[{} ...]"}
    return [ends.get(str(action.nargs), "{}").format(value)]


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def whole(text: str) -> int:
    """Return a whole number, for argparse."""
    try:
        return int(text.replace("_", ""))
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a whole number, got {text!r}.") from None


def interval(text: str) -> int | str:
    """Return a whole number, or ``auto``, for argparse."""
    if text == "auto":
        return text
    try:
        return whole(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"expected a whole number, or auto; got {text!r}."
        ) from None


def number(text: str) -> float:
    """Return a number, for argparse."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a number, got {text!r}.") from None


TYPES: Mapping[type, Callable[[str], Any]] = {int: whole, float: number, str: str}
"""What makes a value of text, by the kind of an `Argument`."""


def pair(text: str) -> tuple[str, str]:
    """Return name and value of ``name=value``, for argparse."""
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise argparse.ArgumentTypeError(
            f"expected name=value without spaces around the sign, got {text!r}."
        )
    return name, value


def identifier(text: str) -> str:
    """Return the name of a variable, for argparse."""
    if not text.isidentifier():
        raise argparse.ArgumentTypeError(f"expected the name of a variable, got {text!r}.")
    return text
