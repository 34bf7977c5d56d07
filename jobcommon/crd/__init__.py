"""CustomResourceDefinitions, generated from the frameworks and their pydantic models.

The generated files are in ``charts/crds`` (``make crds`` writes them, a test compares them).
"""

from jobcommon.crd.definition import crd_files, custom_resource_definition, definitions, to_json
from jobcommon.crd.strict import field_errors, read_strictly

__all__ = ["crd_files", "custom_resource_definition", "definitions", "field_errors", "read_strictly", "to_json"]
