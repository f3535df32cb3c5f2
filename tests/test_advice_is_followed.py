"""Every place that names an option or a parameter in a sentence has a test that follows it.

Each place stands in a table of `advice_places`: in `FOLLOWED`, with the test file that does what
its sentences advise; in `VALIDATION`, if they only state allowed values or advise no parameter; or
in `UNFOLLOWED`, with the reason why no test follows them.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import test_advice_on_estimates
import test_advice_on_runs
from advice_places import FOLLOWED, UNFOLLOWED, VALIDATION

import dhsic

ROOT, TESTS = Path(dhsic.__file__).parent, Path(__file__).parent
#: An option of the command line, or a parameter as in ``name=``.
NAMED = re.compile(r"(?<![\w-])--[a-z][a-z-]+|(?<![\w./{\[-])[a-z][a-z_]+=(?![={])")
#: Functions that raise or give the sentence that they are passed.
SAYING = frozenset(("warn", "refused", "refuse"))
DEFINITIONS = (ast.FunctionDef, ast.ClassDef)


def name_of(call: ast.expr) -> str:
    """Name of the function that is called, without its module; empty if it is no name."""
    return getattr(call, "id", getattr(call, "attr", ""))


def speaks(node: ast.AST) -> bool:
    """Whether a node raises an error, creates one, or warns."""
    if isinstance(node, ast.Raise):
        return node.exc is not None
    if not isinstance(node, ast.Call):
        return False
    return name_of(node.func) in SAYING or name_of(node.func).endswith("Error")


def names_in(node: ast.AST) -> set[str]:
    """Options and parameters in the texts of a node."""
    texts = (part.value for part in ast.walk(node) if isinstance(part, ast.Constant))
    return {name for text in texts if isinstance(text, str) for name in NAMED.findall(text)}


def places_in(node: ast.AST, module: str, inside: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Places below a node with sentences that name something, and the first such name."""
    for child in ast.iter_child_nodes(node):
        is_definition = isinstance(child, DEFINITIONS)
        within = (*inside, child.name) if is_definition else inside
        if speaks(child) and inside and (names := names_in(child)):
            yield f"{module}:{'.'.join(inside)}", min(names)
        yield from places_in(child, module, within)


@cache
def places() -> dict[str, str]:
    """Functions of the package whose sentences name an option or a parameter, and one name."""
    return {
        place: name
        for path in sorted(ROOT.rglob("*.py"))
        for place, name in places_in(
            ast.parse(path.read_text()), path.relative_to(ROOT).as_posix(), ()
        )
    }


def test_every_place_that_advises_a_parameter_is_in_a_table():
    tables = {*FOLLOWED, *VALIDATION, *UNFOLLOWED}
    new = [
        f"{place} names {name} in a sentence. Write a test that does what the sentence advises, "
        "and add the place to FOLLOWED of tests/advice_places.py; if it only states allowed "
        "values, add it to VALIDATION."
        for place, name in places().items()
        if place not in tables
    ]
    assert not new, "\n".join(new)


def test_tables_list_only_places_that_exist():
    gone = [
        f"{place} names no option or parameter in a sentence; remove it from tests/advice_places.py"
        for place in (*FOLLOWED, *VALIDATION, *UNFOLLOWED)
        if place not in places()
    ]
    assert not gone, "\n".join(gone)


def test_a_place_without_a_test_is_not_said_to_have_one():
    assert not {*UNFOLLOWED} & {*FOLLOWED}
    assert not {*UNFOLLOWED} & {*VALIDATION}


def test_files_that_follow_advice_exist():
    gone = [
        f"tests/{name}, which FOLLOWED of tests/advice_places.py names, does not exist"
        for name in sorted({*FOLLOWED.values()})
        if not (TESTS / name).is_file()
    ]
    assert not gone, "\n".join(gone)


@pytest.mark.parametrize("module", [test_advice_on_estimates, test_advice_on_runs])
def test_cases_are_those_of_the_table(module):
    name = f"{module.__name__}.py"
    listed = {place for place, file in FOLLOWED.items() if file == name}
    unlisted = sorted({case.place for case in module.CASES} - {*FOLLOWED})
    assert not unlisted, f"tests/{name} follows {unlisted}; add them to FOLLOWED"
    source = (TESTS / name).read_text()
    lacking = sorted(place for place in listed if f'"{place}"' not in source)
    assert not lacking, f"no case of tests/{name} follows {lacking}"


def test_a_new_sentence_is_found():
    source = """
class Selector:
    def check(self):
        if self.step < 0:
            raise InputError(f"step={self.step} is negative; pass step=1.")
        warn("Slow. Use --threads 8.")
        refuse(self.step, "No name.")
"""
    found = [*places_in(ast.parse(source), "m.py", ())]
    assert next(place for place, _ in found) == "m.py:Selector.check"
    assert {name for _, name in found} == {"step=", "--threads"}
