"""No public door is shut: names, parameters, defaults and options are there as they were."""

import json

import pytest
from doors import DOORS, doors

WERE, ARE = json.loads(DOORS.read_text()), json.loads(json.dumps(doors()))


def shut(were, are, at=""):
    """What was there and is not, or is something else."""
    if not isinstance(were, dict):
        gone = set(were) - set(are) if isinstance(were, list) else {were} - {are}
        return [f"{at} was {were!r} and is {are!r}"] if gone else []
    still = [name for name, was in were.items() if name in are and str(was).startswith("pos")]
    found = [] if still == [k for k in are if k in still] else [f"{at}has another order: {still}"]
    for name, was in were.items():
        if name not in are:
            found.append(f"{at}{name} is gone")
        else:
            found += shut(was, are[name], f"{at}{name} ")
    return found


@pytest.mark.parametrize("module", WERE)
def test_no_door_is_shut(module):
    assert shut(WERE[module], ARE[module]) == []


def test_new_parameters_have_defaults():
    """One that callers of before do not pass must do without them."""
    demanded = [
        f"{module}.{name} {member} {parameter}"
        for module, names in WERE.items()
        if module != "commands"
        for name, members in names.items()
        for member, were in members.items()
        if isinstance(were, dict)
        for parameter, said in ARE[module][name].get(member, {}).items()
        if parameter not in were and "=" not in said and not said.startswith("var_")
    ]
    assert demanded == []


def test_what_is_shut_is_told():
    were = {"f": {"call": {"x": "keyword_only = 1", "y": "keyword_only"}}, "g": {}}
    are = {"f": {"call": {"x": "keyword_only = 2", "z": "keyword_only"}}}
    assert shut(were, are) == [
        "f call x  was 'keyword_only = 1' and is 'keyword_only = 2'",
        "f call y is gone",
        "g is gone",
    ]
    x, y = {"x": "positional_only"}, {"y": "positional_only"}
    assert shut(x | y, y | x) == ["has another order: ['x', 'y']"]
