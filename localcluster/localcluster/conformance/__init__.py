"""The conformance suite: the same requests to the embedded API server and to a real one.

Where they differ, the real one is right.

A `Case` is data: steps, each a request with what its answer must be. `cases.TABLE` holds the facts that were measured;
`sequences.sequence` makes one from a seed, without expectations. `driver.Driver` sends a case to a `Target` and gives a
`Record`, in which everything that may differ between two right servers (uids, versions, times, allocated addresses) is
replaced by what must not: which one it is, and their order. Two servers agree on a case when their records are equal.

``python -m localcluster.conformance --help`` runs it; docs/conformance.md says which real servers it finds.
"""
