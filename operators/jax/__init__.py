"""The JAXJob operator."""

from jobcommon.operators.jax.framework import JAX

__all__ = ["JAX"]
