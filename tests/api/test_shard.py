"""Shards: which job and which of its objects belong where."""

from random import Random
from uuid import UUID

import pytest

from jobcommon.api import labels
from jobcommon.api.shard import SLOTS, Shard, slot_of

UIDS = [str(UUID(int=Random(number).getrandbits(128), version=4)) for number in range(2000)]


# The reference values of FNV-1a, 64 bits.
@pytest.mark.parametrize(
    ("text", "digest"),
    [("", 0xCBF29CE484222325), ("a", 0xAF63DC4C8601EC8C), ("foobar", 0x85944171F73967E8)],
)
def test_the_slot_is_the_top_of_the_hash(text: str, digest: int) -> None:
    assert slot_of(text) == digest >> 58


@pytest.mark.parametrize("count", [1, 2, 3, 5, 16, SLOTS])
def test_each_job_is_in_one_shard_and_the_shards_are_of_one_size(count: int) -> None:
    shards = [Shard(index, count) for index in range(count)]
    assert [slot for shard in shards for slot in shard.slots] == list(range(SLOTS))
    assert max(len(shard.slots) for shard in shards) - min(len(shard.slots) for shard in shards) <= 1
    found = [sum(shard.has_job(uid) for uid in UIDS) for shard in shards]
    assert sum(found) == len(UIDS)
    assert min(found) > 0


@pytest.mark.parametrize(("index", "count"), [(0, 0), (-1, 2), (2, 2), (0, SLOTS + 1)])
def test_there_is_no_such_shard(index: int, count: int) -> None:
    with pytest.raises(ValueError, match="there is no shard"):
        Shard(index, count)


OWNED = UIDS[0]
HOME = slot_of(UIDS[0])
ELSEWHERE = (HOME + SLOTS // 2) % SLOTS


@pytest.mark.parametrize(
    ("child", "slot"),
    [
        ((OWNED, {labels.SHARD: str(HOME)}), HOME),
        ((OWNED, {}), HOME),
        ((OWNED, {labels.SHARD: str(ELSEWHERE)}), HOME),
        (("", {labels.SHARD: "63"}), 63),
        (("", {labels.SHARD: "64"}), 0),
        (("", {labels.SHARD: "9" * 60}), 0),
        (("", {labels.SHARD: "one"}), 0),
        (("", {labels.SHARD: "²"}), 0),
        (("", {}), 0),
    ],
    ids=["labelled", "from before", "label edited", "orphan", "too high", "huge", "junk", "superscript", "orphan from before"],
)
def test_every_object_belongs_to_one_shard(child: tuple[str, dict[str, str]], slot: int) -> None:
    for count in (1, 2, 3, 64):
        (found,) = (shard for shard in (Shard(index, count) for index in range(count)) if shard.has_child(*child))
        assert slot in found.slots


def test_the_selectors() -> None:
    middle = Shard(1, 3)
    assert middle.slots == range(21, 42)
    others = ",".join(str(slot) for slot in (*range(21), *range(42, 64)))
    assert middle.label_selector == f"training.kubeflow.org/shard notin ({others})"
    assert [Shard(index, 2).shard_selector for index in range(2)] == [
        "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')",
        "shardRange(object.metadata.uid, '0x8000000000000000', '0x10000000000000000')",
    ]
