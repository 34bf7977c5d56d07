"""CRD schemas: structural check, pruning, defaults, validation and CEL rules."""

from localcluster.apiserver.schema.compiled import CompiledSchema, compile_schema

__all__ = ["CompiledSchema", "compile_schema"]
