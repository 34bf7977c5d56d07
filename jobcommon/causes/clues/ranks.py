"""Clues to what is wrong between the ranks of a job: collectives, and MPI."""

from jobcommon.causes.cause import Clue
from jobcommon.causes.cause_reasons import Reason

_RANK = "check rank {0}: its last lines, or py-spy dump while it hangs"
_SLOTS = "set slotsPerWorker to the processes per worker, start fewer (-n), or add workers; --oversubscribe shares cores"
_SSH = (
    "mount the keys with mode 0600 and the server's key in known_hosts, or disable the check: -o StrictHostKeyChecking=no "
    "(mpirun: in OMPI_MCA_plm_rsh_args)"
)
_RANKS = "the ranks that print no timeout hang: kubectl exec POD -- py-spy dump --pid 1, or set TORCH_DISTRIBUTED_DEBUG=DETAIL"

COLLECTIVES = (
    Clue(
        r"\branks? \[?(\d+(?:, ?\d+)*)\]?:? (?:did not join|(?:has|have) not (?:joined|called)|failed to join|"
        r"never (?:joined|called))",
        Reason.COLLECTIVE_TIMEOUT, "", _RANK,
    ),
    Clue(
        r"\[Rank (\d+)\] Watchdog caught collective operation timeout: \w+\(SeqNum=(\d+), OpType=(\w+)"
        r".*? ran for (\d+)\d{3} milli",
        Reason.COLLECTIVE_TIMEOUT, "rank {0} waited {3} s for the others in {2} number {1} (NCCL watchdog)", _RANKS,
        symptom=True,
    ),
    Clue(
        r"Ranks? ([\d, ]+) failed to pass monitoredBarrier in (\d+) ms", Reason.COLLECTIVE_TIMEOUT,
        "rank {0} did not reach the barrier in {1} ms: it hangs or has ended",
        _RANK,
    ),
    Clue(
        r"got signal: (?:1|2|15)\b|Received (?:Signals\.)?SIG(?:TERM|HUP|INT) death signal", Reason.WORKER_PROCESS_KILLED, "",
        "a signal from outside stopped the launcher: 15 comes from a deletion, a drain, a preemption or a clean-up (see the "
        "events of the pod and its node), 1 from the end of the terminal or shell that started it", symptom=True,
    ),
    Clue(
        r"(?:Missing|Stalled) ranks: ?(\d+(?:, ?\d+)*)", Reason.COLLECTIVE_TIMEOUT,
        "rank {0} did not submit tensors which the others waited for (Horovod)", _RANK,
    ),
    Clue(
        r"Watchdog caught collective|collective operation timeout|timeout detected by watchdog|CollectiveTimeout|"
        r"Timed out waiting \d+ms for (?:recv|send) operation|Stalled (?:ranks|tensors)|Missing ranks|"
        r"one or more tensors were submitted",
        Reason.COLLECTIVE_TIMEOUT, "", _RANKS, symptom=True,
    ),
    Clue(
        r"ProcessGroupNCCL watchdog hang|[Hh]eartbeat monitor timed out", Reason.COLLECTIVE_TIMEOUT, "",
        "a collective or a CUDA call on this rank hangs, usually because it waits for another rank: run py-spy dump on all "
        "ranks; TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC allows more time", symptom=True,
    ),
    Clue(
        r"DDP expects same model across all ranks(?:.*\b[Rr]ank (\d+) has)?", Reason.COLLECTIVE_MISMATCH, "",
        "make all ranks build the same model: the same code, configuration, number of classes and checkpoint",
    ),
    Clue(
        r"mismatch between collective|collectives? .*mismatch|Mismatched (?:ALLREDUCE|allreduce|ALLGATHER|BROADCAST)|"
        r"op\.preamble\.length|inconsistent (?:tensor )?(?:shapes?|sizes?) (?:across|between) ranks|appears not to match sizes",
        Reason.COLLECTIVE_MISMATCH, "",
        "make every rank call the same collectives with tensors of the same shape and in the same order",
    ),
    Clue(
        r"Expected to have finished reduction in the prior iteration|marked as ready twice",
        Reason.COLLECTIVE_MISMATCH, "",
        "set find_unused_parameters=True in DistributedDataParallel, or use all parameters in the loss",
    ),
    Clue(
        r"Call to ibv_\w+ failed(?!.*(?:Cannot allocate|ENOMEM))", Reason.PEERS_UNREACHABLE, "",
        "the InfiniBand device cannot be used here: request its resource (rdma/...) in resources.limits and add the capability "
        "IPC_LOCK, or set NCCL_IB_DISABLE=1",
        local="the InfiniBand device cannot be used here: raise the limit of locked memory (ulimit -l), or set "
        "NCCL_IB_DISABLE=1",
    ),
    Clue(
        r"ncclSystemError: System call", Reason.GPU_ERROR, "",
        "run once with NCCL_DEBUG=INFO, which names the call that failed: of a socket (a peer has ended, or the wrong "
        "interface), "
        "of shared memory (a full /dev/shm), or of memory", symptom=True,
    ),
    Clue(
        r"Transport retry count exceeded|NET/IB\b.*(?:[Gg]ot completion|status=\d+|"
        r"async (?:fatal )?event)", Reason.PEERS_UNREACHABLE, "",
        "the InfiniBand or RoCE link between these two failed, or the peer has ended: check the port of this hca on both "
        "nodes (ibstat, its error counters) and cordon the node; NCCL_IB_TIMEOUT and NCCL_IB_RETRY_CNT allow more "
        "time", symptom=True,
    ),
)  # fmt: skip

MPI = (
    Clue(
        r"Read -1, expected \d+, errno = 1\b", Reason.MPI_NOT_STARTED, "",
        "Open MPI may not read the memory of other processes in a container: set OMPI_MCA_btl_vader_single_copy_mechanism=none "
        "in env, or add the capability SYS_PTRACE",
    ),
    Clue(
        r"OFI addrinfo\(\) failed|fi_getinfo|no libfabric provider|OFI (?:endpoint open|get domain|call) failed",
        Reason.MPI_NOT_STARTED, "",
        "libfabric finds no usable network: set FI_PROVIDER=tcp in env, or install and allow the provider (fi_info lists them)",
    ),
    Clue(
        r"no available cpus on|more processes (?:than|.{,40}) cpus|binding more processes", Reason.TOO_FEW_SLOTS, "",
        "mpirun binds processes to more cores than there are: use --bind-to none, or fewer cores per process (PE=)",
    ),
    Clue(
        r"Shape mismatch in the collective", Reason.COLLECTIVE_MISMATCH, "",
        "give every worker the same number of batches of the same shape: batch(..., drop_remainder=True)",
    ),
    Clue(
        r"MPI_ERR_TRUNCATE", Reason.COLLECTIVE_MISMATCH, "",
        "the receiver's buffer is smaller than the message: use the same count and type on both sides",
    ),
    Clue(r"not enough slots available .*satisfy the (\d+)", Reason.TOO_FEW_SLOTS,
    "not enough slots available for the {0} processes that mpirun should start", _SLOTS),
    Clue(r"not enough slots available|All nodes which are allocated for this job", Reason.TOO_FEW_SLOTS, "", _SLOTS),
    Clue(
        r"\bgit@\S+: Permission denied", Reason.ACCESS_DENIED, "",
        "git has no key for this repository: mount a deploy key and known_hosts from a Secret (GIT_SSH_COMMAND), or clone "
        "over HTTPS with a token",
    ),
    Clue(
        r"Host key verification failed|Permission denied \(publickey|IDENTIFICATION HAS CHANGED|"
        r"UNPROTECTED PRIVATE KEY|no hostkeys available|"
        r"Missing privilege separation directory|\bLoad key \".+\":|Bad owner or permissions on|"
        r"Too many authentication failures|kex_exchange_ident",
        Reason.SSH_REFUSED, "", _SSH, local=f"{_SSH}; sshd needs its directory: mkdir -p /run/sshd",
    ),
    Clue(
        r"attempt to run as root", Reason.RUN_AS_ROOT_REFUSED, "",
        "add --allow-run-as-root to mpirun, or set OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
    ),
    Clue(
        r"execvp error on file (\S+)|launcher '([\w+-]+)' not installed|Failed to find C compiler|No working C\+\+ compiler|"
        r"unable to (?:launch|find) the specified (?:application|executable)|(?:^|: )Executable: (\S+)|"
        r"(orted|prted|hydra_pmi_proxy): (?:command )?not found|"
        r"could not (?:find|access|execute) (?:an |the )?executable|command '([\w+-]+)' failed: No such file|"
        r"failed to run command '([\w+-]+)'|No such file or directory: '([\w+./-]+)'[\s\S]*/subprocess\.py\"",
        Reason.COMMAND_NOT_FOUND, "", "install the program in the image; the workers of an MPIJob need it and Open MPI, too",
        local="install it on this machine{debian}, or correct the command",
    ),
    Clue(
        r"MPI_Init\S* failed|(?:orte|PMIx?|MPI|ompi_mpi)_init\S* failed|PML add procs failed|No available .*(?:BTL|"
        r"network)|OPAL ERROR|unable to reach each other for MPI|not built with (?:SLURM|PMI)",
        Reason.MPI_NOT_STARTED, "",
        "use the same version of MPI in launcher and workers; OMPI_MCA_btl=tcp,self rules out the network cards",
    ),
    Clue(
        r"# Problematic frame: #\s*(.+)", Reason.PROGRAM_FAILED, "the Java virtual machine crashed in {0}",
        "a native library crashed, or the JVM itself: see hs_err_pid*.log, which it has written to the working directory",
    ),
    Clue(
        r"Fortran runtime error: ", Reason.PROGRAM_FAILED, "",
        "correct what the message names: the program, its data or its settings",
    ),
    Clue(
        r"SUMMARY: \w+Sanitizer: |"
        r"==ERROR: \w+Sanitizer: ", Reason.PROGRAM_FAILED, "", "correct the native code at the place that it names",
    ),
)  # fmt: skip
