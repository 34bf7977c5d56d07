"""Why a program has ended, by its exit code and its last lines: for the status of its job, and for the diagnosis."""
