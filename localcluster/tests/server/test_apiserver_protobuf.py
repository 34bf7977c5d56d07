"""Bodies in protobuf: what kubectl sends, and malformed ones."""

from localcluster.apiserver.protobuf import decode


def field(number: int, value: bytes | int | str) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value & (1 << 64) - 1)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    return b"k8s\x00" + field(1, field(1, api_version) + field(2, kind)) + field(2, raw) + field(3, "") + field(4, "")


META = field(1, field(1, "a") + field(2, "") + field(8, b"") + field(11, field(1, "x") + field(2, "1")))


def test_zero_values_and_inlined_fields() -> None:
    port = field(1, "") + field(2, 0) + field(3, 8080)
    container = field(1, "c") + field(2, "i") + field(6, port) + field(8, b"") + field(16, 0)
    empty_dir = field(1, "v") + field(2, field(2, b""))
    quantity = field(1, "cpu") + field(2, field(1, "500m"))
    limited = field(1, "d") + field(8, field(1, quantity))
    spec = field(1, empty_dir) + field(2, container) + field(2, limited) + field(4, 0) + field(11, 0)
    assert decode(envelope("v1", "Pod", META + field(2, spec)))["spec"] == {
        "volumes": [{"name": "v", "emptyDir": {}}],
        "containers": [
            {"name": "c", "image": "i", "ports": [{"containerPort": 8080}], "resources": {}},
            {"name": "d", "resources": {"limits": {"cpu": "500m"}}},
        ],
        "terminationGracePeriodSeconds": 0,
    }


def test_times_and_numbers_or_names() -> None:
    lease = META + field(2, field(1, "me") + field(2, 15) + field(4, field(1, 1_800_000_000) + field(2, 5000)))
    assert decode(envelope("coordination.k8s.io/v1", "Lease", lease))["spec"] == {
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "renewTime": "2027-01-15T08:00:00.000005Z",
    }
    named = field(1, "n") + field(3, 80) + field(4, field(1, 1) + field(2, 0) + field(3, "http"))
    numbered = field(3, 81) + field(4, field(1, 0) + field(2, 8081))
    ports = decode(envelope("v1", "Service", META + field(2, field(1, named) + field(1, numbered))))["spec"]["ports"]
    assert [port["targetPort"] for port in ports] == ["http", 8081]
