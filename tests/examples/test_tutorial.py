"""Every command of docs/tutorial.md, in its order, as a reader types them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.source import ROOT
from tests.cli.commands import cluster_up

pytestmark = [pytest.mark.slow, pytest.mark.cluster]

TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)([^\n]*)\n(.*?)^```", TUTORIAL, re.DOTALL | re.MULTILINE)
PROMISED = {
    "jobcommon run train.py --workers 3 --name tutorial -- --epochs 5": "epoch 4: [0.96, -1.99, 2.92, -3.92]",
    "jobcommon wait tutorial": "epoch 4: [0.96, -1.99, 2.92, -3.92]",
    "jobcommon why broken": "invalid int value",
    "--name tutorial-2": "epoch 4: [0.96, -1.99, 2.92, -3.92]",
}
"""What a reader must see, by a part of the block that prints it."""


def test_the_commands_of_the_tutorial(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    if not (ROOT / ".venv/bin/activate").exists():
        pytest.skip("no .venv, which make setup makes")
    # A new terminal: only the first step puts the commands on its PATH. `make setup` is not repeated.
    path = ":".join(one for one in os.environ["PATH"].split(":") if Path(one) != Path(sys.executable).parent)
    env = {**os.environ, "PATH": path, "COLUMNS": "200", "OMP_NUM_THREADS": "1"}
    script = next(text for language, _, text in BLOCKS if language == "python")
    (tmp_path / "train.py").write_text(script)
    (_, _, install), *_ = (block for block in BLOCKS if block[0] == "sh")
    env["PATH"] = run_as_typed(f"{install.removeprefix('make setup')}echo $PATH", ROOT, env).splitlines()[-1]
    commands = [(note.strip(), text) for language, note, text in BLOCKS if language == "sh"][1:]
    started = next(i for i, (note, _) in enumerate(commands) if note == "background")
    seen: list[str] = []
    for _, text in commands[:started]:
        seen.append(run_as_typed(text, tmp_path, env))
    with cluster_up(tmp_path, "--kubeconfig", str(tmp_path / ".jobcommon" / "kubeconfig")):
        for _, text in commands[started + 1 :]:
            seen.append(run_as_typed(text, tmp_path, env))
    texts = [text for note, text in commands if note != "background"]
    for part, promised in PROMISED.items():
        outputs = [output for text, output in zip(texts, seen, strict=True) if part in text]
        assert outputs, f"no command of the tutorial contains {part!r}"
        assert promised in outputs[0]


def run_as_typed(text: str, place: Path, env: dict[str, str]) -> str:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text], cwd=place, env=env, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{text}\n{done.stdout}"
    return done.stdout
