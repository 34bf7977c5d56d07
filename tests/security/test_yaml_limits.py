"""S13: files that are small to write and huge to read are refused by every command that reads files."""

from pathlib import Path

import pytest

from jobcommon.cli.convert_command import convert_file
from jobcommon.cli.errors import UserError
from jobcommon.cli.manifests import load
from jobcommon.cli.yaml_document import MAX_BYTES, MAX_DEPTH, MAX_VALUES, DocumentError, documents
from tests.cli.commands import answered

CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
NINES = "\n".join(f"{new}: &{new} [{','.join(['*' + old] * 9)}]" for old, new in zip("abcdefgh", "bcdefghi", strict=True))
MERGES = "\n".join(f"a{level + 1}: &a{level + 1} {{<<: [*a{level}, *a{level}]}}" for level in range(16))
BOMBS = {
    "size": ("data: {a: " + "y" * MAX_BYTES + "}", f"has more than {MAX_BYTES} bytes"),
    "size of letters": ("data: {a: " + "é" * (MAX_BYTES // 2) + "}", f"has more than {MAX_BYTES} bytes"),
    "depth": ("data: " + "[" * MAX_DEPTH + "]" * MAX_DEPTH, f"is nested more than {MAX_DEPTH} levels deep"),
    "depth without an end": ("data: " + "[" * 100_000, f"is nested more than {MAX_DEPTH} levels deep"),
    "aliases of aliases": ("a: &a [1,2,3,4,5,6,7,8,9]\n" + NINES, f"has more than {MAX_VALUES} values"),
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
    assert done.stderr == f"error: <stdin>: has more than {MAX_BYTES} bytes; split it into several files\n"


def test_s13_a_file_without_an_end_is_not_read_to_its_end() -> None:
    with pytest.raises(UserError, match="has more than"):
        load(["/dev/zero"])


def test_s13_each_document_has_a_budget_of_its_own() -> None:
    many = f"a: &a [{'1,' * (MAX_VALUES // 3)}]\nb: *a\n"
    found = [(node.start_mark.line + 1, len(body)) for node, body in documents(f"{many}---\n{many}")]  # type: ignore[arg-type]
    assert found == [(1, 2), (4, 2)]
    with pytest.raises(DocumentError, match=f"more than {MAX_VALUES} values"):
        list(documents(f"{many}c: *a\n"))
