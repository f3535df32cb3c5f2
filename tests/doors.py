"""What users may call: public names with their parameters, and commands with their options.

``python tests/doors.py`` writes tests/data/doors.json anew.
"""

import inspect
import json
from pathlib import Path

import click

import dhsic
from dhsic.cli import main

#: Classes that users are given and do not make.
GIVEN = ("FeatureTests", "Plan", "Run", "TestResult")
#: What runs ask of estimators.
INNER = (
    *(
        "labels",
        "rank",
        "takes_groups",
        "takes_self",
        "set_fit_request",
        "check_samples",
        "memory_estimate",
    ),
    *("smaller", "engines", "algorithm", "rounds", "centring", "check", "described", "identity"),
    *("scales", "resolved", "machine_kernel"),
)
DOORS = Path(__file__).parent / "data" / "doors.json"


def doors():
    """All of them, as plain data."""
    return {
        "dhsic": _names(dhsic, dhsic.__all__),
        "dhsic.kernels": {
            name: {"call": each["call"]}
            for name, each in _names(dhsic.kernels, dhsic.kernels.__all__).items()
        },
        "dhsic.datasets": _names(dhsic.datasets, _functions(dhsic.datasets)),
        "commands": {
            "dhsic": _options(main),
            **{name: _options(command) for name, command in main.commands.items()},
        },
    }


def _functions(module):
    return [k for k, v in vars(module).items() if inspect.isfunction(v) and k[0] != "_"]


def _names(module, names):
    return {name: _door(getattr(module, name)) for name in names}


def _door(thing):
    """Parameters of what is called, and what a class has; of others no more than that it is."""
    if inspect.isclass(thing):
        bases = [each.__name__ for each in thing.__mro__[1:-1]]
        return {"bases": bases} if issubclass(thing, Exception) else _members(thing)
    return {"call": _parameters(thing)} if callable(thing) else {}


def _members(kind):
    """How a class is made, and its public members that are ours, by name.

    Fields stand among the parameters; of a class that users are given, among the members.
    """
    ours = [each for each in kind.__mro__ if each.__module__.startswith("dhsic")]
    names = {name for each in ours for name in vars(each)} - {*INNER}
    fields = {*getattr(kind, "__dataclass_fields__", ())}
    given = kind.__name__ in GIVEN
    made = {} if given else {"call": _parameters(kind)}
    public = sorted(n for n in (names | fields if given else names - fields) if n[0] != "_")
    found = {name: inspect.getattr_static(kind, name, None) for name in public}
    return made | {
        name: _parameters(each) if inspect.isfunction(each) else {} for name, each in found.items()
    }


def _parameters(thing):
    """Kind and default of every parameter, by name; sorted where their order says nothing."""
    named = [each for name, each in inspect.signature(thing).parameters.items() if name != "self"]
    named.sort(key=lambda each: (each.kind, each.name if each.kind is each.KEYWORD_ONLY else ""))
    return {
        each.name: each.kind.name.lower() + ("" if each.default is each.empty else _said(each))
        for each in named
    }


def _said(parameter):
    default = parameter.default
    plain = default is None or isinstance(default, (bool, int, float, str, tuple))
    return f" = {default!r}" if plain else " = ..."


def _options(command):
    """Of every option and argument, by all its spellings: default, choices, and how it is given."""
    found = {}
    for each in sorted(command.params, key=lambda each: each.opts):
        spelled = " ".join([*each.opts, *each.secondary_opts])
        choices = each.type.choices if isinstance(each.type, click.Choice) else ()
        plain = each.default is None or isinstance(each.default, (bool, int, float, str))
        about = {
            "default": each.default if plain and each.default is not False else None,
            "choices": sorted(str(choice) for choice in choices),
            "required": each.required,
            "multiple": getattr(each, "multiple", False),
            "flag": getattr(each, "is_flag", False),
        }
        said = ("default", "required")
        found[spelled] = {k: v for k, v in about.items() if v or k in said}
    return found


if __name__ == "__main__":
    DOORS.write_text(json.dumps(doors(), indent=1) + "\n")
