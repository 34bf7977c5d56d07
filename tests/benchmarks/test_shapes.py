"""What `--only` takes."""

import pytest

from benchmarks.__main__ import main
from benchmarks.shapes import ALL, Shape


@pytest.mark.parametrize("shape", [*ALL, Shape(1, 1000, whole=True)], ids=str)
def test_a_shape_is_read_as_it_is_printed(shape: Shape) -> None:
    assert Shape.parse(str(shape)) == shape


@pytest.mark.parametrize("text", ["", "50", "50x", "x8", "0x8", "50x8-half", "50 x 8", "all"])
def test_what_is_none_is_said_to_be_none(
    text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["benchmarks", "--only", f"1x100,{text}"])
    with pytest.raises(SystemExit):
        main()
    assert f"--only: {text!r} is neither a shape, jobs x replicas as in 50x8, nor one of memory" in capsys.readouterr().err
