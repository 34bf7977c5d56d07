"""Advice that several clues give. `local`: where pods are processes of this machine."""

HUB = "check the address, the cluster's DNS and egress (proxy, NetworkPolicy), or load the data into a volume beforehand"
LOCAL_HUB = "check the address and this machine's network or proxy, or load the data beforehand"
OWNER = "check the owner of the file and the user of the pod (securityContext: runAsUser, fsGroup)"
SHM = "mount an emptyDir with medium: Memory at /dev/shm; its default size is 64 MiB"
LOCAL_SHM = "enlarge /dev/shm of this machine (mount -o remount,size=2G /dev/shm), or use fewer data loader workers"
MEMORY = "raise resources.limits.memory, or use a smaller batch or fewer data loader workers"
_LOST = "check whether another replica failed or never started, whether the world size matches the job"
LOST_PEERS = f"{_LOST}, and whether a NetworkPolicy blocks the job's Service"
LOCAL_LOST_PEERS = f"{_LOST}, and which address and port it should listen on"
#: The advice for lost peers of which nothing more is known.
ANY_PEERS = (LOST_PEERS, LOCAL_LOST_PEERS)
PATHS = "correct the path or workingDir; a pod sees only its image and its volumes"
LOCAL_PATHS = "correct the path; a relative path starts at workingDir, or at the directory where jobcommon was started"
