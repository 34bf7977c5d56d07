"""Clues to memory and other limits that were reached."""

from jobcommon.causes.cause import Clue
from jobcommon.causes.cause_reasons import Reason
from jobcommon.causes.clues.advice import MEMORY

LIMITS = (
    Clue(
        r"\bibv_\w+.*(?:Cannot allocate memory|ENOMEM)|RLIMIT_MEMLOCK|memlock limit", Reason.LIMIT_REACHED, "",
        "InfiniBand needs to lock memory, not more memory: raise the limit of the container runtime (ulimit -l), add the "
        "capability IPC_LOCK to securityContext, or set NCCL_IB_DISABLE=1",
        local="InfiniBand needs to lock memory: raise the limit (ulimit -l), or set NCCL_IB_DISABLE=1",
    ),
    Clue(
        r"too many clients already|remaining connection slots are reserved|Too many connections|"
        r"max number of clients reached|Max client connections", Reason.LIMIT_REACHED, "",
        "the server accepts no more connections: raise its limit (max_connections), or use a connection pool",
    ),
    Clue(
        r"(?-i:\bSlowDown\b)|reduce your request rate|\bThrottl\w*Exception|\((?:Throttling|RequestLimitExceeded|ServerBusy)\)|"
        r"TooManyRequests|rateLimitExceeded|429 Client Error|HTTP Error 429|returned error: 429|\bERROR 429\b|"
        r"429:? Too Many Requests",
        Reason.LIMIT_REACHED, "",
        "the server limits the rate of requests: use fewer concurrent readers and writers, and retry with longer delays "
        "(boto3: retries mode adaptive)",
    ),
    Clue(
        r"FATAL: +(?:database|role) \"[^\"]+\" does not exist|Unknown database '", Reason.CONFIG_INVALID, "",
        "the server answered: correct the name of the database or user in the connection string, or create it",
    ),
    Clue(
        r"exit(?:ed with exit)? code 137\b.*(?:OOM|SIGKILL)|possible container OOM|killed by YARN for exceeding|"
        r"Consider boosting spark\.(?:executor|yarn)", Reason.MEMORY_EXHAUSTED, "",
        "executors of Spark are killed for lack of memory: raise spark.executor.memoryOverhead and the memory of their "
        "pods, or use more partitions",
    ),
    Clue(
        r"Remote RPC client disassociated|Executor heartbeat timed out", Reason.MEMORY_EXHAUSTED, "",
        "an executor of Spark ended, often for lack of memory: see its pod, and raise spark.executor.memoryOverhead",
    ),
    Clue(
        r"JavaScript heap out of memory", Reason.MEMORY_EXHAUSTED, "",
        "raise the heap of node: NODE_OPTIONS=--max-old-space-size=MIB in the container's env, and resources.limits.memory "
        "above it",
        local="raise the heap of node: NODE_OPTIONS=--max-old-space-size=MIB",
    ),
    Clue(
        r"node running low on memory|RayOutOfMemoryError|due to memory pressure|exceeded \d+% memory budget",
        Reason.MEMORY_EXHAUSTED, "",
        "a worker process (Ray, Dask) exceeded its memory limit: start fewer workers, give them smaller parts, or raise "
        "resources.limits.memory and the workers' own limit",
    ),
    Clue(
        r"DataLoader worker .*killed by signal: (?:Segmentation fault|Aborted|Illegal)", Reason.WORKER_PROCESS_KILLED, "",
        "a native library crashed in a data loader worker: use num_workers=0 with python -X faulthandler, which prints where",
    ),
    Clue(
        r"OutOfMemoryError: (?:Java heap|GC overhead|PermGen|Direct buffer|Metaspace|Requested array size)",
        Reason.MEMORY_EXHAUSTED, "",
        "raise Java's heap (-Xmx, or spark.driver.memory and spark.executor.memory), and resources.limits.memory above it",
        local="raise Java's heap (-Xmx, or spark.driver.memory and spark.executor.memory)",
    ),
    Clue(
        r"Unable to allocate [\d.]+ [TPE]iB for", Reason.MEMORY_EXHAUSTED, "",
        "no machine has so much memory: the shape is wrong, or the computation needs blocks, a sparse matrix or another method",
    ),
    Clue(
        r"^MemoryError|\bMemoryError\b|ArrayMemoryError|std::bad_alloc|Cannot allocate memory|DefaultCPUAllocator|"
        r"Unable to allocate [\d.]+ \w+ for|cannot allocate vector of size|not enough memory: you tried|\[Errno 12\]",
        Reason.MEMORY_EXHAUSTED, "", MEMORY,
    ),
    Clue(
        r"DataLoader worker \(pid\(?s?\)? [\d, ]+\) (?:is killed by signal: \w+|exited unexpectedly)|"
        r"terminated abruptly while the future was|BrokenProcessPool|\(signal: 9, SIGKILL|Negsignal\.SIGKILL|"
        r"ActorDiedError|WorkerCrashedError|KilledWorker|Kernel died|DeadKernelError|died with <Signals\.SIGKILL|"
        r"TerminatedWorkerError|DataLoader process \(pid +\d+\) exited is killed by signal: Killed",
        Reason.WORKER_PROCESS_KILLED, "", f"usually a lack of memory: {MEMORY}",
    ),
    Clue(
        r"vm\.max_map_count \[?\d+\]? is too low|vm\.max_map_count", Reason.LIMIT_REACHED, "",
        "raise vm.max_map_count on the node (sysctl, by a privileged init container or the node's administrator)",
    ),
    Clue(
        r"DB::Exception: Memory limit", Reason.LIMIT_REACHED, "",
        "the query needs more memory than the database gives it: read less at once, or raise its limit (max_memory_usage)",
    ),
    Clue(
        r"Too many open files|can't start new thread|unable to create (?:new )?native thread|pthread_create|"
        r"Resource temporarily unavailable|received 0 items of ancdata|\[Errno (?:11|24)\]|"
        r"OMP: Error #34|fork: retry|File name too long",
        Reason.LIMIT_REACHED, "",
        "use fewer threads and workers (OMP_NUM_THREADS, num_workers), or raise the limit (ulimit -n for files, ulimit -u and "
        "the PID limit of the pod for threads)",
    ),
    Clue(
        r"Address already in use|EADDRINUSE|Binding port \d+ failed|\[Errno 98\]|errno: 98\b|Failed to bind|"
        r"port is already (?:allocated|in use)|Only one usage of each socket|Could not start gRPC server",
        Reason.PORT_IN_USE, "", "choose another port, or stop the process that still uses it",
    ),
    Clue(
        # Of a client it is that of localhost by IPv6, which it tries as well.
        r"(?m:^)(?!.*\bconnect).*(?:Cannot assign requested address|\[Errno 99\]|errno: 99\b)", Reason.PEERS_UNREACHABLE, "",
        "the program listens on an address that its pod does not have: make the master listen on 0.0.0.0, and check "
        "MASTER_ADDR",
    ),
    Clue(
        r"socket\w*Connect: .*(?:No route to host|Network is unreachable|Connection (?:timed out|refused))|"
        r"Call to connect to \S+ failed : (?:No route|Network is unreach|Connection (?:timed|refused))",
        Reason.PEERS_UNREACHABLE, "",
        "set NCCL_SOCKET_IFNAME to the interface of the pods' network, such as eth0 (NCCL_DEBUG=INFO shows the one in use), "
        "and check that every NetworkPolicy lets the pods reach each other on all ports", symptom=True,
        local="set NCCL_SOCKET_IFNAME to the interface between the replicas (NCCL_DEBUG=INFO shows the one in use)",
    ),
    Clue(
        r"no socket interface found|NCCL_SOCKET_IFNAME|GLOO_SOCKET_IFNAME|unable to resolve .*to (?:a )?(?:usable|"
        r"interface)|makeDeviceForInterface",
        Reason.PEERS_UNREACHABLE, "",
        "set NCCL_SOCKET_IFNAME or GLOO_SOCKET_IFNAME to the pods' interface, or leave it unset",
    ),
)  # fmt: skip
