"""The command ``jobcommon``."""

#: The name under which it acts on the cluster of the kubeconfig.
PLUGIN = "kubectl train"
