"""Quantities: what apimachinery's resource.Quantity reads, exactly, and in how it writes it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobcommon.api.resources import Quantity, parse_quantity

LIMIT = "9223372036854775807"


@pytest.mark.parametrize(
    ("value", "canonical"),
    [
        ("0", "0"), ("-0", "0"), ("0Gi", "0"), (1, "1"), (1000, "1k"), (1.5, "1500m"), ("1.5", "1500m"), ("100m", "100m"),
        ("1000m", "1"), ("0.1", "100m"), (".5", "500m"), ("5.", "5"), ("+2", "2"), ("-1500m", "-1500m"), ("1e3", "1k"),
        ("1E3", "1k"), ("1E", "1E"), ("2e-3", "2m"), ("64Gi", "64Gi"), ("1024Ki", "1Mi"), ("1024", "1024"), ("1.5Gi", "1536Mi"),
        ("0.5Gi", "512Mi"), ("1023", "1023"), ("0.5Ki", "512"), ("1u", "1u"), ("1n", "1n"), ("0.1n", "1n"), ("-0.1n", "-1n"),
    ],
)  # fmt: skip
def test_canonical_form(value: object, canonical: str) -> None:
    assert str(parse_quantity(value)) == canonical


@pytest.mark.parametrize(
    ("value", "canonical"),
    [
        ("1e999999999", LIMIT), ("-1e999999999", f"-{LIMIT}"), ("1e-999999999", "1n"), ("9" * 200, LIMIT), ("16Ei", LIMIT),
        ("0e999999999", "0"), (1e300, LIMIT), ("0." + "0" * 200 + "1", "1n"), ("1e" + "9" * 200, LIMIT),
    ],
)  # fmt: skip
def test_extreme_quantities_are_clamped_without_computing_them(value: object, canonical: str) -> None:
    assert str(parse_quantity(value)) == canonical


@pytest.mark.parametrize(
    "value",
    ["", " ", "abc", "1x", "1 Gi", "--1", ".", "+", "1ki", "1K", "1e", "1e+", "1Gi2", "0x10", "nan", "1_000", "١", "9" * 300,
     None, True, [], {}, float("nan"), float("inf")],
)  # fmt: skip
def test_an_invalid_quantity_is_refused_with_advice(value: object) -> None:
    with pytest.raises(ValueError, match="is not a quantity; write a number"):
        parse_quantity(value)


def test_sums_are_exact_and_bounded() -> None:
    tenth = parse_quantity("0.1")
    assert sum([tenth] * 10, Quantity()) == parse_quantity(1)
    assert str(parse_quantity("1Gi") * 65) == "65Gi"
    assert str(parse_quantity("20Gi") + parse_quantity("10Gi")) == "30Gi"
    assert str(Quantity() + parse_quantity("1Gi")) == "1Gi", "nothing has no form of its own"
    assert str(parse_quantity("8Ei") * 10_000) == LIMIT


@given(st.integers(-(2**63 - 1) * 10**9, (2**63 - 1) * 10**9), st.booleans())
def test_a_written_quantity_reads_as_the_same_amount(nanos: int, binary: bool) -> None:
    assert parse_quantity(str(Quantity(nanos, binary))).nanos == nanos
