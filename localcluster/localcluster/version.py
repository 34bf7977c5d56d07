"""The Kubernetes release that the embedded cluster follows."""

GIT_VERSION = "v1.36.2+localcluster"
