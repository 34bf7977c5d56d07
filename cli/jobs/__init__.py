"""The commands for jobs on a cluster, which ``kubectl train`` offers, too: pure clients of the API server."""
