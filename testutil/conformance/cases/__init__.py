"""The table."""
TABLE = ()
