"""Resizes of real programs: the commands of docs/elastic.md, and the examples of other kinds, which meet again in each size."""

import os
import re
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tests.architecture.source import ROOT
from tests.cli.commands import cluster_up
from tests.examples.test_tutorial import run_as_typed

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.timeout(1200)]
PAGE = (ROOT / "docs" / "elastic.md").read_text(encoding="utf-8")
UP, *COMMANDS = re.findall(r"^```sh[^\n]*\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)[1:]


def test_the_commands_of_the_page(tmp_path: Path) -> None:
    """What `make demo-elastic` shows: the loss goes on from the checkpoint in each size."""
    pytest.importorskip("torch")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "KUBECONFIG": str(tmp_path / "kubeconfig"), "OMP_NUM_THREADS": "1"}
    epochs: list[tuple[int, float]] = []
    ranks: list[int] = []
    with cluster_up(tmp_path, *UP.split()[2:]):
        for command in "".join(COMMANDS).splitlines():
            print(f"$ {command}", flush=True)
            print(output := run_as_typed(command, ROOT, env), flush=True)
            for world, after in re.findall(r"(\d) ranks go on after epoch (\d+)\n", output):
                ranks.append(int(world))
                assert not epochs or int(after) >= epochs[-1][0], "what was seen is in the checkpoint"
            epochs += [(int(epoch), float(loss)) for epoch, loss in re.findall(r"epoch (\d+) loss (\S+)\n", output)]
    assert ranks == [3, 5, 4, 3, 4]
    assert len(epochs) == 2 * len(ranks)
    assert all(later > epoch and less < loss for (epoch, loss), (later, less) in pairwise(epochs))
