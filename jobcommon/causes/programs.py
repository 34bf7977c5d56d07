"""What programs print when they fail, and what it means: tables of patterns, the most specific first.

A clue's advice may name fields of a manifest; `local` is the advice where pods are processes of this machine.
"""

import re

from jobcommon.causes.cause import Cause, Clue
from jobcommon.causes.cause_reasons import Reason

_HOST = r"'?([\w-]+(?:\.[\w-]+)*\.[a-z]{2,}|[\w.-]+:\d+)"
_HUB = "check the address, the cluster's DNS and egress (proxy, NetworkPolicy), or load the data into a volume beforehand"
_LOCAL_HUB = "check the address and this machine's network or proxy, or load the data beforehand"
_OWNER = "check the owner of the file and the user of the pod (securityContext: runAsUser, fsGroup)"
_RANK = "check rank {0}: its last lines, or py-spy dump while it hangs"
_ACCESS = (
    "check the credentials that the program has from a Secret or by its ServiceAccount (token, key, password, role), and what "
    "they allow"
)
_SLOTS = "set slotsPerWorker to the processes per worker, start fewer (-n), or add workers; --oversubscribe shares cores"
_SSH = (
    "mount the keys with mode 0600 and the server's key in known_hosts, or disable the check: -o StrictHostKeyChecking=no "
    "(mpirun: in OMPI_MCA_plm_rsh_args)"
)
_SHM = "mount an emptyDir with medium: Memory at /dev/shm; its default size is 64 MiB"
_LOCAL_SHM = "enlarge /dev/shm of this machine (mount -o remount,size=2G /dev/shm), or use fewer data loader workers"
_NCCL = "run once with NCCL_DEBUG=INFO, which shows what NCCL tried"
_MEMORY = "raise resources.limits.memory, or use a smaller batch or fewer data loader workers"
_RANKS = "the ranks that print no timeout hang: kubectl exec POD -- py-spy dump --pid 1, or set TORCH_DISTRIBUTED_DEBUG=DETAIL"
_LOST = "check whether another replica failed or never started, whether the world size matches the job"
_PEERS = f"{_LOST}, and whether a NetworkPolicy blocks the job's Service"
_LOCAL_PEERS = f"{_LOST}, and which address and port it should listen on"
#: The advice for lost peers of which nothing more is known.
ANY_PEERS = (_PEERS, _LOCAL_PEERS)
_FILES = "correct the path or workingDir; a pod sees only its image and its volumes"
_LOCAL_FILES = "correct the path; a relative path starts at workingDir, or at the directory where jobcommon was started"

#: Shells.
SHELL = (
    Clue(
        r"\$(\d): unbound variable", Reason.WRONG_ARGUMENTS, "",
        "the script needs argument {0}: add it to args in the pod template",
    ),
    Clue(
        r"(?:^|: )(\w+): (?:unbound variable|parameter (?:not set|null or not set))", Reason.ENVIRONMENT_MISSING, "",
        "the shell needs the variable {0}: set it in the container's env, or give it a default: ${{{0}:-VALUE}}",
    ),
    Clue(
        # ${NAME:?words}
        r"(?-i:(?:: |^)(?:line )?\d+: ([A-Z][A-Z0-9_]+): )(?!.*(?:not found|denied|No such|is a directory))",
        Reason.ENVIRONMENT_MISSING, "", "the shell needs the variable {0}: set it in the container's env",
    ),
    Clue(
        r"(?:: |^)(source|\[\[|pushd|popd|shopt|declare|typeset|function): (?:command )?not found|"
        r"Illegal option -o pipefail|\"\(\" unexpected", Reason.SHELL_ERROR, "",
        "sh is dash in many images, not bash: run the script with bash, command: [bash, -c, ...]",
    ),
    Clue(
        r"`(.*)': not a valid identifier", Reason.SHELL_ERROR, "",
        "a value with a space is not quoted: write export NAME=\"$VALUE\"; {0} was taken for a name",
    ),
    Clue(
        r"Run 'conda init' before", Reason.SHELL_ERROR, "",
        "the shell of a pod does not read .bashrc: use conda run -n ENV COMMAND, or source the environment's "
        "etc/profile.d/conda.sh",
    ),
    Clue(
        r"\bsyntax error\b|Illegal number: \$|unexpected EOF while looking for|Unterminated quoted string|bad substitution",
        Reason.SHELL_ERROR, "", 'correct the shell command; "$$" in a manifest stands for "$", and dash is not bash',
    ),
)  # fmt: skip

#: Of the last exception, its message and innermost frame; of other lines, each by itself.
LINES = (
    Clue(
        r"File exists[\s\S]*(?:shm_open|SharedMemory|shared_memory)", Reason.PYTHON_EXCEPTION,
        "", "shared memory with this name exists already, from an earlier run or another process: remove it "
        "(streaming.base.util.clean_stale_shared_memory(), or /dev/shm/NAME), or start the processes with a single launcher",
    ),
    # shared memory before disks and NCCL
    Clue(
        r"insufficient shared memory|DataLoader worker .* killed by signal: Bus error|/dev/shm\S*.*No space left|"
        r"No space left.*/dev/shm|"
        r"(?:creating|attaching|extend|allocat\w*) shared memory segment|shm_open|unable to (?:open|write|mmap) .*shm|"
        r"torch_shm_manager|shared memory object|"
        r"not enough (?:free )?space for (?:the )?shared memory|shared memory backing file|"
        r"unable to allocate shared memory",
        Reason.SHARED_MEMORY_FULL, "", _SHM, local=_LOCAL_SHM,
    ),
    # GPUs
    Clue(
        r"memory space hbm", Reason.GPU_OUT_OF_MEMORY, "",
        "use a smaller batch, rematerialization (jax.checkpoint), or more chips",
    ),
    Clue(
        r"[Mm]emory space vmem|[Ee]xceeded vmem capacity|scoped vmem", Reason.MEMORY_EXHAUSTED, "",
        "a kernel (Pallas) needs more vector memory than the chip has: use smaller blocks, or raise vmem_limit_bytes; a "
        "smaller batch does not help",
    ),
    Clue(
        r"CUresult error\s+result=2\b", Reason.GPU_OUT_OF_MEMORY, "",
        "2 is CUDA's out of memory: use a smaller batch, gradient checkpointing or a GPU with more memory",
    ),
    Clue(
        r"OOM when allocating.*(?:device:CPU|allocator cpu)", Reason.MEMORY_EXHAUSTED, "", _MEMORY,
    ),
    Clue(
        r"CUDA out of memory|OutOfMemoryError: CUDA|CUDA error: out of memory|CUBLAS_STATUS_ALLOC_FAILED|"
        r"CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation|out_of_memory: CUDA|Cuda failure.*out of memory|"
        r"RESOURCE_EXHAUSTED: .*(?:memory|allocat)|OOM when allocating|Out of memory error on GPU|ResourceExhausted|"
        r"MXNetError: .*out of memory|cudaMalloc (?:retry )?failed",
        Reason.GPU_OUT_OF_MEMORY, "", "use a smaller batch, gradient checkpointing or a GPU with more memory",
    ),
    Clue(
        r"Loaded runtime CuDNN library: .* but source was compiled with", Reason.VERSIONS_CONFLICT, "",
        "two versions of cuDNN are mixed: install the version that the program is built for, and put it first in "
        "LD_LIBRARY_PATH",
    ),
    Clue(
        r"No available memory for the cache blocks|increase --mem-fraction-static|KV cache is (?:needed|larger)|"
        r"larger than the available KV cache", Reason.GPU_OUT_OF_MEMORY, "",
        "raise gpu_memory_utilization (--mem-fraction-static), lower max_model_len, or use more GPUs (tensor_parallel_size)",
    ),
    Clue(
        r"(?:package|PyTorch|torch)\W.*(?:doesn't|does not|don't|without) (?:have )?(NCCL|MPI|UCC|Gloo)\b|"
        r"(?:Invalid|Unknown) backend:? '?(\w+)|"
        r"(?:NCCL|nccl) (?:is|was) not (?:available|built|compiled)|(\w+) backend is not available|"
        r"No backend type associated with device",
        Reason.BACKEND_UNAVAILABLE, "", 'use backend "gloo" on CPUs, or an image whose torch has the backend',
        local='use backend "gloo" on CPUs, or install a torch that has the backend',
    ),
    Clue(
        r"Duplicate GPU detected|invalid device ordinal|device >= 0 && device < num_gpus",
        Reason.GPU_UNUSABLE, "",
        "choose each process's GPU by LOCAL_RANK, and request as many nvidia.com/gpu as it has processes",
        local="start no more processes than this machine has GPUs, and choose the GPU of each by LOCAL_RANK",
    ),
    Clue(
        r"device-side assert(?!ions)|Assertion `.+` failed\.?$", Reason.GPU_ERROR, "",
        "an index is out of range: compare labels with the number of classes, and token ids with the size of the embedding; "
        "CUDA_LAUNCH_BLOCKING=1 names the line of the program",
    ),
    Clue(
        # Of the driver's Xid numbers, those of the device and not of the program.
        r"uncorrectable (?:ECC|NVLink)|ECC error|CUDA_ERROR_ECC|\bXid\b.*: (?:48|63|64|74|79|92|94|95|119|120)\b|"
        r"fallen off the bus|Unable to determine the device handle for GPU|ERROR_DEVICE_LOST|GPU is lost|"
        r"hardware failure", Reason.GPU_ERROR, "",
        "the GPU has failed, not the program: drain the node (kubectl drain NODE) and have the GPU reset or replaced; "
        "nvidia-smi -q -d ECC and dmesg on the node show more",
        local="this machine's GPU has failed, not the program: reset or replace it; nvidia-smi -q -d ECC and dmesg show more",
    ),
    Clue(
        r"CUDNN_STATUS_(?:SUBLIBRARY_)?VERSION_MISMATCH", Reason.VERSIONS_CONFLICT, "",
        "two versions of cuDNN are mixed: put torch's own version first in LD_LIBRARY_PATH, or unset the variable",
    ),
    Clue(
        r"Memory access fault by GPU", Reason.GPU_ERROR, "",
        "a kernel of the program accessed an invalid address of the GPU: run once with AMD_SERIALIZE_KERNEL=3, which names "
        "the kernel; if it fails on one node only, its GPU is broken",
    ),
    Clue(
        r"illegal memory access|unspecified launch failure|\bXid\b|misaligned address|"
        r"CUDNN_STATUS_(?!NOT_INIT|NOT_SUPP)|CUBLAS_STATUS_(?!ALLOC|NOT_INIT|NOT_SUPP)|"
        r"ncclUnhandledCudaError|"
        r"unhandled cuda error|CUDA_ERROR_(?!NO_|OUT_OF|SYSTEM_DRIVER)\w+|CUDA error: (?!out of|no |invalid dev|initial)",
        Reason.GPU_ERROR, "",
        "run once with CUDA_LAUNCH_BLOCKING=1, which names the line; if it fails on one node only, its GPU is broken",
    ),
    Clue(
        r"nvcc fatal\s*: Unsupported gpu architecture", Reason.GPU_UNUSABLE, "",
        "the CUDA toolkit (nvcc) does not support this kind of GPU: build for the available GPUs (TORCH_CUDA_ARCH_LIST, "
        "CMAKE_CUDA_ARCHITECTURES); a new GPU needs a newer toolkit, a very old GPU an older toolkit",
    ),
    Clue(
        r"no kernel image is available|CUDA_ERROR_NO_BINARY_FOR_GPU|HIP error: invalid device function|"
        r"invalid value for --gpu-architecture|no kernel found for|Unsupported gpu architecture", Reason.GPU_UNUSABLE, "",
        "torch is built without kernels for this GPU (torch.cuda.get_arch_list() lists the supported ones): use an image "
        "built for it, or nodes with another GPU",
        local="torch is built without kernels for this GPU (see torch.cuda.get_arch_list()): install a build for it",
    ),
    Clue(
        r"FlashAttention only supports|only (?:supported|available) on GPUs with compute capability|"
        r"requires (?:a )?GPUs? with compute capability",
        Reason.GPU_UNUSABLE, "",
        "the node's GPU is too old for the program: select other nodes (nodeSelector nvidia.com/gpu.product), or use another "
        "attention (sdpa) or data type",
        local="this machine's GPU is too old for the program: use another attention (sdpa) or data type",
    ),
    Clue(
        r"/dev/(?:accel|vfio|nvidia|davinci)\S*.*busy|busy.*/dev/(?:accel|vfio|nvidia|davinci)", Reason.GPU_UNUSABLE, "",
        "another process holds the device, perhaps a leftover of an earlier pod on the node: end it, and give each device to "
        "a single process",
    ),
    Clue(
        r"already in use by process with pid|The TPU is already in use", Reason.GPU_UNUSABLE, "",
        "another process holds the device, which admits one process at a time: end that process, or open the device in a "
        "single process",
    ),
    Clue(
        r"CUDA unknown error|Error 80[24]: |system not yet initialized|Error 803: |unsupported display driver|Error 999: |"
        r"fabric ?manager.*(?:not|fail)|CUDA_ERROR_SYSTEM_NOT_READY", Reason.GPU_UNUSABLE, "",
        "the GPU driver of the node is not ready: check that nvidia-fabricmanager runs there in the driver's version (802), "
        "that driver and image match (803, 804), or cordon the node",
        local="this machine's GPU driver is not ready: check that nvidia-fabricmanager runs in its version",
    ),
    Clue(
        r"NVIDIA driver on your system is too old|CUDA driver version is insufficient|driver/library version mismatch|"
        r"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", Reason.GPU_UNUSABLE, "",
        "update the node's NVIDIA driver, or use an image built for a CUDA version that this driver supports (nvidia-smi "
        "shows which)",
        local="update this machine's NVIDIA driver, or install a build for a CUDA version that it supports (nvidia-smi shows "
        "which)",
    ),
    Clue(
        r"NVIDIA driver on your system|setup doesn't support bf16/gpu|can only be used on (?:CUDA|GPU) devices|"
        r"on CUDA device \d|Invalid device id|no CUDA-capable device|"
        r"CUDA_ERROR_NO_DEVICE|"
        r"No CUDA GPUs are available|No visible GPU|but only \d+ GPUs|no GPUs? (?:found|is available|available|"
        r"detected)|Torch not compiled with CUDA|"
        r"libcuda\.so|CUDNN_STATUS_NOT_INIT|"
        r"CUDA initialization|CUBLAS_STATUS_NOT_INIT|Unable to initialize backend '|NVML|"
        r"torch\.cuda\.is_available\(\) is False|"
        r"deserialize object on a CUDA device|no supported devices found for platform|not compiled with (?:CUDA|GPU)|"
        r"only supported with GPUs|CUDA is not available|requires? (?:a )?(?:CUDA|GPU)",
        Reason.GPU_UNUSABLE, "",
        "request nvidia.com/gpu in resources.limits, and use an image whose CUDA version the node's driver supports",
        local="this machine has no such device for pods: use the CPU, or a build of torch that this machine's driver supports",
    ),
    # collectives
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
        r"mismatch between collective|collectives? .*mismatch|Mismatched (?:ALLREDUCE|allreduce|ALLGATHER|BROADCAST)|"
        r"op\.preamble\.length|"
        r"inconsistent (?:tensor )?(?:shapes?|sizes?) (?:across|between) ranks|"
        r"DDP expects same model across all ranks|appears not to match sizes",
        Reason.COLLECTIVE_MISMATCH, "",
        "make every rank call the same collectives with tensors of the same shape and in the same order",
    ),
    Clue(
        r"Expected to have finished reduction in the prior iteration|marked as ready twice",
        Reason.COLLECTIVE_MISMATCH, "",
        "set find_unused_parameters=True in DistributedDataParallel, or use all parameters in the loss",
    ),
    Clue(
        r"Transport retry count exceeded|NET/IB\b.*(?:[Gg]ot completion|status=\d+|"
        r"async (?:fatal )?event)", Reason.PEERS_UNREACHABLE, "",
        "the InfiniBand or RoCE link between these two failed, or the peer has ended: check the port of this hca on both "
        "nodes (ibstat, its error counters) and cordon the node; NCCL_IB_TIMEOUT and NCCL_IB_RETRY_CNT allow more "
        "time", symptom=True,
    ),
    # MPI
    Clue(
        r"Read -1, expected \d+, errno = 1\b", Reason.MPI_NOT_STARTED, "",
        "Open MPI may not read the memory of other processes in a container: set OMPI_MCA_btl_vader_single_copy_mechanism=none "
        "in env, or add the capability SYS_PTRACE",
    ),
    Clue(
        r"OFI addrinfo\(\) failed|fi_getinfo|no (?:usable |valid )?(?:libfabric )?provider", Reason.MPI_NOT_STARTED, "",
        "libfabric finds no usable network: set FI_PROVIDER=tcp in env, or install and allow the provider "
        "(fi_info lists them)",
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
        r"PML \w+ cannot be selected|network device '\S+' is not available", Reason.MPI_NOT_STARTED, "",
        "Open MPI finds no network for this layer: request the device of the network (rdma/...) in resources.limits, correct "
        "UCX_NET_DEVICES, or leave out --mca pml ucx",
        local="Open MPI finds no network for this layer: correct UCX_NET_DEVICES, or leave out --mca pml ucx",
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
        r"Missing privilege separation directory|Load key .*:|Bad owner or permissions on|"
        r"Too many authentication failures|kex_exchange_ident",
        Reason.SSH_REFUSED, "", _SSH, local=f"{_SSH}; sshd needs its directory: mkdir -p /run/sshd",
    ),
    Clue(
        r"attempt to run as root", Reason.RUN_AS_ROOT_REFUSED, "",
        "add --allow-run-as-root to mpirun, or set OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
    ),
    Clue(
        r"execvp error on file (\S+)|launcher '([\w+-]+)' not installed|Failed to find C compiler|No working C\+\+ compiler|"
        r"unable to (?:launch|find) the specified (?:application|executable)|Executable: (\S+)|"
        r"(orted|prted|hydra_pmi_proxy): (?:command )?not found|"
        r"could not (?:find|access|execute) (?:an |the )?executable|command '([\w+-]+)' failed: No such file|"
        r"failed to run command '([\w+-]+)'|No such file or directory: '([\w+./-]+)'[\s\S]*/subprocess\.py\"",
        Reason.COMMAND_NOT_FOUND, "", "install the program in the image; the workers of an MPIJob need it and Open MPI, too",
        local="install it on this machine{debian}, or correct the command",
    ),
    Clue(
        r"MPI_Init\S* failed|(?:orte|PMIx?|MPI|ompi_mpi)_init\S* failed|PML add procs failed|No available .*(?:BTL|"
        r"network)|OPAL ERROR|"
        r"unable to reach each other for MPI|not built with (?:SLURM|PMI)",
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
    # the environment
    Clue(
        r"KeyError: '(RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT)'|environment variable (\w+) expected, but not set",
        Reason.ENVIRONMENT_MISSING,
        "", "give the PyTorchJob a Master, or start the script with torchrun (docs/troubleshooting.md)",
    ),
    Clue(
        r"KeyError: '((?:LOCAL|GROUP|ROLE)_\w*(?:RANK|SIZE))'", Reason.ENVIRONMENT_MISSING, "",
        "torchrun sets {0}: start the script with torchrun, or set {0} in env if each pod has one process; "
        "jobcommon run SCRIPT sets it",
    ),
    Clue(
        r"(?:coordinator_address|Number of processes|process id)\b.*(?:should|must) be defined|"
        r"KeyError: '(\w+)'[\s\S]*(?:\bos\.py\"|<frozen os>|environ)|(?:environment variable|"
        r"env(?:ironment)? var)\W+(\w+)\W+.*"
        r"(?:not (?:set|defined|found)|missing|required|must be)|"
        r"(?-i:\b[A-Z][A-Z0-9]*_[A-Z0-9_]+) (?:must be|is not|isn't|was not|not) (?:set|defined|given|provided)\b|"
        r"(?:missing|set|"
        r"define) (?:the )?(?:required )?environment variable:? (\w+)\b(?!=)|"
        r"(?:TF_CONFIG|DMLC_\w+|PADDLE_\w+)\b.*(?:not (?:set|found)|missing|empty)",
        Reason.ENVIRONMENT_MISSING, "", "set the variable in the container's env; with jobcommon run: --env NAME=VALUE",
    ),
    Clue(
        r"No module named 'encodings'|init_fs_encoding|Could not find platform independent libraries",
        Reason.ENVIRONMENT_MISSING, "", "PYTHONHOME or PYTHONPATH points to another Python: remove it from the container's env",
    ),
    Clue(
        r"getpwuid\(\): uid not found|cannot find name for user ID|No such user", Reason.ENVIRONMENT_MISSING, "",
        "no user has this UID: set HOME, USER and LOGNAME in the container's env, or use another runAsUser",
    ),
    # imports and versions
    Clue(
        r"there is no package called .(\w+)|Package (\w+) not found in current path|"
        r"Cannot find (?:module|package) '([\w./@-]+)'|Can't locate (\S+\.pm) in @INC|cannot load such file -- (\S+)",
        Reason.MODULE_NOT_FOUND, "", "install the package {0}{1}{2}{3}{4} in the image",
        local="install the package {0}{1}{2}{3}{4} on this machine",
    ),
    Clue(
        r"Unable to locate package (\S+)", Reason.FILE_NOT_FOUND, "", "run apt-get update first, or correct the name {0}",
    ),
    Clue(
        r"(?:ModuleNotFoundError|ImportError)\W+No module named '?([\w.]+)|(?:: |\n)No module named '?([\w.]+)|"
        r"PackageNotFoundError: .*for (\S+)|DistributionNotFound: The '([\w-]+)|requires \w+: .pip install (\w+)|"
        r"requires the (\S+) library|Missing optional dependency '([\w-]+)'",
        Reason.MODULE_NOT_FOUND, "", "install the module in the image, or correct PYTHONPATH and workingDir",
        local="install it in the environment that pods use: pip install {pip}; or correct PYTHONPATH and workingDir",
    ),
    Clue(
        r"error while loading shared libraries: ([^:\s]+)|(lib[\w+.-]+\.so[.\d]*): cannot open shared object|(?:GLIBC|"
        r"GLIBCXX|CXXABI)_[\d.]+' not found|"
        r"undefined symbol|Cannot load (?:symbol |lib)\S+",
        Reason.LIBRARY_NOT_FOUND, "", "install the library in the image, or use a build of the module that matches the image",
        local="install the library on this machine{debian}, or a build of the module that fits it",
    ),
    Clue(
        r"partially initialized module", Reason.PYTHON_EXCEPTION, "",
        "two modules import each other, or one of your files has the name of a module: rename it, or import inside the "
        "function",
    ),
    Clue(
        r"fatal error: (\S+\.(?:h|hpp|cuh)): No such file", Reason.LIBRARY_NOT_FOUND, "",
        "the compiler lacks the header {0}: install the development package that has it, or use an image with it (devel)",
        local="the compiler lacks the header {0}: install the development package that has it",
    ),
    Clue(
        r"cannot find -l(\w+)", Reason.LIBRARY_NOT_FOUND, "",
        "the linker lacks lib{0}.so: install its development package in the image, or add its directory to LIBRARY_PATH",
        local="the linker lacks lib{0}.so: install its development package, or add its directory to LIBRARY_PATH",
    ),
    Clue(
        r"Could not load library lib\S+\.so", Reason.LIBRARY_NOT_FOUND, "",
        "two versions of the library are mixed: put torch's own version first in LD_LIBRARY_PATH, or unset the variable",
    ),
    Clue(
        r"bitsandbytes CUDA binary|CUDA Setup failed despite", Reason.LIBRARY_NOT_FOUND, "",
        "bitsandbytes has no build for this CUDA: install another version of it, and unset BNB_CUDA_VERSION",
    ),
    Clue(
        r"untagged enum (?:ModelWrapper|PyPreTokenizerTypeWrapper|\w+Wrapper)|does not recognize this architecture",
        Reason.VERSIONS_CONFLICT, "",
        "a newer version of the library wrote the file: pip install -U tokenizers transformers",
    ),
    Clue(
        r"nothing provides (?:requested )?(\S+)", Reason.VERSIONS_CONFLICT, "",
        "no channel has a compatible version of {0}: choose other versions; __cuda and __glibc stand for this machine's "
        "driver and "
        "libc (CONDA_OVERRIDE_CUDA names another)",
    ),
    Clue(
        r"Cannot install .*conflicting dependencies", Reason.VERSIONS_CONFLICT, "",
        "choose compatible versions: pip lists below what each package requires",
    ),
    Clue(
        r"Error loading shared library (\S+):", Reason.LIBRARY_NOT_FOUND, "",
        "the image (musl, such as Alpine) lacks {0}: install it (gcompat for programs built for glibc), or use an image with "
        "glibc",
        local="this machine (musl) lacks {0}: install it (gcompat for programs built for glibc)",
    ),
    Clue(
        r"UnsupportedClassVersionError", Reason.VERSIONS_CONFLICT, "",
        "the program is built for a newer Java version: use that version, or build the program for this one (--release)",
    ),
    Clue(
        r"NoSuchMethodError|NoSuchFieldError|AbstractMethodError|IncompatibleClassChangeError", Reason.VERSIONS_CONFLICT, "",
        "two versions of a Java library are on the class path: keep the version that the program is built with",
    ),
    Clue(
        r"Could not find or load main class|NoClassDefFoundError|ClassNotFoundException", Reason.MODULE_NOT_FOUND, "",
        "add the jar that has this class to Java's class path (-cp, --jars, spark.jars)",
    ),
    Clue(
        r"OMP: Error #15", Reason.VERSIONS_CONFLICT, "",
        "two OpenMP libraries are loaded, for example by pip and conda packages: install both from one source",
    ),
    Clue(
        r"unsupported locale setting|cannot change locale", Reason.ENVIRONMENT_MISSING, "",
        "the locale is not installed: set LC_ALL=C.UTF-8 in the container's env, or install the locale",
    ),
    Clue(
        r"ZoneInfoNotFoundError|No time zone found with key", Reason.MODULE_NOT_FOUND, "",
        "the time zone database is missing: install tzdata (with pip, or the system's package)",
    ),
    Clue(
        r"No matching distribution found|Could not find a version that satisfies", Reason.VERSIONS_CONFLICT, "",
        "correct the package's name and version; pip lists the versions that this Python can install; an empty list means an "
        "unknown name",
    ),
    Clue(
        r"cannot import name '|numpy\.dtype size changed|compiled using NumPy 1|"
        r"module '[\w.]+' has no attribute '\w+'(?!\. Did you mean)|"
        r"binary incompatib|VersionConflict|requires \S+[<>=~!]=? ?[\d.]+.* (?:but|is required)|"
        r"is required for a normal functioning",
        Reason.VERSIONS_CONFLICT, "",
        "install compatible versions, and rename any file of yours that has the name of a module",
        local="install compatible versions (pip check), and rename any file of yours that has the name of a module",
    ),
    Clue(
        r"\b(?:SyntaxError|IndentationError|TabError): ", Reason.SYNTAX_ERROR, "",
        "correct the script at the line shown, or run it with the version of Python that it is written for",
    ),
    Clue(
        r"\bloss(?: value)? (?:is|was|became|=|:) ?-?(?:nan|inf)\b.*(?:stop|abort|exit|terminat)", Reason.NOT_A_NUMBER, "",
        "lower the learning rate, clip gradients, check the data for NaN; set_detect_anomaly(True) names the operation",
    ),
    # files, disks, rights
    Clue(
        r"can't open file '([^']+)': \[Errno 2\]", Reason.FILE_NOT_FOUND,
        "the script {0} does not exist", f"in the container's command, {_FILES}",
        local=f"in the container's command, {_LOCAL_FILES}",
    ),
    Clue(
        r"inotify watch limit|inotify_(?:add_watch|init)\b.*(?:No space|Too many)", Reason.LIMIT_REACHED, "",
        "the node has no more inotify watches (the disk is not full): watch fewer directories, or raise "
        "fs.inotify.max_user_watches there",
    ),
    Clue(
        r"failed to pull data from the cloud|do not exist neither locally nor on remote", Reason.FILE_NOT_FOUND, "",
        "the DVC remote lacks these files: run dvc push where they were created, or correct the remote",
    ),
    Clue(
        r"over its data quota|exceeded its (?:LFS|bandwidth) (?:budget|quota)", Reason.LIMIT_REACHED, "",
        "the account has used up its quota on the server: buy more, or load the files from elsewhere",
    ),
    Clue(
        r"No space left on device|Disk quota exceeded|\[Errno (?:28|122)\]|ENOSPC|code: 28, kind: StorageFull|"
        # torch.save, numpy and TensorFlow name no disk.
        r"PytorchStreamWriter failed|inline_container\.cc:\d+\] \. unexpected pos|basic_ios::clear: iostream error|"
        r"\b\d+ requested and \d+ written|file write failed",
        Reason.DISK_FULL, "", "write to a larger volume, or keep fewer checkpoints; the file left behind is incomplete",
    ),
    Clue(
        r"\[Errno 27\]|File size limit exceeded", Reason.LIMIT_REACHED, "",
        "a file exceeded the size limit: raise the limit (ulimit -f), or write smaller files",
    ),
    Clue(
        r"CPU time limit exceeded", Reason.LIMIT_REACHED, "",
        "the program exceeded its CPU time limit: raise or remove it (ulimit -t)",
    ),
    Clue(
        r"/dev/fuse\b.*(?:not permitted|denied)|fusermount.*(?:not permitted|denied|"
        r"mount failed)", Reason.PERMISSION_DENIED, "",
        "the container may not use FUSE: mount the volume by a CSI driver, or give the container the device and SYS_ADMIN",
    ),
    Clue(r"Read-only file system|\[Errno 30\]", Reason.PERMISSION_DENIED, "",
         "write to a volume, such as an emptyDir, that is not mounted with readOnly: true"),
    Clue(
        r"Stale (?:NFS )?file handle|Input/output error|\[Errno (?:5|103|107|116)\]|"
        r"Transport endpoint is not connected|database is locked",
        Reason.STORAGE_FAILED, "",
        "the volume does not respond: check its server or driver, and whether other pods on the node can use it",
    ),
    Clue(
        r"No locks available|\[Errno 37\]", Reason.STORAGE_FAILED, "",
        "the volume does not support locks: mount it with locks (NFS: lockd, Lustre: flock), or open the file without locks "
        "(lock=False)",
    ),
    Clue(
        r"unable to lock file", Reason.STORAGE_FAILED, "",
        "another process has the file open, or its volume does not support locks: set HDF5_USE_FILE_LOCKING=FALSE if the file "
        "is only read",
    ),
    Clue(
        r"Timed out waiting for lock|file lock '.*' could not be acquired|filelock\.\w*\.?Timeout|Unable to create '\S+\.lock'|"
        r"Could not get lock|Waiting for (?:another|process with pid)\b.*lock",
        Reason.STORAGE_FAILED, "",
        "another process holds the lock, or died while holding it: check who uses the file, and remove the lock if it is "
        "unused",
    ),
    Clue(
        r"Device or resource busy|Directory not empty: '\S*|\[Errno (?:16|26|39|52|70|108|112|121)\]|Remote I/O error",
        Reason.STORAGE_FAILED, "",
        "another process uses this file or directory, or its volume does not respond: check who has it open",
    ),
    Clue(
        r"FileExistsError|\[Errno 17\]|destination path '.*' already exists", Reason.FILE_NOT_FOUND, "",
        "it exists already, from an earlier attempt or from another replica: make the program accept that (os.makedirs(..., "
        "exist_ok=True)), or put rank and attempt into its name",
    ),
    Clue(
        r"detected dubious ownership in repository|externally-managed-environment", Reason.PERMISSION_DENIED, "",
        "git: git config --global --add safe.directory DIR; pip: install into a virtual environment of your own",
    ),
    # memory and limits
    Clue(
        r"\bibv_\w+.*(?:Cannot allocate memory|ENOMEM)|RLIMIT_MEMLOCK|memlock limit", Reason.LIMIT_REACHED, "",
        "InfiniBand needs to lock memory, not more memory: raise the limit of the container runtime (ulimit -l), add the "
        "capability IPC_LOCK to securityContext, or set NCCL_IB_DISABLE=1",
        local="InfiniBand needs to lock memory: raise the limit (ulimit -l), or set NCCL_IB_DISABLE=1",
    ),
    Clue(
        r"too many clients already|remaining connection slots are reserved|Too many connections|"
        r"max number of clients reached", Reason.LIMIT_REACHED, "",
        "the server accepts no more connections: raise its limit (max_connections), or use a connection pool",
    ),
    Clue(
        r"\bSlowDown\b|reduce your request rate|\bThrottl\w*Exception|\((?:Throttling|RequestLimitExceeded|ServerBusy)\)|"
        r"TooManyRequests|rateLimitExceeded|429 Client Error|HTTP Error 429|returned error: 429|\bERROR 429\b|"
        r"429:? Too Many Requests",
        Reason.LIMIT_REACHED, "",
        "the server limits the rate of requests: use fewer concurrent readers and writers, and retry with longer delays "
        "(boto3: retries mode adaptive)",
    ),
    Clue(
        r"exit(?:ed with exit)? code 137\b.*(?:OOM|SIGKILL)|possible container OOM|killed by YARN for exceeding|"
        r"Consider boosting spark\.(?:executor|yarn)", Reason.MEMORY_EXHAUSTED, "",
        "executors of Spark are killed for lack of memory: raise spark.executor.memoryOverhead and the memory of their "
        "pods, or use "
        "more partitions",
    ),
    Clue(
        r"JavaScript heap out of memory", Reason.MEMORY_EXHAUSTED, "",
        "raise the heap of node: NODE_OPTIONS=--max-old-space-size=MIB in the container's env, and "
        "resources.limits.memory above it",
        local="raise the heap of node: NODE_OPTIONS=--max-old-space-size=MIB",
    ),
    Clue(
        r"node running low on memory|exceeded \d+% memory budget", Reason.MEMORY_EXHAUSTED, "",
        "a worker process (Ray, Dask) exceeded its memory limit: start fewer workers, give them smaller parts, or raise "
        "resources.limits.memory and the workers' own limit",
    ),
    Clue(
        r"DataLoader worker .*killed by signal: (?:Segmentation fault|Aborted|Illegal)", Reason.WORKER_PROCESS_KILLED, "",
        "a native library crashed in a data loader worker: use num_workers=0 with python -X faulthandler, which "
        "prints where",
    ),
    Clue(
        r"OutOfMemoryError: (?:Java heap|GC overhead|Metaspace|Requested array size)", Reason.MEMORY_EXHAUSTED, "",
        "raise Java's heap (-Xmx, or spark.driver.memory and spark.executor.memory), and resources.limits.memory above it",
        local="raise Java's heap (-Xmx, or spark.driver.memory and spark.executor.memory)",
    ),
    Clue(
        r"^MemoryError|\bMemoryError\b|ArrayMemoryError|std::bad_alloc|Cannot allocate memory|DefaultCPUAllocator|"
        r"Unable to allocate [\d.]+ \w+ for|cannot allocate vector of size|"
        r"not enough memory: you tried|\[Errno 12\]",
        Reason.MEMORY_EXHAUSTED, "", _MEMORY,
    ),
    Clue(
        r"DataLoader worker \(pid\(?s?\)? [\d, ]+\) (?:is killed by signal: \w+|exited unexpectedly)|"
        r"terminated abruptly while the future was|BrokenProcessPool|\(signal: 9, SIGKILL|Negsignal\.SIGKILL|"
        r"ActorDiedError|WorkerCrashedError|KilledWorker|Kernel died|DeadKernelError|died with <Signals\.SIGKILL|"
        r"TerminatedWorkerError",
        Reason.WORKER_PROCESS_KILLED, "", f"usually a lack of memory: {_MEMORY}",
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
        r"Resource temporarily unavailable|"
        r"received 0 items of ancdata|\[Errno (?:11|24)\]|"
        r"OMP: Error #34|fork: retry|File name too long",
        Reason.LIMIT_REACHED, "",
        "use fewer threads and workers (OMP_NUM_THREADS, num_workers), or raise the limit (ulimit -n for files, ulimit -u and "
        "the PID limit of the pod for threads)",
    ),
    Clue(
        r"Address already in use|EADDRINUSE|Binding port \d+ failed|\[Errno 98\]|errno: 98\b|Failed to bind|"
        r"port is already (?:allocated|"
        r"in use)|Only one usage of each socket|Could not start gRPC server",
        Reason.PORT_IN_USE, "", "choose another port, or stop the process that still uses it",
    ),
    Clue(
        r"Cannot assign requested address|\[Errno 99\]|errno: 99\b", Reason.PEERS_UNREACHABLE, "",
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
    # checkpoints and data
    Clue(
        r"DP world size of (\d+) but the current world size is (\d+)", Reason.CHECKPOINT_MISMATCH, "",
        "{0} ranks wrote the checkpoint, and the job has {1}: run {0} ranks, convert it (universal checkpoint), or load only "
        "the weights",
    ),
    Clue(
        r"Failed to find any matching files for", Reason.FILE_NOT_FOUND, "",
        "correct the checkpoint's path, which matches no file: it is the common prefix of the checkpoint's files (such as "
        "ckpt-1)",
    ),
    Clue(
        r"HeaderTooLarge", Reason.DATA_INVALID, "",
        "it is not a safetensors file, perhaps a Git LFS pointer (head -c 200 FILE): run git lfs pull, or download it again",
    ),
    Clue(
        r"Weights only load failed", Reason.CHECKPOINT_MISMATCH, "",
        "the file contains more than tensors: use torch.load(..., weights_only=False) if you trust it, or "
        "torch.serialization.add_safe_globals([CLASS]), or save only the state_dict",
    ),
    Clue(
        r"BadZipFile|BadGzipFile|not a gzip file|\btarfile\.ReadError|not a (?:zip|tar) archive", Reason.DATA_INVALID, "",
        "the file is not such an archive, or is incomplete: check its content (file, head -c 200), which may be an error "
        "page, and download it again",
    ),
    Clue(
        r"Ran out of input[\s\S]*(?:multiprocessing/spawn\.py|from_parent)", Reason.PYTHON_EXCEPTION, "",
        "the parent process failed while it sent data to this process: see the exception of the parent", symptom=True,
    ),
    Clue(
        r"Error\(s\) in loading state_dict|size mismatch for|(?:Missing|Unexpected) key\(s\) in state_dict|"
        r"PytorchStreamReader failed|"
        r"invalid header or archive is corrupted|Weights only load failed|UnpicklingError|loaded state dict|"
        r"MetadataIncompleteBuffer|"
        r"SafetensorError|Ran out of input|[Mm]issing key in checkpoint|not compatible with .*checkpoint|"
        r"checkpoint.*(?:corrupt|truncated|mismatch|"
        r"incompatible)|"
        r"(?:Unsuccessful TensorSliceReader|not found in checkpoint)|Shapes .* incompatible|"
        r"doesn't match (?:the )?(?:size of )?checkpoint",
        Reason.CHECKPOINT_MISMATCH, "",
        "load the checkpoint into the model it was saved from; if the file is damaged, resume from an earlier checkpoint or "
        "delete it",
    ),
    Clue(
        r"(?:missing|extraneous input|mismatched input|no viable alternative|"
        r"token recognition error).{,40}\bat(?: input)? '", Reason.WRONG_ARGUMENTS,
        "", "correct the override in the arguments, which hydra cannot parse: KEY=VALUE, with quotes around special characters",
    ),
    Clue(
        r"JSONDecodeError|yaml\.\w+\.\w+Error|(?<!errors\.)(?:Scanner|Parser|Constructor|Composer)Error: |TOMLDecodeError|"
        r"configparser\.\w+Error|"
        r"omegaconf\.errors|hydra\.errors|MissingConfigException|ConfigAttributeError|validation errors? for|"
        r"jsonschema\.\S*ValidationError|"
        r"Could not override '|Error in call to target '|In '[\w/]+': Could not find '|Missing mandatory value|"
        r"(?:Error|invalid value) in (?:config|configuration)|invalid (?:json|yaml|toml)|"
        r"InvalidConfig|ConfigError|Invalid TF_CONFIG",
        Reason.CONFIG_INVALID, "", "correct the file or value that the message names",
    ),
    # other machines
    Clue(
        r"CERTIFICATE_VERIFY_FAILED|certificate verif(?:y|ication) failed|SSLCertVerification|certificate (?:is not yet valid|"
        r"has expired)|self.signed certificate|"
        r"\bSSLError\b|\bSSL: [A-Z_]+\]|unable to get local issuer|invalid peer certificate|UnknownIssuer|"
        r"hostname mismatch|x509:|SSL certificate problem",
        Reason.TLS_FAILED, "",
        "compare the clock with the certificate's dates, and give the program the CA that signed it "
        "(SSL_CERT_FILE, REQUESTS_CA_BUNDLE)",
    ),
    Clue(
        r"Tunnel connection failed|407 Proxy|Proxy Authentication Required", Reason.HOST_UNREACHABLE, "",
        "the proxy in HTTPS_PROXY refuses the connection: put the user and password into its URL, or exclude the host "
        "(NO_PROXY)",
    ),
    Clue(
        r"was not reachable via ssh", Reason.PEERS_UNREACHABLE, "",
        "the launcher does not reach sshd there: check whether that replica is running, whether its name resolves, and the "
        "SSH keys",
        symptom=True,
    ),
    Clue(
        r"RequestTimeTooSkewed|Clock skew too great|request time and the current time is too large|"
        r"Signature (?:not yet current|expired)",
        Reason.ACCESS_DENIED, "",
        "the node's clock is wrong, not the credentials: synchronize it (NTP; chronyc tracking shows the offset), or use "
        "another node",
        local="this machine's clock is wrong, not the credentials: synchronize it (NTP; chronyc tracking shows the offset)",
    ),
    Clue(
        r"already exists in database: \S+\.proto|duplicate symbol '\S+\.proto|TypeError: Couldn't build proto file|"
        r"Descriptors cannot (?:not )?be created directly", Reason.VERSIONS_CONFLICT, "",
        "two libraries contain the same protobuf messages, or protobuf is too new for a library: install a single build of "
        "each, or a compatible protobuf (pip check); PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=python avoids it",
    ),
    Clue(
        r"\bkinit\b|GSSAPI|GSSException|\bKerberos\b|\bKRB5|\bTGT\b", Reason.ACCESS_DENIED, "",
        "Kerberos rejects the program: check that its keytab is mounted and valid, that kinit runs first and again in long "
        "runs, and that the node's clock is right",
    ),
    Clue(
        r"\blicen[sc]es?\b.{,60}\b(?:not found|expired|denied|fail\w*|invalid|not (?:valid|available)|checkout|exceeded|"
        r"unavailable|in use)|"
        r"\b(?:no|invalid|expired|missing|checkout|find|obtain|get|acquire)\b.{,30}\blicen[sc]e\b", Reason.ACCESS_DENIED, "",
        "the program gets no licence: mount its file or name its server in env, and check whether it has a free seat",
    ),
    Clue(
        # Of mpirun's launcher, which may exec into the pods of its workers only.
        r"pods \"[\w.-]+\" (?:not found|is forbidden: User \"\S+-launcher\" cannot get resource)", Reason.PEERS_UNREACHABLE, "",
        _PEERS, symptom=True, local=_LOCAL_PEERS,
    ),
    Clue(
        r"is forbidden: User \\?\"system:serviceaccount:", Reason.ACCESS_DENIED, "",
        "grant the pod's ServiceAccount this right with a Role and a RoleBinding, and name the account in serviceAccountName",
    ),
    Clue(
        r"lookup (\S+?)(?: on \S+)?: (?:no such host|server misbehaving|i/o timeout)", Reason.HOST_UNREACHABLE, "",
        "the name {0} does not resolve here: correct it, or see that its Service exists and that the pod's DNS works",
    ),
    Clue(
        r"40[13] Client Error|(?:ServiceException|AccessDeniedException|HTTPError):? 40[13]|\b403 (?:Access Denied|GET|POST)\b|"
        r"Access denied for user|password authentication failed|Authorization failed|\bCode: 40[13]\b|"
        r"returned error: 40[13]|\bERROR 40[13]\b|error occurred \(40[13]\)|"
        r"40[13]: (?:Unauthorized|Forbidden)|"
        r"GatedRepoError|"
        r"gated repo|is restricted|"
        r"NoCredentialsError|Unable to locate credentials|"
        r"InvalidAccessKeyId|AccessDenied|Authorization(?:PermissionMismatch|Failure)|AuthenticationFailed|"
        r"SignatureDoesNotMatch|Expired ?Token|DefaultCredentialsError|"
        r"api_key not configured|No API key|InvalidToken|"
        r"Invalid (?:username or password|API key|user token)|authentication (?:failed|required)|Unauthorized|"
        r"wandb\.errors\.\w*(?:Usage|Auth)\w*Error|"
        r"could not read Username",
        Reason.ACCESS_DENIED, "", _ACCESS,
    ),
    Clue(
        r"404 Client Error|\b404 (?:GET|POST|PUT)\b|ResourceNotFound|RESOURCE_DOES_NOT_EXIST|"
        r"specified (?:bucket|container|key|blob|object) does not exist|"
        r"returned error: 404|\bERROR 404\b|RepositoryNotFound|(?<!Local)EntryNotFoundError|RevisionNotFound|"
        r"NoSuchBucket|"
        r"NoSuchKey|HTTP Error 404|"
        r"is not a local folder and is not a valid model identifier|DatasetNotFoundError|"
        r"fatal: (?:repository )?'.+' (?:does not appear to be a git repository|does not exist|not found)",
        Reason.FILE_NOT_FOUND, "",
        "correct the name of the model, data set, repository or object; if it is private, a token is needed, too",
    ),
    Clue(
        rf"(?:Failed to resolve|couldn't connect to|Could not resolve(?: host)?:?|could not connect to server:?|"
        rf"Temporary failure resolving|unable to resolve host address|Failed to fetch:?|CONNECTION FAILED for url|"
        rf"connection to server at|unable to access|"
        rf"host=|connect to endpoint(?: URL)?:?|HTTPSConnectionPool\(host=|connecting to) ?[\"'‘`<]?(?:https?://)?{_HOST}",
        Reason.HOST_UNREACHABLE, "", _HUB,
        local=_LOCAL_HUB,
    ),
    Clue(
        r"(?:HTTP Error|returned error:|status(?: code)?:?|response) 5\d\d\b|\b5\d\d Server Error|\bERROR 5\d\d\b|"
        r"\((?:InternalError|ServiceUnavailable)\)|\b50[0234]:? (?:Bad Gateway|Service Unavailable|Gateway Time-?out|"
        r"Internal Server)|Backend Error|StatusCode\.(?:INTERNAL|UNIMPLEMENTED)",
        Reason.HOST_UNREACHABLE, "", "the server reports an internal error: check its state and its log, and retry later",
    ),
    Clue(
        r"curl: \((?:5|6|7|28|35|52|56)\)|^wget: .*(?:failed|refused|timed out)|failed: Connection (?:refused|timed out)\.$|"
        r"NoBrokersAvailable|ServerSelectionTimeoutError|Can't connect to \w+ server|"
        r"LocalEntryNotFoundError|Couldn't reach .* on the Hub|"
        r"OfflineModeIsEnabled|Max retries exceeded with url|urlopen error|ConnectTimeout|"
        r"EndpointConnectionError|"
        r"NameResolutionError|ProxyError|ReadTimeout(?:Error)?\b|UnknownHostException|KafkaTimeoutError|_TRANSPORT\b|"
        r"Broker transport failure|(?:Run initialization|wandb\S*) .*timed out|wandb\.errors\.\S*CommError|"
        r"HDFS connection failed",
        Reason.HOST_UNREACHABLE, "", _HUB,
        local=_LOCAL_HUB,
    ),
    # peers of the job
    Clue(
        r"RendezvousConnectionError|\bEI0006\b|Remote Rank did not send", Reason.PEERS_UNREACHABLE, "",
        _PEERS, symptom=True, local=_LOCAL_PEERS,
    ),
    Clue(
        r"RendezvousTimeoutError", Reason.PEERS_UNREACHABLE,
        "fewer torchrun agents joined the rendezvous than --nnodes requires (RendezvousTimeoutError)",
        "set --nnodes to the number of replicas, and check that all replicas start and reach --rdzv-endpoint", symptom=True,
    ),
    Clue(
        r"wait timeout after (\d+)ms, keys: /default_pg/\d+//\w+//\d+/0(?!\d)", Reason.PEERS_UNREACHABLE,
        "rank 0 did not publish its address within {0} ms (wait timeout): it has not started, or is waiting for other ranks "
        "itself",
        _PEERS, symptom=True, local=_LOCAL_PEERS, vague=True,
    ),
    Clue(
        r"wait timeout after (\d+)ms, keys: /default_pg/\d+//\w+//\d+/(\d+)", Reason.PEERS_UNREACHABLE,
        "no process joined as rank {1} within {0} ms (wait timeout)", _PEERS, symptom=True, local=_LOCAL_PEERS, vague=True,
    ),
    Clue(
        r"tasks that reached the barrier: (\d+/\d+)[\s\S]*?timed out task names:\s*(/job:\S+(?:\s+/job:\S+)*)",
        Reason.PEERS_UNREACHABLE, "{1} did not reach the barrier of the coordinator, {0} did (Barrier timed out)",
        _PEERS, symptom=True, local=_LOCAL_PEERS,
    ),
    Clue(
        r"remote=\[127\.0\.0\.1\].*local=\[127\.0\.0\.1\]|Using the loopback address as fallback", Reason.PEERS_UNREACHABLE, "",
        "the ranks use the loopback address, because the host name has no other: set GLOO_SOCKET_IFNAME=eth0 in "
        "env", symptom=True,
    ),
    Clue(
        r"Could not resolve hostname|ssh: connect to host|ORTE was unable to reliably start|"
        r"unable to reliably start one or more daemons|"
        r"failed to connect to all addresses|"
        r"connect(?:ing)? to (?:scheduler|rank|root)\b.* failed|Proxy Call to rank \d+ failed|"
        r"code = Unavailable|lost communication with a remote daemon|communicator was aborted|"
        r"another task died|"
        r"\(Unavailable\)|"
        r"waiting (?:for the barrier|for tasks|for the scheduler)|\d+/\d+ (?:clients )?(?:joined|reached)|"
        r"RendezvousClosedError|"
        r"(?:c10d|TCPStore|rendezvous|DistNetworkError|DistStoreError|RendezvousConnectionError|NCCL|Gloo|rabit|"
        r"tracker|collective|coordinat\w+|barrier).*"
        r"(?:timed? ?out|timeout|refused|reset|closed|Broken pipe|unreachable|remote process|(?:could not|failed to|"
        r"unable to) connect|DEADLINE_EXCEEDED)|"
        r"ncclRemoteError|ncclSystemError|Connection (?:closed|reset) by (?:remote )?peer|(?:DEADLINE_EXCEEDED|"
        r"UNAVAILABLE): |UnavailableError|DeadlineExceeded|"
        r"Network is unreachable|No route to host|Connection timed out|ConnectionRefusedError|ConnectionResetError|"
        r"BrokenPipeError|Connection refused|Collective ops is aborted|"
        r"HorovodInternalError|Horovod has been shut down|Socket Timeout|"
        r"getaddrinfo|gaierror|Name or service not known|Temporary failure in name resolution|"
        r"resolv(?:e|ing)\b.{,40}\b(?:host|address|name|IP|DNS|endpoint|service|target|\w+-\d+)|"
        r"(?:host|address|name|endpoint)\b.{,80}\bresolv(?:e|ed|ing)\b|not resolvable",
        Reason.PEERS_UNREACHABLE, "", _PEERS, symptom=True, local=_LOCAL_PEERS,
    ),
    # arguments
    Clue(
        r"error: (?:unrecognized arguments|the following arguments are required|argument |ambiguous option|"
        r"one of the arguments|invalid choice)|"
        r"no such option|(?:unknown|unrecognized|unexpected) (?:flag|option|argument|command)s?\b|"
        r"flag provided but not defined|Unrecognized VM option|Invalid maximum heap size|"
        r"Error: (?:Missing (?:option|argument|parameter)|Invalid value for|Got unexpected extra|"
        r"No such command)|"
        r"Flags parsing error|Unknown command line flag|unrecognized option|invalid option|(?<!set: )illegal option|"
        r"Could not consume arg",
        Reason.WRONG_ARGUMENTS, "", "correct args in the pod template; with jobcommon run, the arguments after --",
    ),
    *SHELL,
    # what is left of NCCL's
    Clue(r"^Last error: \S", Reason.GPU_ERROR, "", _NCCL),
)  # fmt: skip

#: Of exceptions only: elsewhere such words are part of ordinary output. After all of LINES.
EXCEPTIONS = (
    Clue(
        r"(?:Input|Labels?|Data|Features?|Column|target|y|X)\b.{,20}contains? (?:NaN|infinity|inf\b|"
        r"missing)", Reason.DATA_INVALID, "",
        "check the data: replace missing and infinite values, or drop their rows",
    ),
    Clue(
        r"\b(?:nan|inf|infinity|non-finite|not finite)\b.*(?:loss|grad|summary|tensor|weight|values?|input|"
        r"predictions|detected)|"
        r"(?:loss|grad\w*|tensor|weights?|outputs?|input)\b.*\b(?:nan|inf|infinity|non-finite|not finite)\b|"
        r"FloatingPointError|NaNLoss|NanLoss|diverged",
        Reason.NOT_A_NUMBER, "",
        "lower the learning rate, clip gradients, check the data for NaN; set_detect_anomaly(True) names the operation",
    ),
    Clue(
        r"'ascii' codec can't|'latin-1' codec can't encode|'charmap' codec can't encode", Reason.ENVIRONMENT_MISSING, "",
        "set PYTHONUTF8=1 in the container's env, because its locale is not UTF-8, or pass encoding='utf-8'",
    ),
    Clue(
        r"before the\s+current process has finished its bootstrapping phase|Please use the 'if __name__ == '__main__'",
        Reason.PYTHON_EXCEPTION,
        "the script starts processes when it is imported, without if __name__ == \"__main__\": (RuntimeError of spawn)",
        'move the script\'s code into a function, and call it under if __name__ == "__main__": spawned processes import it',
    ),
    Clue(
        r"multiprocessing\.\w+\.TimeoutError|\b_?queue\.Empty|concurrent\.futures\.\w+\.TimeoutError",
        Reason.PYTHON_EXCEPTION, "",
        "a process or thread that it started did not answer in time: see what it printed before", symptom=True,
    ),
    Clue(
        r"context has already been set", Reason.PYTHON_EXCEPTION, "",
        "the start method is set twice, the second time perhaps by a spawned process, which imports the script: set it under "
        'if __name__ == "__main__"',
    ),
    Clue(
        r"Can't pickle (?:local object|<function)|Can't get (?:local )?(?:attribute|object) '|cannot pickle '",
        Reason.PYTHON_EXCEPTION, "",
        "arguments of a spawned process or a data loader worker must be picklable: define functions and classes at the top "
        "level of a module, pass no lambda and no open file; or start processes with fork (multiprocessing_context='fork')",
    ),
    Clue(
        r"contains pickled \(object\) data|reading magic string|Failed to interpret file|containing pickled data|"
        r"EmptyDataError|ArrowInvalid|"
        r"UnidentifiedImageError|Unrecognized image format|nvJPEG error|UnicodeDecodeError|(?:checksum|CRC|"
        r"hash) (?:mismatch|check failed)|"
        r"corrupt(?:ed)?\b|truncated|"
        r"zlib\.error|ParserError|DataLossError",
        Reason.DATA_INVALID, "", "check the file: it is damaged, incomplete or not in the format that the program reads",
    ),
    Clue(
        r"resize storage that is not resizable|expects each tensor to be equal size", Reason.DATA_INVALID, "",
        "the samples of a batch have different shapes: give them the same shape in the data set, or pass the DataLoader a "
        "collate_fn",
    ),
    Clue(r"IsADirectory", Reason.FILE_NOT_FOUND, "",
         "give the path of a file; a mount whose subPath does not exist in the volume is an empty directory"),
    Clue(
        r"DataLoader timed out", Reason.PYTHON_EXCEPTION, "",
        "a data loader worker hangs: check its storage, try num_workers=0, or use multiprocessing_context='spawn'",
    ),
    Clue(r"NCCL error", Reason.GPU_ERROR, "", _NCCL),
    Clue(r"FileNotFoundError|No such file or directory|unable to open database file|"
         r"NoSuchFileError|\b(?:file|directory|folder|path|checkpoint)\b.{,120}does(?: not|n't) exist|"
         r"[/.][\w./-]+[\'\"]? does(?: not|n't) exist|NotADirectory",
         Reason.FILE_NOT_FOUND, "", _FILES, local=_LOCAL_FILES),
    Clue(
        r"PermissionError|Permission denied|\[Errno 13\]|EACCES|Operation not permitted", Reason.PERMISSION_DENIED, "",
        _OWNER,
    ),
)  # fmt: skip

#: Of plain lines, if nothing above was found. `{0}` as a reason is a signal's name.
REMAINS = (
    Clue(
        r"^(?:Killed|Segmentation fault)(?: \(core dumped\))?$",
        Reason.WORKER_PROCESS_KILLED, "", "a program in the script was killed; the cause of SIGKILL is usually a lack of "
        f"memory: {_MEMORY}",
    ),
    Clue(
        # What bash quotes of the command goes on in the next lines.
        r"^(.*: line \d+): +(\d+ Killed) +([^\"']+?)(?: -c)? [\"'].*", Reason.WORKER_PROCESS_KILLED, "{0}: {1} {2} …",
        f"the cause of SIGKILL is usually a lack of memory: {_MEMORY}",
    ),
    Clue(
        r": line \d+: +\d+ Illegal instruction|^Illegal instruction|exited on signal 4\b", Reason.WORKER_PROCESS_KILLED, "",
        "it uses instructions that this node's CPU lacks, as AVX: use other nodes, or a build for this CPU",
        local="it uses instructions that this CPU lacks, as AVX: use a build for this CPU",
    ),
    Clue(
        r"exited on signal 7\b|terminated with signal SIGBUS|\bBus error\b", Reason.WORKER_PROCESS_KILLED, "",
        f"often /dev/shm is full: {_SHM}", local=f"often /dev/shm of this machine is full: {_LOCAL_SHM}",
    ),
    Clue(
        r"exited on signal (?:4|6|8|11)\b|Signal \d+ \(SIG(?:SEGV|ILL|FPE)\) received|terminated with signal SIG(?:SEGV|"
        r"ABRT|ILL|FPE)|BY SIGNAL: (?:4|6|8|11)\b|: line \d+: +\d+ (?:Segmentation fault|Illegal instruction)",
        Reason.WORKER_PROCESS_KILLED, "",
        "native code crashed in this process: if it is Python, run it with python -X faulthandler, which prints where",
    ),
    Clue(
        r"Signal \d+ \(((?!SIGTERM|SIGABRT)SIG\w+)\) received by PID|"
        r"exited on signal \d+ \((Killed|Segmentation fault|Aborted|Bus error|"
        r"Terminated)\)|"
        r"terminated with signal (SIG\w+)|"
        r": line \d+: +\d+ (?:Killed|Segmentation fault|Bus error)",
        Reason.WORKER_PROCESS_KILLED, "", f"the cause of SIGKILL is usually a lack of memory: {_MEMORY}",
    ),
    Clue(
        r"(?:return ?code|exit ?code|exit ?status|status)\s*[:=]?\s*-7\b|(?:exited|exit|"
        r"terminated) with (?:exit )?(?:status|code) 135\b",
        Reason.WORKER_PROCESS_KILLED, "", f"-7 is SIGBUS, often a full /dev/shm: {_SHM}",
        local=f"-7 is SIGBUS, often a full /dev/shm of this machine: {_LOCAL_SHM}",
    ),
    Clue(
        r"(?:return ?code|exit ?code|exit ?status|status)\s*[:=]?\s*-(?:11|4)\b|"
        r"(?:exited|exit|terminated) with (?:exit )?(?:status|code) (?:139|132)\b",
        Reason.WORKER_PROCESS_KILLED, "",
        "-11 is a segmentation fault of native code, -4 an instruction that this CPU lacks: run it with python -X faulthandler",
    ),
    Clue(
        r"(?:return ?code|exit ?code|exit ?status|status)\s*[:=]?\s*-9\b|"
        r"(?:exited|exit|terminated) with (?:exit )?(?:status|code) 137\b",
        Reason.WORKER_PROCESS_KILLED, "",
        f"a launcher prints the signal as a negative number; the cause of -9 (SIGKILL) is usually a lack of memory: {_MEMORY}",
    ),
    Clue(
        r'\(most recent call first\): File "(?:[^"]*/)?([^"]+)", line (\d+) in (.+)', Reason.PROGRAM_FAILED,
        "Python's faulthandler shows it in {2} ({0}, line {1})", "see why it did not continue there; a timeout may have ended "
        "it",
    ),
    Clue(
        r"Container failed !!!", Reason.PROGRAM_FAILED, "",
        "paddle.distributed.launch writes the processes' output to log/workerlog.N: put --log_dir on a volume",
    ),
    Clue(
        # Of Go and Rust, whose stack follows.
        r"^(?:panic|fatal error): |^thread '.*' (?:\(\d+\) )?panicked at ",
        Reason.PROGRAM_FAILED, "", "correct what the message names: the program, its data or its settings",
    ),
    Clue(
        # Of Java, and of what is built on it.
        r"Exception in thread \"|^(?:Caused by: )?(?:java|javax|org|com|scala|kotlin|io)\.[\w.$]+(?:Exception|Error)\b",
        Reason.PROGRAM_FAILED, "", "correct what the exception names: the program, its data or its settings",
    ),
    Clue(
        # An exception that the program has caught and printed.
        r"(?<!raise )(?-i:\b[A-Z]\w*(?:Error|Exception))(?:\(|: | in rule )(?!\s*=)", Reason.PYTHON_EXCEPTION, "",
        "correct what the message names: the program, its data or its settings",
    ),
    Clue(r"Permission denied|Operation not permitted|EACCES", Reason.PERMISSION_DENIED, "",
         _OWNER),
    Clue(r"(?:can't cd to|cd: .*No such file|(?:cannot|can't) (?:open|access|stat|find|read|load)\b.*|"
         r"No such file or directory)",
         Reason.FILE_NOT_FOUND, "", _FILES, local=_LOCAL_FILES),
)  # fmt: skip

#: What launchers report of a process that has ended, the first first. The lines before say more, if they have an error.
REPORTS = (
    Clue(
        r"first process to do so was: Process name: \[\[\d+,\d+\],(\d+)\] Exit code: +(\d+)", Reason.PROGRAM_FAILED,
        "rank {0} ended first, with exit code {1}", "see the lines that this rank printed before", symptom=True,
    ),
    Clue(
        r"MPI_ABORT was invoked on rank (\d+)(?:.*?errorcode (-?\d+))?", Reason.PROGRAM_FAILED,
        "rank {0} called MPI_Abort ({1})", "see what this rank printed before", symptom=True,
    ),
    Clue(
        r": line \d+: +\d+ Aborted|Signal 6 \(SIGABRT\) received by PID|(?:return ?code|"
        r"exit ?code|status)\s*[:=]?\s*-6\b|"
        r"(?:status|code) 134\b|MPI_Abort|BY SIGNAL: \d+|EXIT CODE: \d+|the first process to do so was|"
        r"Exit code: +(\d+)|non-zero (?:exit )?(?:status|code)(?!.{,3}Per user)|Process (\d+) exit with status code [1-9]",
        Reason.PROGRAM_FAILED, "", "see the lines that the rank printed before", symptom=True,
    ),
)  # fmt: skip

#: A line of these levels is not the error. NCCL has no other word for its errors.
MERELY_A_WARNING = re.compile(r"(?<!NCCL )(?:\b|_)warn(?:ing)?\b|Warning:|^W\d{4}|\bINFO\b|^I\d{4}|\bDEBUG\b", re.IGNORECASE)


def unreachable(text: str, *, local: bool = False) -> Cause:
    """The cause of a connection to a host that is none of the job's."""
    return Cause(Reason.HOST_UNREACHABLE, text, _LOCAL_HUB if local else _HUB)
