"""Whatever the document: a manifest that its operator takes, or an error that says what to change."""

from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from jobcommon.cli.convert import ConvertError, convert_text
from jobcommon.cli.convert.component import is_component
from jobcommon.cli.convert.document import parse
from jobcommon.cli.convert.mpi_v1alpha1 import is_flat_mpijob
from jobcommon.cli.yaml_document import LIMITS
from jobcommon.reconcile import read_job
from tests.convert.documents import DIRECTORY, FRAMEWORKS

WORDS = st.sampled_from(
    """
    version kind run build environment framework backend tensorflow pytorch horovod mxnet mpi replicas n_workers n_ps worker ps
    default_worker worker_resources resources cpu memory gpu tpu limits requests index cmd image params inputs name value labels
    tolerations affinity component operation tfjob mpijob pytorchjob mxjob job master chief launcher container init env_vars
    max_restarts termination project tags apiVersion spec metadata template containers MPIJob kubeflow.org/v1alpha1 gpus
    declarations sidecars volumes env command scheduling_policy
    """.split()  # noqa: SIM905
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 20), st.integers(), st.floats(), st.text(max_size=8), WORDS, st.just("{{ a }}")
)
KEYS = st.one_of(WORDS, st.text(max_size=8), st.integers())
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=5)), max_leaves=25
)


def outcome(text: str) -> str:
    """What becomes of it, in a word."""
    refusal: ConvertError | None = None
    try:
        manifest = convert_text(text).manifest
    except ConvertError as error:
        refusal = error
    if refusal is not None:
        assert all(finding.message for finding in refusal.findings)
        assert str(refusal)
        return "refused"
    yaml.safe_dump(manifest)
    if manifest["kind"] in FRAMEWORKS:
        errors = read_job(FRAMEWORKS[manifest["kind"]], manifest).errors
        # The pods of the two other forms are passed on as they are: the operator says what is wrong in them.
        body = yaml.safe_load(text)
        if not is_component(body) and not is_flat_mpijob(body):
            assert errors == ()
    return "converted"


@settings(max_examples=100, derandomize=True, deadline=None)
@given(st.text(max_size=200))
def test_any_text(text: str) -> None:
    assert outcome(text) in ("refused", "converted")


@settings(max_examples=150, derandomize=True, deadline=None)
@given(st.dictionaries(WORDS, ANYTHING, max_size=6))
def test_any_document(document: dict[str, Any]) -> None:
    assert outcome(yaml.safe_dump(document)) in ("refused", "converted")


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values below `value`."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, child in entries for found in ((*path, key), *places(child, (*path, key)))]


GOOD = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(DIRECTORY.glob("*.polyaxon.yml"))]


@settings(max_examples=200, derandomize=True, deadline=None)
@given(st.sampled_from(range(len(GOOD))), st.data())
def test_a_good_document_with_one_value_changed(number: int, data: st.DataObject) -> None:
    document = yaml.safe_load(yaml.safe_dump(GOOD[number]))
    *way, last = data.draw(st.sampled_from(places(document)))
    node = document
    for key in way:
        node = node[key]
    node[last] = data.draw(ANYTHING)
    assert outcome(yaml.safe_dump(document)) in ("refused", "converted")


def nested(depth: int) -> str:
    return "run: " + "[" * depth + "]" * depth


BOMB = "a: &a [1,2,3,4,5,6,7,8,9]\n" + "".join(
    f"{new}: &{new} [{','.join(['*' + old] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)
MERGED = "a: &a {x: 1}\n" + "".join(
    f"{new}: &{new} {{<<: [*{old}, *{old}]}}\n"
    for old, new in zip("abcdefghijklmnopqrstu", "bcdefghijklmnopqrstuv", strict=True)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("x: " + "y" * LIMITS.size, "bytes", id="size"),
        pytest.param(nested(LIMITS.depth), f"more than {LIMITS.depth} deep", id="depth"),
        pytest.param(nested(100_000), f"more than {LIMITS.depth} deep", id="very deep"),
        pytest.param("a: &a 1\nb: [" + "*a," * (LIMITS.aliases + 1) + "]", f"more than {LIMITS.aliases} aliases", id="aliases"),
        pytest.param(BOMB, "values", id="bomb of aliases"),
        pytest.param(MERGED, "values", id="bomb of merge keys"),
        pytest.param("run: &a [*a]", "contains itself", id="cycle"),
        pytest.param("a: 1\na: 2", 'line 2, column 1: not valid YAML: field "a" is given twice', id="twice"),
        pytest.param("run: !!python/object/apply:os.system [true]", "not valid YAML", id="no objects"),
        pytest.param("run: !!binary aGVsbG8=", "a bytes is not supported", id="bytes"),
        pytest.param("run: !!set {a}", "a set is not supported", id="set"),
        pytest.param("run: 0x" + "f" * 5000, "not a number", id="number too large for text"),
        pytest.param("run: .inf", "not a number", id="infinity"),
        pytest.param("run: {1: 2}", "run: the key 1 must be text", id="key"),
        pytest.param("? [a]\n: 1", "not valid YAML", id="list as a key"),
        pytest.param("a: 1\n---\nb: 2", "line 3, column 1: a second document begins here", id="two documents"),
        pytest.param("- 1", "a polyaxonfile is a mapping of names to values, not a list", id="list"),
        pytest.param("", "not nothing", id="empty"),
        pytest.param("a: [", "line 1, column 5: not valid YAML", id="broken"),
        pytest.param("a: 1", "is not a polyaxonfile", id="something else"),
    ],
)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(ConvertError) as caught:
        convert_text(text)
    assert message in str(caught.value)


def test_a_date_is_text() -> None:
    assert parse("run: 2018-03-19")["run"] == "2018-03-19"


def test_aliases_and_merge_keys_within_the_limits() -> None:
    assert parse("a: &a {x: 1}\nb: {<<: *a, y: 2}")["b"] == {"x": 1, "y": 2}
