"""The Python client of jobs: build, submit, wait, read logs, and learn why one failed."""
