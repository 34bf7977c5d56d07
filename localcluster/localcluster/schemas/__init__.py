"""Generators of the committed schemas, from Kubernetes' published definitions."""
