"""Plain YAML scalars: what kubectl 1.36 makes of them (`kubectl annotate --local -o json`), and what is printed for it."""

import json
import shutil
import subprocess

import pytest
import yaml

from jobcommon.cli.yaml_document import DocumentError, documents
from jobcommon.cli.yaml_scalars import as_yaml
from jobcommon.testutil.effort import effort

TEXT = [
    "1:30:00", "-1:30", "1:2.5", "0o8", "0b12", "_1", "0xg", "oN", "yEs", "tRUE", "nULL", "2001-01-01",
    "2001-01-01T00:00:00Z", "1e", "1e+", "e3", ".", "..", "+", "=", "1.2.3", "0b", "0x", "0o", "1e400", ".iNF", "+.nan",
    "inf", "nan", "-inf", "1,000", "._1", "_", "0x1p4", "1p4", ".5_", ".e3", "--1", "+-1", "1-", "<<",
]  # fmt: skip
VALUES: dict[str, object] = {
    "0o17": 15, "017": 15, "08": 8, "-017": -15, "0b101": 5, "-0b11": -3, "+0b11": 3, "0B11": 3, "1_000": 1000, "1_": 1,
    "1__0": 10, "0x1F": 31, "-0x1f": -31, "+0x1f": 31, "0x_1f": 31, "0_8": 8, "0_7": 7, "on": True, "ON": True, "y": True,
    "Y": True, "yes": True, "off": False, "Off": False, "n": False, "N": False, "no": False, "NO": False, "true": True,
    "False": False, "~": None, "Null": None, ".5": 0.5, "+.5": 0.5, "-.5": -0.5, "5.": 5, "5.e3": 5000, "1e3": 1000,
    "1E3": 1000, "1e-3": 0.001, "1.e3": 1000, "1_0.5": 10.5, "1_0e3": 10000, ".5e3": 500, "1.2": 1.2, "-1.2": -1.2,
    "1.0": 1, "1.10": 1.1, "00": 0, "-0": 0, "+0": 0, "00.5": 0.5, "089": 89, "0.1_0": 0.1, "1._5": 1.5, "0_": 0, "0b_1": 1,
    "0o_7": 7, "-_1": -1, "12e03": 12000, "9223372036854775807": 9223372036854775807, "1_0_0": 100,
}  # fmt: skip
ALL = {**VALUES, **{word: word for word in TEXT}}


def read(text: str) -> object:
    ((_, body),) = documents(text)
    return body


@pytest.mark.parametrize("word", ALL)
def test_a_plain_scalar_is_what_kubectl_takes_it_for(word: str) -> None:
    body = read(f"v: {word}\nlist: [{word}]" if "," not in word else f"v: {word}\nlist: ['1,000']")
    assert body == {"v": ALL[word], "list": [ALL[word]]}
    assert isinstance(body, dict)
    assert type(body["v"]) is type(ALL[word])


@pytest.mark.parametrize("word", ALL)
def test_a_word_in_quotes_is_text_and_is_printed_as_such(word: str) -> None:
    printed = as_yaml({"v": word})
    assert read(printed) == {"v": word}
    assert yaml.safe_load(printed) == {"v": word}, "for readers with the rules of PyYAML, too"


@pytest.mark.parametrize("number", [5, -5, 0.5, 1e3, 1e30, 10**30, True, None])
def test_a_number_is_printed_without_a_tag(number: object) -> None:
    assert "!" not in as_yaml({"v": number})


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="not installed: kubectl (make setup)")
def test_kubectl_agrees() -> None:
    fields = "".join(f"  - {word}\n" for word in ALL)
    manifest = f"apiVersion: example.com/v1\nkind: Foo\nmetadata: {{name: a}}\nv:\n{fields}"
    command = ["kubectl", "annotate", "--local", "-f", "-", "a=b", "-o", "json"]
    done = subprocess.run(command, input=manifest, capture_output=True, text=True, check=True, timeout=180)
    assert json.loads(done.stdout)["v"] == list(ALL.values())


@pytest.mark.parametrize("tagged", ["!!int 1:30", "!!bool 1", "!!null x", "!!float on"])
def test_a_tag_does_not_change_what_a_scalar_is(tagged: str) -> None:
    with pytest.raises(DocumentError, match=r"not valid YAML: .* is not of the type "):
        read(f"v: {tagged}")


def test_a_tag_of_a_float_makes_a_number_of_an_integer() -> None:
    assert read("v: !!float 3") == {"v": 3}


@pytest.mark.no_cover
@pytest.mark.parametrize("long", ["1" + ":59" * 330_000, "1_" * 490_000, "1." + "5" * 990_000, "!!int 1" + ":59" * 330_000])
def test_a_long_scalar_is_read_in_linear_time(long: str) -> None:

    def refuse_or_read() -> None:
        try:
            read(f"a: {long}")
        except DocumentError:
            return

    assert effort(refuse_or_read, 5000, tries=2) < 5000
