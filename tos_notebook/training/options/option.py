"""Fields of options, and functions whose parameters and help are made from them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import wraps
from inspect import Parameter, cleandoc, signature
from textwrap import fill, indent
from typing import Any, Concatenate, ParamSpec, TypeVar, cast, get_type_hints

from ...common.checks import Function, one_of, refuse_unknown
from ...errors import ConfigError, TosError

Value = TypeVar("Value")
Owner = TypeVar("Owner")
Given = ParamSpec("Given")
Arguments = TypeVar("Arguments")
Result = TypeVar("Result")
Documented = TypeVar("Documented", bound=Callable[..., Any])

Check = Callable[[str, Any], Any]
"""Takes a name and a value, and returns the value, or raises ConfigError."""

_PARAMETERS = "Parameters\n----------\n"
_NAMED = re.compile(r"\w+: ")
"""How an error begins that names an option."""

_SECTION = re.compile(r"(?=\n\n\w+\n-{3,}\n)")


@dataclass(frozen=True, slots=True)
class Option:
    """What is said of an option, of which all that offer it make their parameters and help.

    Parameters
    ----------
    name : str
    default : object
    annotation : str
        The type, as a signature shows it.
    help : str
        One line, without a full stop.
    doc : str
        Text for a docstring; by default the line.
    takes : str
        The type, as a docstring has it; by default made of the annotation.
    check : callable or tuple of str, optional
        What returns the value as it is used, or raises ConfigError; or all words that it may be.
    kept : str
        Why a run that is resumed keeps its value: completes "the one that it has,"; empty where it
        may be another one.
    estimator : bool
        Whether a `TensorEstimator` has it, too.
    alias : str
        Another name, which other libraries have for it; none if empty.
    """

    name: str
    default: Any
    annotation: str
    help: str
    doc: str
    takes: str
    check: Check | tuple[str, ...] | None
    kept: str
    estimator: bool
    alias: str

    @property
    def words(self) -> tuple[str, ...]:
        """All words that the value may be; empty if it may be others."""
        return self.check if isinstance(self.check, tuple) else ()

    @property
    def plain(self) -> str:
        """The type of a value that is written as text: int, float, bool or str."""
        found = re.search(r"\b(int|float|bool|str)\b", self.annotation)
        return found[0] if found else "str"

    @property
    def entry(self) -> str:
        """The option among the parameters of a docstring."""
        text = cleandoc(self.doc) or fill(f"{self.help[0].upper()}{self.help[1:]}.", 92)
        if self.alias:
            text += f"\n\nAlso `{self.alias}`."
        return f"{self.name} : {self.takes or self._takes}\n{indent(text, '    ')}"

    @property
    def _takes(self) -> str:
        if self.words:
            known = "{" + ", ".join(f'"{word}"' for word in self.words) + "}"
            return known if self.default is not None else f"{known}, optional"
        *others, last = self.annotation.split(" | ")
        if last == "None" and self.default is None:
            *others, last = others
            last += ", optional"
        return f"{', '.join(others)} or {last}" if others else last

    @property
    def parameter(self) -> Parameter:
        """The option as a parameter by keyword."""
        kind = Parameter.KEYWORD_ONLY
        return Parameter(self.name, kind, default=self.default, annotation=self.annotation)

    @property
    def optional(self) -> Option:
        """The same, None by default."""
        annotation = f"{self.annotation.removesuffix(' | None')} | None"
        takes = self.takes and f"{self.takes.removesuffix(', optional')}, optional"
        return replace(self, default=None, annotation=annotation, takes=takes)

    @property
    def as_alias(self) -> Option:
        """The same by its other name."""
        return replace(self, name=self.alias, alias="", doc=f"Another name of `{self.name}`.")

    def checked(self, value: Any) -> Any:
        """Return a value as it is used.

        Raises
        ------
        ConfigError
            It is out of range.
        """
        unset = value is None and (self.default is None or self.annotation.endswith("None"))
        if unset or self.check is None:
            return value
        if isinstance(self.check, tuple):
            return one_of(self.name, value, self.check)
        return self.check(self.name, value)


def option(
    default: Value,
    text: str,
    doc: str = "",
    *,
    takes: str = "",
    check: Check | tuple[str, ...] | None = None,
    kept: str = "",
    estimator: bool = False,
    alias: str = "",
) -> Value:
    """Return the field of an option, typed as its default; see `Option` for the parameters."""
    said = {"help": text, "doc": doc, "takes": takes, "check": check}
    more = {"kept": kept, "estimator": estimator, "alias": alias}
    made: Any = field(default=default, metadata=said | more)
    return cast(Value, made)


def options_of(*kinds: type) -> dict[str, Option]:
    """Return what is said of the options of dataclasses, by name."""
    found = [f for kind in kinds for f in fields(cast(Any, kind)) if f.metadata]
    return {f.name: Option(f.name, f.default, str(f.type), **f.metadata) for f in found}


def by_own_name(
    options: Iterable[Option], given: Mapping[str, Any], texts: bool = False
) -> dict[str, Any]:
    """Return what is given, with each option by its own name and not by its alias.

    Parameters
    ----------
    options : iterable of Option
    given : mapping of str
    texts : bool
        Whether values are texts, which are still to be read.

    Raises
    ------
    ConfigError
        One is given by both, or is out of range, which names it as it was given.
    """
    found = dict(given)
    for each in options:
        if each.alias and each.alias in found:
            value = found.pop(each.alias)
            if value is not None and found.get(each.name) is not None:
                raise ConfigError(
                    f"{each.alias}: expected it or {each.name}, which are one option; got both."
                )
            if not texts:
                each.as_alias.checked(value)
            if value is not None or each.name not in found:
                found[each.name] = value
    return found


def also_named(*options: Option) -> Callable[[Function], Function]:
    """Let a function take options by their aliases, too.

    Parameters
    ----------
    *options : Option
    """

    def decorate(function: Function) -> Function:
        @wraps(function)
        def taking(*args: Any, **given: Any) -> Any:
            return function(*args, **by_own_name(options, given))

        made: Any = taking
        shown = signature(function)
        others = [each.parameter for each in other_names(options)]
        made.__signature__ = shown.replace(parameters=[*shown.parameters.values(), *others])
        return cast(Function, made)

    return decorate


def as_given(check: Callable[[Any], Any]) -> Check:
    """Return a check of a function that takes only the value, whose errors name the option."""

    def checked(name: str, value: Any) -> Any:
        try:
            return check(value)
        except TosError as error:
            text = str(error)
            if not _NAMED.match(text):
                error.args = (f"{name}: {text}", *error.args[1:])
            raise

    return checked


def in_range(kind: type, options: Any) -> Mapping[str, Any]:
    """Return the options of a kind as they are used, each by its own check.

    Raises
    ------
    ConfigError
        One is out of range.
    """
    return {n: each.checked(getattr(options, n)) for n, each in options_of(kind).items()}


def other_names(options: Iterable[Option]) -> list[Option]:
    """Return options by their other names, None by default."""
    return [each.as_alias.optional for each in options if each.alias]


def documents(options: Collection[Option]) -> Callable[[Documented], Documented]:
    """Add options behind the other parameters in the docstring of a class or function.

    One that is there already stays where it is.
    """

    def decorate(documented: Documented) -> Documented:
        head, mark, rest = cleandoc(documented.__doc__ or "").partition(_PARAMETERS)
        if not mark:
            # It says whose parameters it takes.
            return documented
        own, *more = _SECTION.split(rest, maxsplit=1)
        others = [each for each in options if not re.search(rf"^{each.name} : ", own, re.M)]
        entries = "\n".join([own, *(each.entry for each in others)])
        documented.__doc__ = "".join([head, mark, entries, *more])
        return documented

    return decorate


def offers(
    options: Collection[Option], aliases: bool = False
) -> Callable[[Documented], Documented]:
    """Let a function that takes ``**`` name options in its signature; it checks names itself.

    Parameters
    ----------
    options : collection of Option
    aliases : bool
        Whether their other names stand there, too.
    """
    others = [each.as_alias for each in options if aliases and each.alias]

    def decorate(function: Documented) -> Documented:
        shown = signature(function)
        own = [p for p in shown.parameters.values() if p.kind is not Parameter.VAR_KEYWORD]
        parameters = [*own, *(each.parameter for each in (*options, *others))]
        cast(Any, function).__signature__ = shown.replace(parameters=parameters)
        return documents([*options, *others])(function) if function.__doc__ else function

    return decorate


def takes(
    kind: Callable[Given, Arguments],
    elsewhere: Callable[[str], str] = lambda name: "",
    unset: Collection[str] = (),
) -> Callable[[Callable[[Owner, Arguments], Result]], Callable[Concatenate[Owner, Given], Result]]:
    """Let a method take the fields of a dataclass as parameters, and get one object of them.

    Parameters
    ----------
    kind : type
        The dataclass. Its constructor refuses what the method does not take, in its name.
    elsewhere : callable
        As for `refuse_unknown`.
    unset : collection of str
        Options that are None where they are not given: what they stand for is known elsewhere.
    """
    make: Any = kind
    options = [each.optional if n in unset else each for n, each in options_of(make).items()]
    left_out = dict.fromkeys(unset)

    def decorate(
        method: Callable[[Owner, Arguments], Result],
    ) -> Callable[Concatenate[Owner, Given], Result]:
        called = method.__qualname__.removesuffix(".__init__")
        known = [name for name in signature(make).parameters if name != "_"]

        @wraps(method)
        def taking(self: Owner, /, *args: Given.args, **given: Given.kwargs) -> Result:
            named = by_own_name(options, given)
            refuse_unknown(called, named, known, elsewhere)
            return method(self, make(*args, **left_out | named))

        make.__init__.__qualname__ = method.__qualname__
        result = method.__annotations__["return"]
        made: Any = taking
        shown = signature(make.__init__)
        others = {each.name: each.parameter for each in options if each.name in unset}
        parameters = [others.get(n, each) for n, each in shown.parameters.items()]
        aliases = other_names(options)
        parameters += [each.parameter for each in aliases]
        made.__signature__ = shown.replace(parameters=parameters, return_annotation=result)
        hints = {n: hint for n, hint in get_type_hints(make).items() if n != "_"}
        hints |= {n: hints[n] | None for n in unset}
        hints |= {each.alias: hints[each.name] | None for each in options if each.alias}
        made.__annotations__ = hints | {"return": result}
        return documents([*options, *aliases])(taking) if method.__doc__ else taking

    return decorate
