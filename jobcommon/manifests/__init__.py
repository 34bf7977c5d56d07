"""The manifests of a job's pods and Services, and what a gang of its pods requests."""
