"""Clues to what is wrong with GPUs, TPUs and shared memory."""

from jobcommon.causes.cause import Clue
from jobcommon.causes.cause_reasons import Reason
from jobcommon.causes.clues.advice import DISK, LOCAL_SHM, MEMORY, SHM

SHARED_MEMORY = (
    Clue(
        r"File exists[\s\S]*(?:shm_open|SharedMemory|shared_memory)", Reason.PYTHON_EXCEPTION,
        "", "shared memory with this name exists already, from an earlier run or another process: remove it "
        "(streaming.base.util.clean_stale_shared_memory(), or /dev/shm/NAME), or start the processes with a single launcher",
    ),
    Clue(
        r"unable to open shared memory object(?!.*(?:No space|\(28\)))", Reason.SHARED_MEMORY_FULL, "",
        "raise the limit of open files (ulimit -n), or use torch.multiprocessing.set_sharing_strategy('file_system'); or "
        f"{SHM}",
        local="raise the limit of open files (ulimit -n), or use torch.multiprocessing.set_sharing_strategy('file_system'), or "
        "enlarge /dev/shm",
    ),
    Clue(
        r"insufficient shared memory|DataLoader (?:worker|process) .*killed by signal: Bus error|"
        r"insufficient shared storage|/dev/shm\S*.*No space left|No space left.*/dev/shm|"
        r"(?:creating|attaching|extend|allocat\w*) shared memory segment|shm_open|unable to (?:open|write|mmap) .*shm|"
        r"torch_shm_manager|shared memory object|"
        r"not enough (?:free )?space for (?:the )?shared memory|shared memory backing file|unable to allocate shared memory",
        Reason.SHARED_MEMORY_FULL, "", SHM, local=LOCAL_SHM,
    ),
)  # fmt: skip

DEVICES = (
    Clue(
        r"ResourceExhausted[\s\S]*(?:No space left on device|Disk quota exceeded)", Reason.DISK_FULL, "",
        DISK,
    ),
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
        r"OOM when allocating[\s\S]*(?:device:CPU|allocator cpu|/cpu:0)", Reason.MEMORY_EXHAUSTED, "", MEMORY,
    ),
    Clue(
        r"CUDA out of memory|OutOfMemoryError: CUDA|CUDA error: out of memory|CUBLAS_STATUS_ALLOC_FAILED|"
        r"CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation|out_of_memory: CUDA|Cuda failure.*out of memory|"
        r"RESOURCE_EXHAUSTED: .*(?:memory|allocat)|OOM when allocating|Out of memory error on GPU|ResourceExhausted|"
        r"MXNetError: .*out of memory|cudaMalloc (?:retry )?failed",
        Reason.GPU_OUT_OF_MEMORY, "", "use a smaller batch, gradient checkpointing or a GPU with more memory",
    ),
    Clue(
        r"CUBLAS_STATUS_NOT_INIT|CUDNN_STATUS_NOT_INIT|CUDNN_STATUS_INTERNAL_ERROR", Reason.GPU_ERROR, "",
        "usually the memory of the GPU is used up (another process, or a batch that is too large), or an index was out of "
        "range before (CUDA_LAUNCH_BLOCKING=1 shows it), or the driver does not fit the library",
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
        r"Unknown (?:c10d )?backend type (\w+)|Specify a 'device:backend' string|(?:Invalid|Unknown) backend:? '?(nccl|gloo|"
        r"mpi|ucc|hccl|xccl)\b|"
        r"(?:NCCL|nccl) (?:is|was) not (?:available|built|compiled)|\b(NCCL|MPI|UCC|Gloo) backend is not available|"
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
        r"illegal memory access|unspecified launch failure|NVRM: Xid|misaligned address|"
        r"CUDNN_STATUS_(?!NOT_INIT|NOT_SUPP)|CUBLAS_STATUS_(?!ALLOC|NOT_INIT|NOT_SUPP)|ncclUnhandledCudaError|"
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
        r"setup doesn't support bf16/gpu", Reason.GPU_UNUSABLE, "",
        "no GPU is visible to the program (request nvidia.com/gpu in resources.limits), or it is too old for bf16: use fp16",
        local="no GPU is visible to the program, or it is too old for bf16: use fp16, or fp32 on a CPU",
    ),
    Clue(
        r"FlashAttention only supports [\w ]*GPUs|only (?:supported|available) on GPUs with compute capability|"
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
        r"Device acquire failed|Device already acquired", Reason.GPU_UNUSABLE, "",
        "no Gaudi is free for the program: request habana.ai/gaudi in resources.limits, and end the process that holds the "
        "device",
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
        r"Torch not compiled with CUDA|has no attribute '_cuda_\w+'", Reason.GPU_UNUSABLE, "",
        "this torch is built without CUDA: install a build with it in the image, or use the device cpu",
        local="this torch is built without CUDA: install a build with it, or use the device cpu",
    ),
    Clue(
        r"NVIDIA driver on your system|can only be used on (?:CUDA|GPU) devices|"
        r"on CUDA device \d|Invalid device id|no CUDA-capable device|CUDA_ERROR_NO_DEVICE|"
        r"No CUDA GPUs are available|No visible GPU|but only \d+ GPUs|no GPUs? (?:found|is available|available|detected)|"
        r"libcuda\.so|CUDA initialization: |Unable to initialize backend '|NVMLError|initiali[sz]e NVML|nvmlInit|"
        r"torch\.cuda\.is_available\(\) is False|"
        r"deserialize object on a CUDA device|You need a GPU|cannot find any torch accelerator|"
        r"no supported devices found for platform|not compiled with (?:CUDA|GPU)|"
        r"only supported with GPUs|CUDA is not available|"
        r"requires? (?:a )?(?:CUDA|GPU)(?:-\w+)?(?: (?:device|GPU|accelerator|resources)s?)?(?:[.,;]| but\b| to run\b|$)",
        Reason.GPU_UNUSABLE, "",
        "request nvidia.com/gpu in resources.limits, and use an image whose CUDA version the node's driver supports",
        local="this machine has no such device for pods: use the CPU, or a build of torch that this machine's driver supports",
    ),
)  # fmt: skip
