"""Advice that several clues give. `local`: where pods are processes of this machine."""

HUB = "check the address, the cluster's DNS and egress (proxy, NetworkPolicy); what it downloads can be on a volume beforehand"
LOCAL_HUB = "check the address and this machine's network or proxy; what it downloads can be on its disk beforehand"
_SERVER = "check the server's address and port, whether it is running, and"
SERVER = f"{_SERVER} whether this pod may reach it (DNS, proxy, NetworkPolicy)"
LOCAL_SERVER = f"{_SERVER} this machine's network or proxy"
REMOTE = "correct the name of the model, data set, repository or object; if it is private, a token is needed, too"
SLOW = "the server was reached, but did not answer in time: check its load and log, retry, or raise the client's time limit"
DISK = (
    "the volume or its inodes are used up (df -h, df -i): use a larger volume, or keep fewer files and checkpoints; the "
    "file left behind is incomplete"
)
NO_JSON = "what the program read is no valid JSON, or is empty: correct the file or value, or see what the server answered"
OWNER = "check the owner of the file and the user of the pod (securityContext: runAsUser, fsGroup)"
SHM = "mount an emptyDir with medium: Memory at /dev/shm; its default size is 64 MiB"
LOCAL_SHM = "enlarge /dev/shm of this machine (mount -o remount,size=2G /dev/shm), or use fewer data loader workers"
MEMORY = "raise resources.limits.memory, or use a smaller batch or fewer data loader workers"
_LOST = "check whether another replica failed or never started, whether the world size matches the job"
LOST_PEERS = f"{_LOST}, and whether a NetworkPolicy blocks the job's Service"
LOCAL_LOST_PEERS = f"{_LOST}, and which address and port it should listen on"
_UNREACHED = "check whether another replica failed or never started, or, if it names a server of yours, whether that is running"
UNREACHED = f"{_UNREACHED} and this pod may reach it (DNS, proxy, NetworkPolicy)"
LOCAL_UNREACHED = f"{_UNREACHED} at this address"
#: The advice for lost peers of which nothing more is known.
ANY_PEERS = (LOST_PEERS, LOCAL_LOST_PEERS, UNREACHED, LOCAL_UNREACHED)
PATHS = "correct the path or workingDir; a pod sees only its image and its volumes"
LOCAL_PATHS = "correct the path; a relative path starts at workingDir, or at the directory where jobcommon was started"
