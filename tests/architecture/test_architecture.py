"""ARCHITECTURE.md traces one reconcile: every hop exists, and a reconcile takes them in that order."""

import asyncio
import json
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import aclosing, contextmanager
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from types import CodeType, FrameType

from jobcommon.cli.embedded import SETTINGS, InProcessTransport, install
from jobcommon.client.list_watch import list_and_watch
from jobcommon.client.request import Request
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.runtime.manager import run_operators
from jobcommon.testutil.builders import job_manifest
from localcluster import ApiServer, Env
from localcluster.client import background
from tests.architecture.source import ROOT

HOP = re.compile(r"^(\d+)\. `([\w/]+\.py):([\w.]+)`", re.MULTILINE)
MAX_HOPS = 9


def hops() -> list[tuple[Path, str]]:
    """File and function of each hop, in order."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    found = HOP.findall(text)
    assert 4 <= len(found) <= MAX_HOPS
    assert [int(number) for number, _, _ in found] == list(range(1, len(found) + 1)), "the hops are numbered from 1"
    return [(Path(module), function) for _, module, function in found]


@contextmanager
def calls_of(codes: Sequence[CodeType]) -> Iterator[list[int]]:
    """The positions in `codes` of the functions that are called, from the first one on, in the order of their first calls."""
    order: list[int] = []
    positions = {code: position for position, code in enumerate(codes)}

    def profile(frame: FrameType, event: str, _: object) -> None:
        position = positions.get(frame.f_code)
        if event == "call" and position is not None and position not in order and (order or position == 0):
            order.append(position)

    sys.setprofile(profile)
    try:
        yield order
    finally:
        sys.setprofile(None)


def code_of(module: Path, function: str) -> CodeType:
    """The code of a function named by file and dotted name."""
    found = attrgetter(function)(import_module(".".join(module.with_suffix("").parts)))
    code = found.__code__
    assert isinstance(code, CodeType)
    return code


async def test_a_reconcile_takes_the_hops_in_that_order() -> None:
    transport = InProcessTransport(ApiServer(Env.system()))
    await install(transport, [PYTORCH])
    jobs = f"/apis/{PYTORCH.api_version}/namespaces/default/{PYTORCH.plural}"
    manifest = job_manifest(PYTORCH, {"Worker": 1})
    manifest["metadata"] = {"name": "traced"}
    async with background(run_operators(transport, [PYTORCH], SETTINGS)):
        with calls_of([code_of(module, function) for module, function in hops()]) as order:
            await transport.send(Request("POST", jobs, body=json.dumps(manifest).encode()))
            async with asyncio.timeout(120), aclosing(list_and_watch(transport, "/api/v1/events")) as events:
                # The first event is written after the last hop.
                await anext(events)
    assert order == list(range(len(hops())))
