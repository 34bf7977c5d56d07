"""A real API server takes our CRDs: it bounds what their CEL rules may cost, which the embedded one does not."""

import msgspec
import pytest

from jobcommon.client.request import Request
from jobcommon.crd import custom_resource_definition
from operators.mpi.framework import MPI
from operators.mxnet import MXNET
from operators.pytorch import PYTORCH
from operators.tf import TF
from testutil.conformance import real

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
FRAMEWORKS = (PYTORCH, TF, MXNET, MPI)


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda f: f.kind)
def test_no_rule_is_of_a_form_whose_cost_cannot_be_bounded(framework: object) -> None:
    text = msgspec.json.encode(custom_resource_definition(framework)).decode()  # type: ignore[arg-type]
    assert "orValue('')" not in text


@pytest.mark.skipif(not real.available(), reason=real.WHY_NOT)
async def test_a_real_server_takes_the_crds() -> None:
    async with real.real() as target:
        assert target is not None
        for framework in FRAMEWORKS:
            body = msgspec.json.encode(custom_resource_definition(framework))
            answer = await target.transport.send(Request("POST", DEFINITIONS, query=(("dryRun", "All"),), body=body))
            assert answer.status == 201, answer.body.decode()
