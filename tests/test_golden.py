"""Rankings and scores are what they were, to the last bit; see `golden`."""

import golden
import golden_kept
import golden_table
import pytest

GOLDEN = golden.read(golden.GOLDEN)
NAMES = [
    *golden_table.SELECTIONS,
    *golden_table.CALLS,
    *golden_table.COMMANDS,
    *(f"workers: {name}" for name in golden_table.ON_WORKERS),
    *(f"resumed: {name}" for name in golden_kept.STOPPED),
    f"resumed by command: {golden_kept.COMMAND}",
    *(f"read: {name}" for name in golden_kept.RESULTS),
]


#: All runs are done before the first test.
pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return golden.found_here(tmp_path_factory.mktemp("golden") / "found.json.xz")


@pytest.mark.parametrize("name", NAMES)
def test_it_is_what_it_was(found, name):
    exactly = found["arithmetic"] == GOLDEN["arithmetic"] or name.startswith("read")
    meant = GOLDEN["runs"][golden_kept.meant(name)]

    difference = golden.told(found["runs"][name], meant, exactly=exactly)

    assert difference is None, f"{name}: {difference}"


def test_bits_are_compared(found):
    """Where they are not, ranks and what does not depend on rounding are."""
    if found["arithmetic"] != GOLDEN["arithmetic"]:
        pytest.skip(f"bits are of {GOLDEN['arithmetic']}, and here is {found['arithmetic']}")


def test_nothing_golden_is_left_out(found):
    assert set(found["runs"]) == set(NAMES)
    assert set(GOLDEN["runs"]) == {golden_kept.meant(name) for name in NAMES}


def test_a_difference_is_told():
    runs = GOLDEN["runs"]
    backward, other = runs["backward, gaussian"], runs["backward, auto"]

    assert golden.told(other, backward, exactly=True) is None
    assert golden.told({"rank": other["rank"]}, backward, exactly=True).endswith("not there")
    changed = other | {"rank": other["rank"] | {"values": [0, *other["rank"]["values"][1:]]}}
    assert golden.told(changed, backward, exactly=False).startswith("rank: 1 of 110 values differ")
    score = other["score"]["values"]
    bits = score[:15] + ("0" if score[15] != "0" else "1") + score[16:]
    near = other | {"score": other["score"] | {"values": bits}}
    assert golden.told(near, backward, exactly=False) is None
    assert "first at 0: " in golden.told(near, backward, exactly=True)
