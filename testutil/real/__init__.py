"""Lifecycles of jobs as one table, run on a real control plane and node (``make real``) and on the embedded cluster."""
