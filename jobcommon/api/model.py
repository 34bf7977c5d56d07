"""The base of our API's pydantic models."""

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class ApiModel(BaseModel):
    """A frozen value whose JSON is camelCase and which keeps the fields it does not know.

    Unknown fields survive a round trip because an older operator must not lose what a newer one, or the user, has written.
    Numbers, booleans and strings are not converted into one another: ``replicas: "3"`` is an error, as it is for a real
    API server.
    """

    model_config = ConfigDict(
        extra="allow", frozen=True, populate_by_name=True, alias_generator=to_camel, strict=True, use_enum_values=False
    )
