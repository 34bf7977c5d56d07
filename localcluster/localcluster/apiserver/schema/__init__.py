"""CRD schemas: structural check, pruning, defaults, validation and CEL rules."""

from localcluster.apiserver.schema.compiled import CompiledSchema, compile_schema
from localcluster.apiserver.schema.structural import structural_causes

__all__ = ["CompiledSchema", "compile_schema", "structural_causes"]
