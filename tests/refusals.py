"""How a refusal is tested: the class, the words, one sentence or two, and nothing left behind."""

import ast
import re

import pytest

import dhsic


def assert_refused(call, error, words, folder):
    """`call` raises `error`, which names all `words`, and leaves `folder` as it was."""
    before = files_in(folder)
    with pytest.raises(dhsic.DhsicError) as caught:
        call()
    message = str(caught.value)
    assert caught.type is error
    assert [word for word in words if word not in message] == []
    assert message.endswith(".")
    assert "\n" not in message
    assert "np." not in message.replace("np.where", "").replace("np.timedelta64", "").replace(
        "np.nan", ""
    )
    assert files_in(folder) == before


def files_in(folder):
    """Files below a folder and what they hold; folders too."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
        if path.name != "lock"  # of a checkpoint that is there already: it says who wrote last
    }


def remedy_of(message, parameter):
    """Parameter and value that a sentence says to pass: the last ``name=value`` of that name."""
    written = re.findall(rf"\b{parameter}=('[^']*'|\[[^\]]*\]|-?\w[\w.+-]*\w|\w)", message)
    assert written, message
    return parameter, ast.literal_eval(written[-1])
