"""The manifests of a job's pods and Services."""
