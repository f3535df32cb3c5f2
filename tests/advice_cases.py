"""Advice in sentences of the package: how tests provoke it, read it and follow it."""

import ast
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import dhsic

M, D = 24, 6
RNG = np.random.default_rng(0)
X = RNG.standard_normal((M, D))
CLASSES = np.arange(M) % 2
NUMBERS = RNG.standard_normal(M)
NAMES = [f"s{i}" for i in range(M)]
FRAME = pd.DataFrame(X, index=NAMES, columns=[*"abcdef"])

#: A value of Python in a sentence: text in quotes, a list, a number or a name.
LITERAL = r"'[^']*'|\[[^\]]*\]|-?\w[\w.+-]*\w|\w"
#: Further values of the same parameter: ``, 'b' or 'c'``.
FURTHER = r"(?:(?:, or |, | or )'[^']*')*"
#: Factors of prefixes of bytes.
UNITS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}
#: Words that a sentence uses for the parameter that it has just named.
PRONOUNS = "it|them|that|one of them|one of the two"

Parameters = Mapping[str, Any]
#: Parameters of the next calls, from a sentence and the parameters that provoked it.
Way = Callable[[str, Parameters], list[dict[str, Any]]]


@dataclass(frozen=True)
class Case:
    """A call that provokes a sentence, and the ways in which its advice is followed.

    Attributes
    ----------
    place : str
        Module and function that raise the error or warn, as in ``hsic.py:check_statistic``.
    call : callable
        Function that is called with keyword parameters.
    parameters : mapping
        Parameters that provoke the sentence.
    ways : tuple of Way
        Each piece of advice in the sentence.
    begins : str
        Beginning of a warning; empty if the sentence is an error.
    limits : mapping
        Names of the package that are replaced, so that small data reach a limit.
    """

    place: str
    call: Callable[..., Any]
    parameters: Parameters
    ways: tuple[Way, ...]
    begins: str = ""
    limits: Mapping[str, Any] = field(default_factory=dict)


def passing(*names: str) -> Way:
    """Pass each value that the sentence names as ``parameter=value``; several names together."""

    def way(sentence: str, parameters: Parameters) -> list[dict[str, Any]]:
        choices = []
        for name in names:
            written = re.findall(rf"\b{name}=({LITERAL})({FURTHER})", sentence)
            assert written, f"{name}= is not in: {sentence}"
            first, further = written[-1]
            values = map(ast.literal_eval, [first, *re.findall(r"'[^']*'", further)])
            choices.append([(name, value) for value in values])
        return [{**parameters, **dict(chosen)} for chosen in product(*choices)]

    return way


def raising(parameter: str) -> Way:
    """Raise a limit of memory to the largest amount in the sentence, and 5% for rounding."""

    def way(sentence: str, parameters: Parameters) -> list[dict[str, Any]]:
        assert f"raise the limit ({parameter}=)" in sentence.replace("Raise", "raise"), sentence
        amounts = re.findall(r"([\d.]+) ([kMG]?)B\b", sentence)
        most = max(float(number) * UNITS[unit] for number, unit in amounts)
        return [{**parameters, parameter: int(1.05 * most)}]

    return way


def choosing(parameter: str) -> Way:
    """Pass each value in quotes that the sentence names after "pass"."""

    def way(sentence: str, parameters: Parameters) -> list[dict[str, Any]]:
        values = re.findall(r"'([^']*)'", re.split(r"\b[Pp]ass\b", sentence)[-1])
        assert values, f"no value of {parameter} is in: {sentence}"
        return [{**parameters, parameter: value} for value in values]

    return way


def leaving_out(*names: str) -> Way:
    """Leave out parameters, as the sentence says."""

    def way(sentence: str, parameters: Parameters) -> list[dict[str, Any]]:
        what = "|".join(rf"{name}=?" for name in names)
        told = rf"[Ll]eave (?:{PRONOUNS}|{what}) out|[Ll]eave out (?:{what}|{PRONOUNS})"
        assert re.search(told, sentence), f"nothing is left out in: {sentence}"
        return [
            {name: value for name, value in parameters.items() if name != left} for left in names
        ]

    return way


def instead(pattern: str, **values: Any) -> Way:
    """Pass values that the sentence describes in words, which the pattern finds."""

    def way(sentence: str, parameters: Parameters) -> list[dict[str, Any]]:
        assert re.search(pattern, sentence), f"{pattern!r} is not in: {sentence}"
        return [{**parameters, **values}]

    return way


@dataclass
class Heard:
    """Sentences of a call: its error with the place that raised it, and its warnings."""

    error: str = ""
    place: str = ""
    warned: list[str] = field(default_factory=list)


def hear(call: Callable[..., Any], parameters: Parameters) -> Heard:
    """Call a function, and return the error and the warnings of it."""
    heard = Heard()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            call(**parameters)
        except dhsic.DhsicError as error:
            heard.error, heard.place = str(error), place_of(error)
    heard.warned = [str(one.message) for one in caught]
    return heard


def place_of(error: BaseException) -> str:
    """Module and function of the package that raised an error."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    assert trace is not None
    code = trace.tb_frame.f_code
    root = Path(dhsic.__file__).parent
    name = getattr(code, "co_qualname", code.co_name).replace("<locals>.", "")
    return f"{Path(code.co_filename).relative_to(root).as_posix()}:{name}"


def follow(case: Case) -> Iterator[tuple[str, Heard]]:
    """Provoke the sentence of a case; yield it with what is heard after following each advice."""
    heard = hear(case.call, case.parameters)
    if case.begins:
        sentence = next((one for one in heard.warned if one.startswith(case.begins)), "")
        assert sentence, f"no warning begins with {case.begins!r}: {heard}"
    else:
        sentence = heard.error
        assert heard.place == case.place, f"{case.place} did not raise an error: {heard}"
    for way in case.ways:
        for parameters in way(sentence, case.parameters):
            yield sentence, hear(case.call, parameters)


def check(case: Case) -> None:
    """Assert that the call succeeds, or no longer warns, after each advice is followed."""
    for sentence, heard in follow(case):
        assert not heard.error, f"{sentence}\n  followed: {heard.error}"
        if case.begins:
            assert not [said for said in heard.warned if said.startswith(case.begins)], sentence


def select(data: Any = X, target: Any = CLASSES, **parameters: Any) -> Any:
    """Select two features."""
    quiet = {"n_features_to_select": 2, "progress": False, "interactions": None}
    return dhsic.select(data, target, **quiet | parameters)
