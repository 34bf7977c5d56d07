"""Each known defect can be put back into the code as it is today; `make mutants` shows that the tests catch each."""

import pytest

from jobcommon.testutil.mutants import known_defects

KNOWN = known_defects()


@pytest.mark.parametrize("name", KNOWN)
def test_a_defect_is_a_change_of_the_code_as_it_is(name: str) -> None:
    defect = KNOWN[name]
    functions = [patch.function for patch in defect.patches]
    sound = [function.__code__ for function in functions]
    with defect.planted():
        assert [function.__code__ for function in functions] != sound
    assert [function.__code__ for function in functions] == sound
