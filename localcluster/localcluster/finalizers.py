"""The finalizers that the API server sets and the embedded controllers remove."""

#: metav1.FinalizerDeleteDependents: a foreground deletion waits for the dependents that block it.
FOREGROUND = "foregroundDeletion"
#: metav1.FinalizerOrphanDependents: the dependents lose their owner reference before the object is deleted.
ORPHAN = "orphan"
#: apiextensions CustomResourceCleanupFinalizer: the custom objects are deleted before their definition.
CRD_CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
