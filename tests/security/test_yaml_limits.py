"""S13: files that are small to write and huge to read are refused by every command that reads files."""

from pathlib import Path

import pytest

from jobcommon.cli.convert_command import convert_file
from jobcommon.cli.errors import UserError
from jobcommon.cli.manifests import load
from jobcommon.cli.yaml_document import LIMITS, DocumentError, Limits, documents
from tests.cli.commands import answered

CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
NINES = "\n".join(f"{new}: &{new} [{','.join(['*' + old] * 9)}]" for old, new in zip("abcdefgh", "bcdefghi", strict=True))
MERGES = "\n".join(f"a{level + 1}: &a{level + 1} {{<<: [*a{level}, *a{level}]}}" for level in range(16))
BOMBS = {
    "size": ("data: {a: " + "y" * LIMITS.size + "}", f"has more than {LIMITS.size} bytes"),
    "size of letters": ("data: {a: " + "é" * (LIMITS.size // 2) + "}", f"has more than {LIMITS.size} bytes"),
    "depth": ("data: " + "[" * LIMITS.depth + "]" * LIMITS.depth, f"is nested more than {LIMITS.depth} levels deep"),
    "depth without an end": ("data: " + "[" * 100_000, f"is nested more than {LIMITS.depth} levels deep"),
    "aliases": ("x: &x 1\ndata: [" + "*x," * (LIMITS.aliases + 1) + "]", f"has more than {LIMITS.aliases} aliases"),
    "aliases of aliases": ("a: &a [1,2,3,4,5,6,7,8,9]\n" + NINES, f"has more than {LIMITS.values} values"),
    "merge keys": ("a0: &a0 {x: 1}\n" + MERGES, "values"),
    "cycle": ("data: &a [*a]", "contains itself through an alias"),
    "python": ("data: !!python/object/apply:os.system [true]", "not valid YAML"),
    "bytes": ("data: !!binary aGVsbG8=", "binary is not supported"),
    "infinity": ("data: {a: .inf}", "data.a: is not a number that JSON and Kubernetes can represent"),
    "a huge number": ("data: 0x" + "f" * 5000, "data: is not a number"),
    "a key that is no text": ("data: {1: a}", "data: the key 1 must be text: put it in quotes"),
    "a list as a key": ("? [a]\n: 1", "not valid YAML"),
    "a surrogate": ('data: "\\ud800"', "data: is not valid text"),
    "a surrogate in a key": ('data: {"\\udc00": 1}', "data: is not valid text"),
    "a control character": ("data: \x00", "not valid YAML"),
}


@pytest.mark.no_cover
@pytest.mark.parametrize(("text", "message"), BOMBS.values(), ids=BOMBS)
def test_s13_a_bomb_is_refused_wherever_files_are_read(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(CONFIG_MAP + text, encoding="utf-8", errors="surrogatepass")
    for read in (
        lambda: load([str(file)]),
        lambda: load([str(tmp_path)]),
        lambda: convert_file(str(file), name=None, image=None),
    ):
        with pytest.raises(UserError) as caught:
            read()
        assert message in str(caught.value)
        assert str(caught.value).startswith(str(file))


def test_s13_standard_input_without_an_end_is_not_read_to_its_end() -> None:
    done = answered("plan", "-f", "-", stdin="# a comment\n" * 1_000_000)
    assert done.returncode == 2
    assert done.stderr == f"error: <stdin>: has more than {LIMITS.size} bytes; split it into several files\n"


def test_s13_a_file_without_an_end_is_not_read_to_its_end() -> None:
    with pytest.raises(UserError, match="has more than"):
        load(["/dev/zero"])


def test_s13_each_document_has_a_budget_of_its_own() -> None:
    limits = Limits(values=5, aliases=1)
    text = "a: &a 1\nb: *a\n"
    found = [(node.start_mark.line + 1, body) for node, body in documents(f"{text}---\n{text}", limits)]
    assert found == [(1, {"a": 1, "b": 1}), (4, {"a": 1, "b": 1})]
    with pytest.raises(DocumentError, match="more than 5 values"):
        list(documents("[1, 2, 3, 4, 5]", limits))
