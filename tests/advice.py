"""Advice that messages give, followed: taken from the text, passed on, and the call goes on."""

import ast
import re
import shlex
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple

from commands import run

from dhsic.cli import main
from dhsic.errors import DhsicError

#: Modules that expressions in messages use.
MODULES = {name: import_module(name) for name in ("numpy", "pandas", "xarray", "dhsic")}


class Advice(NamedTuple):
    """A call that leads to a message, and the advice in the message.

    Parameters
    ----------
    call : callable
        Function that is called with `arguments`, by name.
    arguments : dict
        Arguments with which the message appears. `data` and `target` are X and y in messages.
    pattern : str
        Regular expression of the advice. Its groups say what to change: ``leave`` is an argument
        to leave out, ``name`` one to pass, ``value`` its value as Python writes it, ``text`` its
        value as text, and ``code`` an expression of Python for it.
    name : str
        Argument to change if the message does not name it.
    value : Any
        Value to pass if the message leaves the choice to the user.
    instead_of : str
        Argument that the advice replaces.
    completed : callable
        What the message leaves to the user besides: a function of the changed arguments.
    """

    call: Callable[..., Any]
    arguments: Mapping[str, Any]
    pattern: str
    name: str = ""
    value: Any = None
    instead_of: str = ""
    completed: Callable[[dict[str, Any]], dict[str, Any]] = dict

    def changed(self, groups):
        """Arguments of the call after the advice is followed."""
        arguments = dict(self.arguments)
        if leave := groups.get("leave") or self.instead_of:
            del arguments[leave]  # a KeyError: the message names an argument that was not passed
        name = groups.get("name") or self.name
        if code := groups.get("code"):
            known = {"X": arguments.get("data"), "y": arguments.get("target")} | arguments
            arguments[name] = eval(code, MODULES | known)
        elif "value" in groups:
            arguments[name] = ast.literal_eval(groups["value"])
        elif "text" in groups:
            arguments[name] = groups["text"]
        elif name:
            arguments[name] = self.value
        return self.completed(arguments)


def message_of(call, **arguments):
    """Messages of a call, which are an error or all warnings; and whether it ended well."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            call(**arguments)
        except DhsicError as error:
            return str(error), False
    return " ".join(str(warning.message) for warning in caught), True


def follow(advice):
    """Do what the message says: the call then ends well, and the message does not come again."""
    message, _ = message_of(advice.call, **advice.arguments)
    found = re.search(advice.pattern, message)
    assert found, message
    again, ended_well = message_of(advice.call, **advice.changed(found.groupdict()))
    assert ended_well, again
    assert not re.search(advice.pattern, again), again


class CommandAdvice(NamedTuple):
    """A command that leads to a message, and the advice in the message.

    Parameters
    ----------
    words : tuple
        Words of the command after ``dhsic``.
    pattern : str
        Regular expression of the advice. Its groups say what to change: ``leave`` are options to
        leave out, ``options`` options to pass, with their values if the message names these.
    values : dict, text or tuple
        Values of the words in ``options`` that stand for one, such as FILE; or what follows an
        option that the message names without a value.
    instead_of : str
        Option that the advice replaces.
    code : int
        Exit code of the command with the message; 0 if it is a warning.
    """

    words: tuple[Any, ...]
    pattern: str
    values: Any = ()
    instead_of: str = ""
    code: int = 2

    def changed(self, groups):
        """Words of the command after the advice is followed."""
        leave = {*re.split(", | and ", groups.get("leave") or ""), self.instead_of}
        words = without_options(self.words, leave)
        options = shlex.split(groups.get("options") or "")
        if isinstance(self.values, dict):
            options = [self.values.get(word, word) for word in options]
        else:
            options += [self.values] if isinstance(self.values, str) else self.values
        return [*words, *options]


def without_options(words, left_out):
    """Words of a command without some options and their values."""
    alone = {
        option
        for parameter in main.commands[words[0]].params
        for option in (*parameter.opts, *parameter.secondary_opts)
        if getattr(parameter, "is_flag", False)
    }
    rest, remaining = [], iter(words)
    for word in remaining:
        if word not in left_out:
            rest.append(word)
        elif word.startswith("-") and word not in alone:
            next(remaining)
    return rest


def follow_command(advice):
    """Do what the message says: the command then ends well, and does not say it again."""
    message = " ".join(run(*advice.words, code=advice.code).stderr.split())
    found = re.search(advice.pattern, message)
    assert found, message
    again = " ".join(run(*advice.changed(found.groupdict())).stderr.split())
    assert not re.search(advice.pattern, again), again
