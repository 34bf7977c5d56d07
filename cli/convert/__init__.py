"""Converting what other systems' users have written: polyaxonfiles, and the flat MPIJob of v1alpha1, to manifests."""

from jobcommon.cli.convert.finding import ConvertError, Finding
from jobcommon.cli.convert.polyaxonfile import Conversion, convert, is_convertible

__all__ = ["Conversion", "ConvertError", "Finding", "convert", "is_convertible"]
