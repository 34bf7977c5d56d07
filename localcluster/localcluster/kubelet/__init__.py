"""The process kubelet: runs the pods of the embedded cluster as local processes."""
