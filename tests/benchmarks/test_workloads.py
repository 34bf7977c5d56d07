"""What `--only` takes."""

import pytest

from benchmarks.__main__ import main
from benchmarks.workloads import ALL, Workload


@pytest.mark.parametrize("workload", ALL, ids=str)
def test_a_workload_is_read_as_it_is_printed(workload: Workload) -> None:
    assert Workload.parse(str(workload)) == workload


@pytest.mark.parametrize("text", ["", "50", "50x", "x8", "0x8", "50x8-half", "50 x 8", "all"])
def test_invalid_workloads_are_refused(text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["benchmarks", "--only", f"1x100,{text}"])
    with pytest.raises(SystemExit):
        main()
    assert f"--only: {text!r} is neither a workload (jobs x replicas, as in 50x8) nor one of memory" in capsys.readouterr().err
