"""The cause that a failed program's last lines tell: one row for each, with lines as these programs print them."""

# ruff: noqa: E501  recorded texts, as they come

import json

import pytest

from jobcommon.causes.clues.launchers import REMAINS, REPORTS
from jobcommon.causes.commands import COMMANDS, INTERPRETERS, LINE_ENDS, RUNTIME
from jobcommon.causes.programs import EXCEPTIONS, LINES
from jobcommon.causes.runs import end_of_program, error_in
from jobcommon.client.lines import shown_lines


def trace(exception: str, *frames: str, before: str = "") -> str:
    """A traceback that ends with `exception`; `frames` are lines of it."""
    inner = "\n".join(frames or ('  File "/app/train.py", line 12, in main', "    run()"))
    return f"{before}Traceback (most recent call last):\n{inner}\n{exception}"


DURING = "\n\nDuring handling of the above exception, another exception occurred:\n\n"
NO_NCCL = trace(
    "RuntimeError: Distributed package doesn't have NCCL built in",
    '  File "/app/ddp.py", line 9, in <module>',
    '    dist.init_process_group("nccl")',
    before="/x/torch/distributed/c10d_logger.py:83: UserWarning: NCCL timed out waiting for devices, using default\n",
)


def stamped(rank: int, printed: str) -> str:
    """What a rank printed, as horovodrun passes it on."""
    return "\n".join(f"Thu Nov 26 09:36:11 2026[{rank}]<stderr>:{line}" for line in printed.splitlines())


def ranked(rank: int, printed: str) -> str:
    """What a rank printed, as torch prefixes it."""
    return "\n".join(f"[rank{rank}]: {line}" for line in printed.splitlines())


def tagged(rank: int, printed: str) -> str:
    """What a rank printed, as mpirun passes it on."""
    return "\n".join(f"[1,{rank}]<stderr>:{line}" for line in printed.splitlines())


def boxed(message: str) -> str:
    """A message of Open MPI."""
    return f"{74 * '-'}\n{message}\n{74 * '-'}"


ENVIRON = (
    '  File "/app/train.py", line 3, in <module>',
    '    os.environ["{}"]',
    '  File "<frozen os>", line 685, in __getitem__',
)


def unset(name: str) -> str:
    return trace(f"KeyError: '{name}'", *(line.format(name) for line in ENVIRON))


SHM = trace(
    "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3356, unhandled system error, NCCL version 2.26.2\n"
    "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.\n"
    "Last error:\nError while creating shared memory segment /dev/shm/nccl-vT6Fyh (size 9637888)"
)
WATCHDOG = (
    "[rank0]:[E1123 10:00:00.123 ProcessGroupNCCL.cpp:632] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, "
    "OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600042 milliseconds before timing out.\n"
    "[rank0]:[E1123 10:00:00.124 ProcessGroupNCCL.cpp:705] To avoid data inconsistency, we are taking the entire process down.\n"
    "terminate called after throwing an instance of 'c10::DistBackendError'"
)
HUB = trace(
    "OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them in the cached files.",
    before=trace("socket.gaierror: [Errno -3] Temporary failure in name resolution") + DURING,
)
LOST_PEER = "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.7]:41231"
TWO_RANKS = "\n".join(
    (
        *(f"[rank1]: {line}" for line in trace("ValueError: label 12 is out of range").splitlines()),
        *(f"[rank0]: {line}" for line in trace(LOST_PEER).splitlines()),
        "E1123 10:00:00.000 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: 1) local_rank: 1 (pid: 7) of binary: python",
        trace("torch.distributed.elastic.multiprocessing.errors.ChildFailedError: "),
        "============================================================",
        "Root Cause (first observed failure):",
        "  exitcode  : 1 (pid: 7)",
    )
)
KILLED_RANK = "\n".join(
    (
        trace("torch.distributed.elastic.multiprocessing.errors.ChildFailedError: "),
        "Root Cause (first observed failure):",
        "[0]:",
        "  rank      : 1 (local_rank: 1)",
        "  exitcode  : -9 (pid: 77)",
        "  traceback : Signal 9 (SIGKILL) received by PID 77",
    )
)
SPAWNED = trace(
    "torch.multiprocessing.spawn.ProcessRaisedException: \n\n-- Process 1 terminated with the following error:\n"
    + trace("IndexError: index 5 is out of bounds for dimension 0 with size 5")
)
AT_EXIT = (
    trace("ZeroDivisionError: division by zero")
    + "\nException ignored in: <function _ConnectionBase.__del__ at 0x7f>\n"
    + trace("OSError: [Errno 9] Bad file descriptor")
)
IN_WORKER = trace(
    "RuntimeError: Caught FileNotFoundError in DataLoader worker process 0.\nOriginal Traceback (most recent call last):\n"
    '  File "/app/data.py", line 7, in __getitem__\n    return open(path)\n'
    "FileNotFoundError: [Errno 2] No such file or directory: '/data/train/7.png'"
)
MPI_FAILED = (
    boxed(
        "Primary job  terminated normally, but 1 process returned\na non-zero exit code. Per user-direction, the job has been aborted."
    )
    + "\n"
    + boxed(
        "mpirun detected that one or more processes exited with non-zero status, thus causing\nthe job to be terminated. "
        "The first process to do so was:\n\n  Process name: [[23,1],1]\n  Exit code:    1"
    )
)
BY = "\n\nThe above exception was the direct cause of the following exception:\n\n"
NO_GRPC = "tensorflow.python.framework.errors_impl.UnknownError: Could not start gRPC server"
FULL_ERROR = "\n\nSet the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace."
TAR = "subprocess.CalledProcessError: Command '['tar', 'xf', 'x.tar']' returned non-zero exit status 2."
NCCL = "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:77, {}, NCCL version 2.26.2\n{}\nLast error:\n{}"
UNHANDLED = "ncclUnhandledCudaError: Call to CUDA function failed."
TORCHRUN_OF_8 = (
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\ntrain.py FAILED\n------\nFailures:\n"
    + "\n".join(
        f"[{n}]:\n  time      : 2026-03-11_03:02:48\n  host      : w-0\n  rank      : {n} (local_rank: {n})\n"
        f"  exitcode  : 1 (pid: {n})\n  error_file: <N/A>\n  traceback : To enable traceback see: https://pytorch.org"
        for n in range(1, 9)
    )
    + "\n------\nRoot Cause (first observed failure):\n[0]:\n  time      : 2026-03-11_03:02:48\n  host      : w-0\n"
    "  rank      : 0 (local_rank: 0)\n  exitcode  : 1 (pid: 7)\n  error_file: <N/A>"
)
CRASH = (
    "Fatal Python error: Segmentation fault\n\nThread 0x00007f2a11bff640 (most recent call first):\n"
    '  File "/usr/lib/python3.11/threading.py", line 324 in wait\nCurrent thread 0x00007f2b8a2c1000 (most recent call first):\n'
    '  File "/x/tensorflow/python/training/server_lib.py", line 176 in join\n  File "/app/ps.py", line 12 in <module>\n\n'
    "Extension modules: numpy.core._multiarray_umath (total: 44)"
)
FAULT = """Fatal Python error: Segmentation fault

Thread 0x00007f11 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 331 in wait

Current thread 0x00007f10 (most recent call first):
  File "/app/native.py", line 33 in encode
  File "/app/train.py", line 12 in main

Extension modules: numpy.core (total: 1)
bash: line 1: 12 Segmentation fault      python train.py"""
JAVA = "java.lang.OutOfMemoryError: Java heap space"
SPARK = "py4j.protocol.Py4JJavaError: An error occurred while calling o42.collect.\n: org.apache.spark.SparkException: Job aborted\n"
ASSERTED = (
    "/pytorch/aten/src/ATen/native/cuda/Loss.cu:250: nll_loss_forward_reduce_cuda_kernel_2d: block: [0,0,0], thread: [5,0,0] "
    "Assertion `t >= 0 && t < n_classes` failed.\n"
    + trace(
        "torch.AcceleratorError: CUDA error: device-side assert triggered\n"
        "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.\n"
        "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
    )
)
TF_FAILED = (
    "tensorflow.python.framework.errors_impl.ResourceExhaustedError: Graph execution error:\n\nDetected at node gradient_tape/mul defined at "
    "(most recent call last):\n<stack traces unavailable>\n{}\n\t [[{{{{node gradient_tape/mul}}}}]]\nHint: If you want to see a "
    "list of allocated tensors when OOM happens, add report_tensor_allocations_upon_oom to RunOptions for current allocation info. "
    "This isn't available when running in Eager mode.\n [Op:__inference_train_function_1]"
)
NO_ARCHIVE = "\ngzip: stdin: unexpected end of file\ntar: Child returned status 1\ntar: Error is not recoverable: exiting now"
NO_ROLE = 'User "system:serviceaccount:default:default" cannot list resource "pods" in API group "" in the namespace "default"'
MPI_ABORT = "MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD\nwith errorcode 1."
SPAWNED_TWICE = "\n".join(
    (
        trace(
            "RuntimeError: context has already been set",
            '  File "/usr/lib/python3.11/multiprocessing/spawn.py", line 122, in spawn_main',
        ),
        trace("multiprocessing.context.TimeoutError", '  File "/app/train.py", line 5, in <module>', "    r.get(timeout=8)"),
    )
)
PADDLE_OOM = (
    "--------------------------------------\nC++ Traceback (most recent call last):\n--------------------------------------\n"
    "0   paddle::imperative::Tracer::TraceOp(std::string const&, ...)\n\n----------------------\nError Message Summary:\n"
    "----------------------\nResourceExhaustedError: \n\nOut of memory error on GPU 0. Cannot allocate 1.562500GB memory on GPU 0.\n\n"
    "Please check whether there is any other process using GPU 0.\n (at ../paddle/fluid/memory/allocation/cuda_allocator.cc:95)"
)
SIGNALS = {134: "SIGABRT", 152: "SIGXCPU", 137: "SIGKILL", 139: "SIGSEGV", 143: "SIGTERM"}
NEVER = 600 * "step 1 loss nan\n"
# torch adds these lines to each error of CUDA.
ASYNCHRONOUS = (
    "\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.\n"
    "For debugging consider passing CUDA_LAUNCH_BLOCKING=1\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
)
ILLEGAL = (
    "[rank3]:[E1126 11:02:31.402 ProcessGroupNCCL.cpp:1785] [PG ID 0 PG GUID 0(default_pg) Rank 3] Process group watchdog thread "
    f"terminated with exception: CUDA error: an illegal memory access was encountered{ASYNCHRONOUS}\n"
    "frame #4: clone + 0x3f (0x7f2a1d12a850 in /usr/lib/x86_64-linux-gnu/libc.so.6)\n\n"
    "terminate called after throwing an instance of 'c10::DistBackendError'"
)
MEMLOCK = "Call to ibv_reg_mr failed with error Cannot allocate memory"
SKEWED = "The difference between the request time and the current time is too large."
NO_CHECKPOINT = "Unsuccessful TensorSliceReader constructor: Failed to find any matching files for gs://m/ckpt-9"
IN_USE = "ABORTED: The TPU is already in use by process with pid 41. Not attempting to load libtpu.so in this process."
CLIENTS = 'connection to server at "db.ml.svc" (10.96.14.3), port 5432 failed: FATAL:  sorry, too many clients already'
ZERO = "The checkpoint being loaded used a DP world size of 8 but the current world size is 4. Automatic adjustment"

FIELDS = (
    "pydantic_core._pydantic_core.ValidationError: 2 validation errors for S\ndata_url\n  Field required [type=missing, input_value={}, input_type=dict]\n"
    "    For further information visit https://errors.pydantic.dev/2.10/v/missing\nlr\n"
    "  Input should be a valid number [type=float_parsing, input_value='2,', input_type=str]"
)
OF_SETTINGS = '  File "/x/pydantic_settings/main.py", line 292, in __init__'
WEIGHTS = (
    "_pickle.UnpicklingError: Weights only load failed. This file can still be loaded, to do so you have two options, \x1b[1mdo those steps only if you "
    "trust the source of the checkpoint\x1b[0m. \n\t(1) In PyTorch 2.6, we changed the default value.\n\t(2) Alternatively, see the following message.\n"
    "\tWeightsUnpickler error: Unsupported global: GLOBAL numpy.dtype was not an allowed global by default.\n\nCheck the documentation of torch.load."
)
NOTEBOOK = (
    trace("papermill.exceptions.PapermillExecutionError: ")
    + '\n---------------------\nException encountered at "In [3]":\n---------------------\n'
    "ValueError                                Traceback (most recent call last)\nCell In[3], line 2\n      1 n = 4\n----> 2 fit(n)\n\nValueError: bad n"
)

LOGURU = json.dumps(
    {
        "text": "2026-11-26 17:55:33.513 | ERROR | __main__:<module>:5 - failed\n" + trace("\nValueError: bad shard"),
        "record": {
            "level": {"name": "ERROR", "no": 40},
            "message": "failed",
            "exception": {"type": "ValueError", "value": "bad shard"},
        },
    }
)
STRUCTLOG = json.dumps(
    {
        "event": "training_failed",
        "level": "error",
        "exception": [
            {
                "exc_type": "RuntimeError",
                "exc_value": "no model",
                "is_cause": False,
                "frames": [{"filename": "/app/t.py", "lineno": 9, "name": "main"}],
            },
            {
                "exc_type": "FileNotFoundError",
                "exc_value": "[Errno 2] No such file or directory: '/m.json'",
                "is_cause": True,
                "frames": [],
            },
        ],
    }
)

RICH = """╭──────────── Traceback (most recent call last) ────────────╮
│ /opt/lib/python3.11/site-packages/click/testing/core/long │
│ /core.py:9 in main                                        │
│                                                           │
│ /app/train.py:4 in main                                   │
│                                                           │
│   3 def main():                                           │
│ ❱ 4 │   db = os.environ["DATABASE_URL"]                   │
│   5                                                       │
│ in __getitem__:679                                        │
╰───────────────────────────────────────────────────────────╯
KeyError: 'DATABASE_URL'"""

ADVISED = [
    ("an argument that a launcher adds, of transformers", 1, trace("ValueError: Some specified arguments are not used by the HfArgumentParser: ['--local-rank=0']"), "WrongArguments", "--local-rank=0", "read LOCAL_RANK"),
    ("an argument that a launcher adds", 2, "train.py: error: unrecognized arguments: --local-rank=1", "WrongArguments", "--local-rank=1", "read LOCAL_RANK"),
    ("conda, a version that is nowhere", 1, "Solving environment: failed\n\nResolvePackageNotFound: \n  - cudatoolkit=12.9\n", "VersionsConflict", "- cudatoolkit=12.9", "version of cudatoolkit=12.9:"),
    ("conda, versions that do not fit", 1, "Solving environment: failed\n\nUnsatisfiableError: The following specifications were found to be incompatible with each other:\n\nPackage python conflicts for:\npython=3.13", "VersionsConflict", "UnsatisfiableError", "fit together"),
    ("a checkpoint of a wrapped model", 1, trace('RuntimeError: Error(s) in loading state_dict for Net:\n\tMissing key(s) in state_dict: "fc.weight".\n\tUnexpected key(s) in state_dict: "module.fc.weight".'), "CheckpointMismatch", "Unexpected key(s)", "the prefix module."),
    ("an array of terabytes", 1, trace("numpy._core._exceptions._ArrayMemoryError: Unable to allocate 524. TiB for an array with shape (12000000, 12000000) and data type float32"), "MemoryExhausted", "524. TiB", "the shape is wrong"),
    ("fields, of pydantic", 1, trace(FIELDS), "ConfigInvalid", "for S: data_url: Field required; lr: Input should be a valid number (input_value='2,') (train.py", "the message names"),
    ("fields of settings", 1, trace(FIELDS, '  File "/app/s.py", line 4, in <module>', OF_SETTINGS), "EnvironmentMissing", "data_url: Field required", "env_prefix"),
    ("a kernel image", 1, trace("RuntimeError: CUDA error: no kernel image is available for execution on the device" + ASYNCHRONOUS), "GpuUnusable", "on the device (train.py", "get_arch_list"),
    ("an illegal access, of the watchdog", 134, ILLEGAL, "GpuError", "an illegal memory access was encountered", "names the line"),
    ("a launch failure", 1, trace("RuntimeError: CUDA error: unspecified launch failure" + ASYNCHRONOUS), "GpuError", "launch failure (train.py", "names the line"),
    ("a broken GPU, with torch's hints", 1, trace("RuntimeError: CUDA error: uncorrectable ECC error encountered" + ASYNCHRONOUS), "GpuError", "ECC", "the GPU has failed"),
    ("an assertion, with torch's hints", 1, trace("RuntimeError: CUDA error: device-side assert triggered" + ASYNCHRONOUS), "GpuError", "triggered", "out of range"),
    ("locked memory", 1, trace(NCCL.format("unhandled system error", "ncclSystemError: System call failed.", MEMLOCK)), "LimitReached", MEMLOCK, "NCCL_IB_DISABLE"),
    ("a wrong clock", 1, trace(f"botocore.exceptions.ClientError: An error occurred (RequestTimeTooSkewed): {SKEWED}") + BY + trace(f"PermissionError: {SKEWED}"), "AccessDenied", "RequestTimeTooSkewed", "clock"),
    ("too many clients", 1, trace(f"psycopg2.OperationalError: {CLIENTS}"), "LimitReached", "too many clients", "max_connections"),
    ("a throttled upload", 1, trace("boto3.exceptions.S3UploadFailedError: An error occurred (SlowDown) when calling the UploadPart operation: Please reduce your request rate."), "LimitReached", "SlowDown", "the rate of requests"),
    ("too many requests", 1, trace("requests.exceptions.HTTPError: 429 Client Error: Too Many Requests for url: https://hub.example.com/m"), "LimitReached", "429", "the rate of requests"),
    ("no checkpoint, tensorflow", 1, trace(f"RuntimeError: {NO_CHECKPOINT}") + DURING + trace(f"tf.errors_impl.NotFoundError: Error when restoring from checkpoint: {NO_CHECKPOINT}"), "FileNotFound", "gs://m/ckpt-9", "correct the checkpoint's path"),
    ("a device in use", 1, trace(f"RuntimeError: Unable to initialize backend 'tpu': {IN_USE}"), "GpuUnusable", "pid 41", "end that process"),
    ("a crashed rank", 139, "mpirun noticed that process rank 1 with PID 9 on node w-1 exited on signal 11 (Segmentation fault).", "WorkerProcessKilled", "rank 1", "faulthandler"),
    ("a killed rank", 137, "mpirun noticed that process rank 1 with PID 9 on node w-1 exited on signal 9 (Killed).", "WorkerProcessKilled", "rank 1", "memory"),
    ("a truncated message", 1, trace("mpi4py.MPI.Exception: MPI_ERR_TRUNCATE: message truncated"), "CollectiveMismatch", "TRUNCATE", "same count"),
    ("no safetensors", 1, trace("safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge"), "DataInvalid", "HeaderTooLarge", "git lfs pull"),
    ("a checkpoint of more ranks", 1, trace(f"deepspeed.runtime.zero.utils.ZeRORuntimeException: {ZERO}"), "CheckpointMismatch", "size of 8", "8 ranks wrote the checkpoint, and the job has 4"),
    ("a file that another program should have written", 1, trace("KeyError: 'timestamp'") + "\n" + trace("FileNotFoundError: [Errno 2] No such file or directory: 'features.npy'"), "FileNotFound", "features.npy' (train.py, line 12); printed before: KeyError: 'timestamp'", "pipefail"),
    ("an older GPU", 1, trace("RuntimeError: FlashAttention only supports Ampere GPUs or newer."), "GpuUnusable", "Ampere", "too old"),
    ("words of resolving, of no host", 1, trace("RuntimeError: Could not resolve symbol foo in plugin"), "PythonException", "symbol foo", "what the message names"),
    ("a table that does not exist", 1, trace('sqlalchemy.exc.ProgrammingError: relation "features" does not exist'), "PythonException", "features", "what the message names"),
    ("a bucket that does not exist", 1, trace("google.api_core.exceptions.NotFound: 404 GET https://storage.googleapis.com/b/x: The specified bucket does not exist."), "FileNotFound", "bucket", "name of the model"),
    ("a mistake", 1, trace("TypeError: f() missing 1 required positional argument: 'x'"), "PythonException", "argument: 'x'", "correct the program"),
    ("a server's own error", 1, trace("requests.exceptions.HTTPError: 503 Server Error: Service Unavailable for url: https://mlflow.corp/api"), "HostUnreachable", "503", "its log"),
    ("a lock", 1, trace("filelock._error.Timeout: The file lock '/cache/x.lock' could not be acquired."), "StorageFailed", "x.lock", "remove the lock"),
    ("made by each rank", 1, trace("FileExistsError: [Errno 17] File exists: '/ckpt/epoch-3'"), "FileExists", "epoch-3", "exist_ok"),
    ("a licence", 1, trace("gurobipy.GurobiError: No Gurobi license found (user root, host x, hostid 1, cores 8)"), "AccessDenied", "license", "free seat"),
    ("kerberos", 1, "kinit: Client's credentials have been revoked while getting initial credentials", "AccessDenied", "revoked", "keytab"),
    ("a newer Java", 1, 'Exception in thread "main" java.lang.UnsupportedClassVersionError: com/corp/Train has been compiled by a more recent version', "VersionsConflict", "Train", "newer Java"),
    ("another exception of Java", 1, 'Exception in thread "main" org.apache.spark.SparkException: Job aborted due to stage failure\n\tat a.B.c(B.java:3)', "ProgramFailed", "stage failure", "what the message names"),
    ("a panic of Go", 2, "panic: runtime error: index out of range [5] with length 3\n\ngoroutine 1 [running]:\nmain.main()\n" + 20 * "\t/app/main.go:12 +0x1d\n" + "exit status 2", "ProgramFailed", "out of range [5] with length 3 (main.go, line 12)", "what the message names"),
    ("a panic of Rust", 101, "thread 'main' panicked at src/main.rs:12:5:\nshard 7 is empty\nnote: run with `RUST_BACKTRACE=1` environment variable to display a backtrace", "ProgramFailed", "shard 7 is empty", "what the message names"),
    ("an unknown flag", 1, "Error: unknown flag: --lr", "WrongArguments", "--lr", "correct args"),
    ("a GPU of ROCm without kernels", 1, trace("RuntimeError: HIP error: invalid device function"), "GpuUnusable", "HIP", "get_arch_list"),
    ("no locale", 1, trace("locale.Error: unsupported locale setting"), "EnvironmentMissing", "locale", "C.UTF-8"),
    ("a column of Input", 1, trace("xgboost.core.XGBoostError: [09:30:09] data.cc:507: Check failed: valid: Label contains NaN, infinity or a value too large."), "DataInvalid", "Label contains NaN", "missing and infinite"),
    ("vector memory of a TPU", 1, trace("jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Ran out of memory in memory space vmem. Used 65.05M of 64.00M vmem."), "MemoryExhausted", "vmem", "smaller blocks"),
    ("fabric manager", 1, trace("RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized"), "GpuUnusable", "802", "is not ready"),
    ("a link of InfiniBand", 134, "NCCL WARN NET/IB : Got completion from peer 10.2.10.2<54862> with status=12 opcode=0 len=0 vendor err 129 hca mlx5_1\nncclRemoteError: A call failed possibly due to a network error", "PeersUnreachable", "status=12", "port of this hca"),
    ("stale shared memory", 1, trace("FileExistsError: [Errno 17] File exists: '/000006_locals'", '  File "/usr/lib/python3.10/multiprocessing/shared_memory.py", line 104, in __init__', "    self._fd = _posixshmem.shm_open("), "PythonException", "000006_locals", "remove it"),
    ("a key of a sharded checkpoint", 1, trace("RuntimeError: Missing key in checkpoint state_dict: optimizer.exp_avg."), "CheckpointMismatch", "exp_avg", "saved from"),
    ("a logger that is not reached", 1, trace("wandb.errors.errors.CommError: Run initialization has timed out after 90.0 sec."), "HostUnreachable", "90.0 sec", "egress"),
    ("ranks of horovodrun", 1, stamped(2, trace("KeyError: 'labels_v2'")) + "\n" + stamped(0, trace("horovod.common.exceptions.HorovodInternalError: Horovod has been shut down.")) + "\nProcess 2 exit with status code 1.\n" + trace("RuntimeError: Horovod detected that one or more processes exited with non-zero status, thus causing the job to be terminated. The first process to do so was:") + "\nProcess name: 2", "PythonException", "rank 2: KeyError: 'labels_v2'", "what the message names"),
    ("a rank that Horovod misses", 1, stamped(0, "Missing ranks:\n2: [grads/dense_1, grads/dense_2 ...]\nHorovod background loop uncaught exception: Stall shutdown time exceeded"), "CollectiveTimeout", "rank 2 did not submit", "rank 2"),
    ("a batch that is smaller", 1, trace("tensorflow.python.framework.errors_impl.InvalidArgumentError: Graph execution error:\n\nDetected at node X\nCollective ops is aborted by: Shape mismatch in the collective instance 106.\nThe error could be from a previous operation. Restart your program to reset.\n\t [[{{node CollectiveReduceV2}}]]"), "CollectiveMismatch", "Shape mismatch", "same"),
    ("mxnet's traceback", 1, trace('mxnet.base.MXNetError: Traceback (most recent call last):\n  [bt] (8) /x/libmxnet.so(MXDataIterCreateIter+0x3a2) [0x7f]\n  File "src/io/local_filesys.cc", line 209\nCheck failed: allow_null:  LocalFileSystem::Open "/data/train.rec": No such file or directory'), "FileNotFound", "MXNetError: Check failed: allow_null", "path"),
    ("a killed rank of Open MPI 5", 137, boxed("prterun noticed that process rank 3 with PID 512 on node w-1 exited on\nsignal 9 (Killed)."), "WorkerProcessKilled", "rank 3", "memory"),
    ("no program, hydra", 255, "[proxy:0:1@w-1] HYDU_create_process (launch.c:74): execvp error on file ./train (No such file or directory)\n=   EXIT CODE: 255\n[mpiexec@l] main (mpiexec.c:344): process manager error waiting for completion", "CommandNotFound", "./train", "install the program"),
    ("no network, Intel MPI", 143, "Abort(1091215) on node 0 (rank 0 in comm 0): Fatal error in PMPI_Init: Other MPI error\nMPIDI_OFI_mpi_init_hook(1061)...: OFI addrinfo() failed\n=   KILLED BY SIGNAL: 9 (Killed)", "MpiNotStarted", "OFI addrinfo", "FI_PROVIDER"),
    ("no cores to bind", 1, boxed("While computing bindings, we found no available cpus on\nthe following node:\n\n  Node:  w-1\n\nPlease check your allocation."), "TooFewSlots", "Node: w-1", "--bind-to none"),
    ("what an aborted rank printed", 14, "FATAL solver.c:212 rank 1: domain decomposition produced 0 cells\n" + boxed("MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD\nwith errorcode 14.\n\nNOTE: invoking MPI_ABORT causes Open MPI to kill all MPI processes."), "ProgramFailed", "0 cells; rank 1 called MPI_Abort (14)", "what the message names"),
    ("memory of other processes", 139, 9 * "[w-0:00091] Read -1, expected 5285, errno = 1\n" + "[w-0:00091] Signal: Segmentation fault (11)\n" + boxed("mpirun noticed that process rank 1 with PID 91 on node w-0 exited on signal 11 (Segmentation fault)."), "MpiNotStarted", "Read -1", "SYS_PTRACE"),
    ("executors of Spark", 1, trace("py4j.protocol.Py4JJavaError: An error occurred while calling o142.fit.\n: org.apache.spark.SparkException: Job aborted due to stage failure: ExecutorLostFailure Reason: \nThe executor with id 6 exited with exit code 137(SIGKILL, possible container OOM).\nDriver stacktrace:"), "MemoryExhausted", "exit code 137", "memoryOverhead"),
    ("a file of R, with the warning before", 1, 'Warning in file(file, "rt") :\n  cannot open file \'/data/t.csv\': No such file or directory\nError in file(file, "rt") : cannot open the connection\nCalls: f -> file\nExecution halted', "FileNotFound", "1: Error in file(file, \"rt\") : cannot open file '/data/t.csv': No such file", "the path"),
    ("a file of R, with the warning after", 1, "Error in gzfile(file, \"rb\") : cannot open the connection\nCalls: readRDS -> gzfile\nIn addition: Warning message:\nIn gzfile(file, \"rb\") :\n  cannot open compressed file '/data/t.rds', probable reason 'Permission denied'\nExecution halted", "PermissionDenied", "cannot open compressed file '/data/t.rds'", "the owner of the file"),
    ("an error of R, before warnings", 1, "Error in fit_fold(x, y, k) : object 'lambda_max' not found\nCalls: main -> fit_fold\nIn addition: Warning messages:\n1: NAs introduced by coercion\n2: from glmnet C++ code (error code -71)\nExecution halted", "ProgramFailed", "lambda_max", "what the message names"),
    ("a task of Julia", 1, "ERROR: LoadError: TaskFailedException\n\n    nested task error: DimensionMismatch: expects size(input, 1) == 784\n    Stacktrace:\n      [1] check(x)\nStacktrace:\n [1] wait\nin expression starting at /app/train.jl:3", "ProgramFailed", "after DimensionMismatch: expects size", "what the message names"),
    ("the heap of node", 134, "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory\n 1: 0xb 2 [node]\nrun.sh: line 2: 14543 Aborted                 node x.js", "MemoryExhausted", "heap limit", "max-old-space-size"),
    ("a cause in Java", 1, 'Exception in thread "main" java.lang.RuntimeException: training failed\n\tat com.corp.Train.main(Train.java:12)\nCaused by: java.io.IOException: Filesystem closed\n\tat org.apache.hadoop.hdfs.DFSClient.checkOpen(DFSClient.java:483)\n\t... 3 more', "ProgramFailed", "training failed, after java.io.IOException: Filesystem closed", "what the message names"),
    ("two copies of protobuf", 134, "[libprotobuf ERROR descriptor_database.cc:642] File already exists in database: onnx/onnx-ml.proto\nterminate called after throwing an instance of 'google::protobuf::FatalException'\n  what():  CHECK failed: GeneratedDatabase()->Add(encoded_file_descriptor, size): ", "VersionsConflict", "onnx-ml.proto", "a single build"),
    ("watches of inotify", 1, trace("OSError: [Errno 28] inotify watch limit reached"), "LimitReached", "inotify", "max_user_watches"),
    ("an environment that was not activated", 1, "CommandNotFoundError: Your shell has not been properly configured to use 'conda activate'.\n" + trace("ModuleNotFoundError: No module named 'lightgbm'"), "ModuleNotFound", "printed before: CommandNotFoundError", "set -eo pipefail"),
    ("lines of JSON", 1, '{"level":"error","msg":"training failed","exc_info":"Traceback (most recent call last):\\n  File \\"/app/train.py\\", line 3, in main\\n    f()\\nKeyError: \'labels\'"}', "PythonException", "KeyError: 'labels' (train.py, line 3)", "what the message names"),
    ("a line of JSON without traceback", 1, '{"level":"error","msg":"allreduce failed","error":"shard 7 is empty","stacktrace":"main.main\\n\\t/src/main.go:80"}', "ProgramFailed", "1: allreduce failed: shard 7 is empty", "what the message names"),
    ("a traceback in a log", 1, "\n".join(f"2026-11-26 10:11:{at:02},345 [ERROR] train: {line}" for at, line in enumerate(trace("ValueError: no samples").splitlines())), "PythonException", "1: ValueError: no samples (train.py, line 12)", "what the message names"),
    ("ranks on the loopback address", 1, trace("RuntimeError: Gloo connectFullMesh failed with [pair.cc:152] timed out connecting: SO_ERROR: Connection refused, remote=[127.0.0.1]:14215 (rank=0, size=3, local=[127.0.0.1])"), "PeersUnreachable", "remote=[127.0.0.1]", "GLOO_SOCKET_IFNAME"),
    ("a message that rich wraps", 1, "╭─── Traceback (most recent call last) ───╮\n│ /app/train.py:88 in <module> │\n╰─────────╯\nRuntimeError: It looks like your module has parameters that were not\nused in producing the loss", "PythonException", "were not used in producing the loss", "what the message names"),
    ("a build that failed before", 1, "/usr/bin/ld: cannot find -lcurand: No such file or directory\ncollect2: error: ld returned 1 exit status\n" + ranked(0, trace("RuntimeError: Error building extension 'cpu_adam'")) + "\n" + ranked(1, trace("ImportError: /x/cpu_adam.so: cannot open shared object file: No such file or directory")), "LibraryNotFound", "after: /usr/bin/ld: cannot find -lcurand", "lacks libcurand.so"),
    ("a fault of ROCm", 134, "Memory access fault by GPU node-4 on address 0x7f89. Reason: Page not present.\nGPU coredump: execve failed: No such file or directory", "GpuError", "node-4", "AMD_SERIALIZE_KERNEL"),
    ("what a command printed", 1, "fatal error: An error occurred (ExpiredToken) when calling the GetObject operation\n" + trace("OSError: Caught OSError in DataLoader worker process 0.\n" + trace("OSError: ('aws s3 cp s3://b/x -',): exit 1 (read)")), "AccessDenied", ", after: fatal error: An error occurred (ExpiredToken)", "token"),
    ("a message of DALI", 1, trace("RuntimeError: Critical error in pipeline:\nError in MIXED operator `decoders.image`,\nwhich was used in the pipeline definition with the following traceback:\n\n  File \"/app/dali.py\", line 118, in create\n    images = fn.decoders.image(x)\n\nencountered:\n\n[/opt/dali/image_factory.cc:100] Unrecognized image format.\nFile: /data/n03.JPEG"), "DataInvalid", "pipeline: [/opt/dali/image_factory.cc:100] Unrecognized image format", "check the file"),
    ("a library that was not loaded before", 1, trace("OSError: /x/libbitsandbytes_cpu.so: cannot open shared object file") + "\nstep 1\n" + trace("AttributeError: 'NoneType' object has no attribute 'cquantize'"), "PythonException", "printed before: OSError: /x/libbitsandbytes_cpu.so", "explains it"),
    ("a newer tokenizer", 1, trace("Exception: data did not match any variant of untagged enum ModelWrapper at line 757443 column 3"), "VersionsConflict", "ModelWrapper", "-U tokenizers"),
    ("a process below", 1, "\n".join(f"(EngineCore_DP0 pid=6804) ERROR 11-26 14:28:57 [core.py:718] {line}" for line in trace("ValueError: No available memory for the cache blocks.").splitlines()) + "\n" + trace("RuntimeError: Engine core initialization failed. See root cause above."), "GpuOutOfMemory", "No available memory", "gpu_memory_utilization"),
    ("a node without memory", 1, trace("ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory."), "MemoryExhausted", "running low", "limits.memory"),
    ("libraries that are mixed", 1, "Could not load library libcudnn_cnn_train.so.8. Error: undefined symbol: _ZN5cudnn\n" + trace("RuntimeError: GET was unable to find an engine to execute this computation"), "PythonException", "printed before: Could not load library libcudnn_cnn_train.so.8", "explains it"),
    ("the monitor of NCCL", 134, "[rank0]:[F1126 14:32:37.118 ProcessGroupNCCL.cpp:1557] [PG ID 0 Rank 0] Terminating the process after attempting to dump debug info, due to ProcessGroupNCCL watchdog hang", "CollectiveTimeout", "watchdog hang", "HEARTBEAT"),
    ("a segmentation fault of a data loader", 1, trace("RuntimeError: DataLoader worker (pid 412) is killed by signal: Segmentation fault. "), "WorkerProcessKilled", "pid 412", "faulthandler"),
    ("versions that conflict", 1, "ERROR: Cannot install -r requirements.txt (line 2) and tensorflow==2.15.1 because these package versions have conflicting dependencies.\nERROR: ResolutionImpossible: for help visit https://pip.pypa.io/", "VersionsConflict", "tensorflow==2.15.1", "compatible versions"),
    ("line ends, as env quotes them", 127, "/usr/bin/env: ‘bash\\r’: No such file or directory\n/usr/bin/env: use -[v]S to pass options in shebang lines", "ShellError", "CRLF", "dos2unix"),
    ("root errors of TensorFlow", 1, trace("tensorflow.python.framework.errors_impl.ResourceExhaustedError: 9 root error(s) found.\n  (0) RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 17.34G of 15.48G hbm.\n\nTotal hbm usage"), "GpuOutOfMemory", "found. (0) RESOURCE_EXHAUSTED: Ran out of memory", "more chips"),
    ("a chain of errors in Rust", 2, "error: Failed to fetch: `https://pypi.corp/lightgbm/`\n  Caused by: client error (Connect)\n  Caused by: invalid peer certificate: UnknownIssuer", "TlsFailed", "Failed to fetch: `https://pypi.corp/lightgbm/`, after invalid peer certificate", "CA that signed it"),
    ("a compiler that was killed", 101, "error: could not compile `candle-core` (lib)\n\nCaused by:\n  process didn't exit successfully: `rustc` (signal: 9, SIGKILL: kill)\nwarning: build failed, waiting for other jobs to finish...", "WorkerProcessKilled", "SIGKILL: kill", "memory"),
    ("an error above its help", 1, "ERROR: failed to pull data from the cloud - Checkout failed for following targets:\ndata/train\nIs your cache up to date?\n<https://error.dvc.org/missing-files>", "FileNotFound", "targets: data/train", "dvc push"),
    ("a sanitizer", 1, "==1==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x602\n    #0 0x4 in gather /src/gather.cc:88\nSUMMARY: AddressSanitizer: heap-buffer-overflow /src/gather.cc:88 in gather\n==1==ABORTING", "ProgramFailed", "in gather", "at the place"),
    ("a process of R", 1, "Error: cannot allocate vector of size 12.4 Gb\nExecution halted\nError in unserialize(node$con) : error reading from connection\nCalls: f\nExecution halted", "MemoryExhausted", "12.4 Gb", "memory"),
    ("a crash of Julia", 139, "[42] signal (11.1): Segmentation fault\nin expression starting at /app/train.jl:12\nH5Fopen at /root/lib/libhdf5.so (unknown line)\nAllocations: 31441203 (Pool: 31404312; Big: 36891); GC: 41", "SIGSEGV", "in H5Fopen (/root/lib/libhdf5.so), called by train.jl, line 12", "H5Fopen"),
    ("a symbol that is not there", 127, "/opt/trainer: symbol lookup error: /opt/lib/libext.so: undefined symbol: _ZN5arrow", "LibraryNotFound", "_ZN5arrow", "compatible versions"),
    ("a daemon of Open MPI", 1, boxed("ORTE has lost communication with a remote daemon.\n\n  Remote daemon:   [[43015,0],2] on node w-1\n\nThis is usually due to a failure of the TCP network connection"), "PeersUnreachable", "on node w-1", "replica"),
    ("a hub behind a proxy", 1, "'(MaxRetryError(\"HTTPSConnectionPool(host='huggingface.co', port=443): Max retries exceeded (Caused by SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] self-signed certificate')))\"))' thrown while requesting HEAD https://huggingface.co/x\n" + trace("OSError: We couldn't connect to 'https://huggingface.co' to load this file"), "TlsFailed", "after: SSLError(SSLCertVerificationError", "CA that signed it"),
    ("a key for git", 128, "git@gitlab.acme.io: Permission denied (publickey).\nfatal: Could not read from remote repository.", "AccessDenied", "git@gitlab", "deploy key"),
    ("the frame of a rank that crashed", 139, tagged(1, "Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f10 (most recent call first):\n  File \"/usr/lib/python3.11/ctypes/__init__.py\", line 519 in string_at\n  File \"/app/sv.py\", line 5 in decode_frame\n") + "\n" + boxed("mpirun noticed that process rank 1 with PID 91 on node w-0 exited on signal 11 (Segmentation fault)."), "WorkerProcessKilled", "rank 1 with PID 91 on node w-0 exited on signal 11 (Segmentation fault); it crashed in string_at (__init__.py, line 519), called by decode_frame (sv.py, line 5)", "string_at"),
    ("the same message twice", 1, trace("psycopg2.OperationalError: FATAL: role x does not exist") + BY + trace("OSError: FATAL: role x does not exist"), "PythonException", "1: OSError: FATAL: role x does not exist (train.py", "what the message names"),
    ("two versions of cuDNN", 1, trace("RuntimeError: cuDNN error: CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH"), "VersionsConflict", "SUBLIBRARY", "LD_LIBRARY_PATH"),
    ("no GPU to be seen", 1, trace("ValueError: Your setup doesn't support bf16/gpu. You need torch>=1.10"), "GpuUnusable", "bf16/gpu", "nvidia.com/gpu"),
    ("a launcher that is stopped", 1, trace("torch.distributed.elastic.multiprocessing.api.SignalException: Process 1 got signal: 15"), "WorkerProcessKilled", "got signal: 15", "drain"),
    ("ranks that the watchdog aborted", 1, ranked(5, trace("IndexError: index 50304 is out of bounds")) + "\n" + 70 * f"{WATCHDOG}\n" + trace("torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ") + "\nRoot Cause (first observed failure):\n[0]:\n  rank      : 0 (local_rank: 0)\n  exitcode  : -6 (pid: 500)\n  traceback : Signal 6 (SIGABRT) received by PID 500", "PythonException", "index 50304", "what the message names"),
    ("a crash in a thread of native code", 139, "Fatal Python error: Segmentation fault\n\nThread 0x00007f11 (most recent call first):\n  File \"/x/site-packages/decord/video_reader.py\", line 175 in get_batch\n  File \"/app/data.py\", line 12 in load\n", "SIGSEGV", "in get_batch (decord/video_reader.py, line 175), called by load (data.py, line 12)", "the package decord"),
    ("what another rank raised", 1, trace("torch.distributed.checkpoint.api.CheckpointException: CheckpointException ranks:dict_keys([1])\n" + trace("RuntimeError: Missing key in checkpoint state_dict: w2").replace("last):", "last): (RANK 1)")), "CheckpointMismatch", "Missing key in checkpoint state_dict: w2 (train.py, line 12), on rank 1", "saved from"),
    ("a rank that crashed, and its peers", 1, ranked(0, trace("torch.distributed.DistBackendError: NCCL error in: X.cpp:2027, remote process exited\nLast error:\nsocketProgress: Connection closed by remote peer 127.0.0.1<48121>")) + "\n" + trace("torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ") + "\nRoot Cause (first observed failure):\n[0]:\n  time      : 2026\n  host      : h\n  rank      : 6 (local_rank: 6)\n  exitcode  : -11 (pid: 606)\n  error_file: <N/A>\n  traceback : Signal 11 (SIGSEGV) received by PID 606", "WorkerProcessKilled", "rank 6 failed first: Signal 11 (SIGSEGV)", "faulthandler"),
    ("hosts of pdsh", 1, "\n".join(f"10.42.0.7: {line}" for line in ranked(1, trace("RuntimeError: Ninja is required to load C++ extensions")).splitlines()) + "\n" + "\n".join(f"10.42.0.6: {line}" for line in ranked(0, trace("torch.distributed.DistBackendError: NCCL error in: X.cpp:2027, remote process exited")).splitlines()), "PythonException", "1: rank 1 on 10.42.0.7: RuntimeError: Ninja is required", "what the message names"),
    ("hosts of pdsh, from within a traceback", 250, "worker-1: [rank2]:     x = f()\nworker-1: [rank2]: ValueError: expected length 512 (got 498)\nworker-0: [rank0]:[E1126 17:43:23.1 X.cpp:552] [Rank 0] raised the following async exception: NCCL error: remote process exited or there was a network error", "PythonException", "250: rank 2 on worker-1: ValueError: expected length 512", "what the message names"),
    ("a process that Lightning ends", 137, ranked(3, trace("KeyError: 'valid_mask'")) + "\n[rank: 1] Child process with PID 4711 terminated with code 1. Forcefully terminating all other processes to avoid zombies", "PythonException", "KeyError: 'valid_mask'", "what the message names"),
    ("processes that are interrupted", 130, ranked(4, trace("RuntimeError: shape '[8, 2048]' is invalid for input of size 1677")) + "\n" + trace("KeyboardInterrupt"), "PythonException", "shape '[8, 2048]'", "what the message names"),
    ("tasks of srun", 1, "\n".join(f"5: {line}" for line in ranked(5, trace("RuntimeError: Sizes of tensors must match")).splitlines()) + "\n" + "\n".join(f"0: {line}" for line in ranked(0, trace("torch.distributed.DistBackendError: NCCL error in: X.cpp:2027, remote process exited")).splitlines()) + "\nsrun: error: node-0007: task 5: Exited with exit code 1", "PythonException", "1: RuntimeError: Sizes of tensors", "what the message names"),
    ("a task of Ray", 1, trace("ray.exceptions.RayTaskError(ValueError): ray::_Inner.train() (pid=91, ip=10.0.0.4)\n  File \"/app/train_fn.py\", line 22, in train\nValueError: column 'label' has 17 nulls") + "\n\n" + trace("ray.train.base_trainer.TrainingFailedError: The Ray Train run failed. Please inspect the previous error messages for a cause."), "PythonException", "after: ValueError: column 'label'", "what the message names"),
    ("a driver that is too old", 1, "UserWarning: CUDA initialization: Unexpected error from cudaGetDeviceCount(). Error 803: system has unsupported display driver / cuda driver combination (Triggered internally at CUDAFunctions.cpp:108.)\n" + trace("RuntimeError: No CUDA GPUs are available"), "GpuUnusable", "after: Error 803: system has unsupported", "is not ready"),
    ("a code of Ascend", 1, trace("RuntimeError: HCCL function error: hcclCommInitRootInfoConfig, error code is 7") + "\n[ERROR] 2026-11-26 ERR02200 DIST call hccl api failed.\nEJ0001: [PID: 41] Failed to initialize the HCCP process. Reason: Maybe the last training process is running.", "PythonException", ": EJ0001: [PID: 41] Failed to initialize", "what the message names"),
    ("a GPU that was lost", 42, "Unable to determine the device handle for GPU0000:9D:00.0: Unknown Error\n[launch.sh] expected 8 GPUs, found 7", "GpuError", "9D:00.0", "drain"),
    ("an error that was tried again", 1, "Attempt 1/10 failed: [22:51:41] video_reader.cc:151: Check failed: st_nb >= 0 ERROR cannot find video stream\n" + trace("decord.DECORDError: [22:51:51] video_reader.cc:151: Check failed: st_nb >= 0 ERROR cannot find video stream"), "PythonException", "cannot find video stream (train.py, line 12)", "what the message names"),
    ("no error", 1, "step 1\nstep 2", "ProgramFailed", "failed with exit code 1; its last line: step 2", "last lines"),
    ("a port of LightGBM", 1, "[LightGBM] [Fatal] Binding port 12402 failed\ndistributed.worker - WARNING - Compute Failed\nException: \"LightGBMError('Binding port 12402 failed')\"\nTraceback: '  File \"/x/dask.py\", line 330, in _train_part\\n    raise LightGBMError(_LIB.LGBM_GetLastError())\\n'", "PortInUse", "Binding port 12402", "another port"),
    ("the last cause of Java, below py4j", 1, trace("py4j.protocol.Py4JJavaError: An error occurred while calling o142.parquet.\n: org.apache.spark.SparkException: Job aborted, most recent failure: java.io.FileNotFoundException: \nItem not found\n\tat org.apache.spark.X(X.scala:1)\nCaused by: java.io.FileNotFoundException: \nItem not found: 'gs://lake/part-00141'"), "PythonException", "Caused by: java.io.FileNotFoundException: Item not found: 'gs://lake/part-00141'", "what the message names"),
    ("what TensorFlow logs of the same error", 1, "ERROR:tensorflow:Start cancelling closures due to error InvalidArgumentError()\n" + trace("tensorflow.python.framework.errors_impl.InvalidArgumentError: indices[3,0] = 8 is not in [0, 5)"), "PythonException", "is not in [0, 5) (train.py, line 12)", "what the message names"),
    ("a login of vault", 1, "[ERROR] agent.auth.handler: error authenticating:\n  error=\n  | Error making API request.\n  | \n  | Code: 403. Errors:\n  | \n  | * service account name not authorized\n[ERROR] agent.auth.handler: auth handler retries exhausted\nError encountered during run, refer to logs for more details.", "AccessDenied", "Code: 403. Errors: * service account name not authorized", "token"),
    ("killed after an error", 137, trace("RuntimeError: Not enough memory for shard 3"), "SIGKILL", "killed by SIGKILL (exit code 137), after it printed RuntimeError: Not enough memory for shard 3 (train.py, line 12)", "if that does not explain it"),
    ("a server that kills its processes", 137, "[TP1] Scheduler hit an exception: " + trace("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.") + "\n\n[2026-11-26 22:36:35] Received sigquit from a child process. It usually means the child failed.", "GpuOutOfMemory", "mem-fraction-static", "mem-fraction-static"),
    ("errors of finalizers", 1, trace("ValueError: Asking to pad") + 40 * ("\nException ignored in: <function X.__del__ at 0x7f>\n" + trace("AssertionError: can only test a child process", '  File "/x/dataloader.py", line 1510, in __del__', "    self._shutdown_workers()")), "PythonException", "Asking to pad", "what the message names"),
    ("a loss that is no number", 1, "Loss is nan, stopping training\nwandb: Waiting for W&B process to finish... (failed 1). Press Control-C to abort syncing.\nwandb: Find logs at: ./wandb/logs", "NotANumber", "Loss is nan", "learning rate"),
    ("a device of Intel", 1, "|CCL_WARN| did not find MPI-launcher specific variables\n" + trace("RuntimeError: Native API returns: 20 (UR_RESULT_ERROR_DEVICE_LOST)"), "GpuError", "1: RuntimeError: Native API returns: 20 (UR_RESULT_ERROR_DEVICE_LOST) (train", "drain"),
    ("a message of two lines", 1, trace("lightning.MisconfigurationException: You requested gpu: [0, 1, 2, 3]\n But your machine only has: [0, 1]"), "PythonException", "But your machine only has: [0, 1]", "what the message names"),
    ("a device that is busy", 1, trace("RuntimeError: TPU initialization failed: open(/dev/accel0): Device or resource busy"), "GpuUnusable", "accel0", "holds the device"),
    ("a launcher whose shell ended", 1, trace("torch.distributed.elastic.multiprocessing.api.SignalException: Process 190834 got signal: 1") + "\n" + trace("subprocess.CalledProcessError: Command '['torchrun']' returned non-zero exit status 1."), "WorkerProcessKilled", "got signal: 1", "terminal"),
    ("a toolkit that does not know the GPU", 1, "nvcc fatal   : Unsupported gpu architecture 'compute_120'\n" + trace("RuntimeError: Error building extension 'fused_adam'"), "GpuUnusable", "after: nvcc fatal : Unsupported gpu architecture", "TORCH_CUDA_ARCH_LIST"),
    ("a layer of Open MPI", 1, "[w-1:00112] PML ucx cannot be selected\n" + MPI_FAILED, "MpiNotStarted", "PML ucx", "--mca pml ucx"),
    ("locks of a volume", 1, trace("lmdb.Error: /data/imagenet.lmdb: No locks available"), "StorageFailed", "No locks", "lock=False"),
    ("musl", 1, 'Exception in thread "main" java.lang.ExceptionInInitializerError\n\tat a.B(B.java:1)\nCaused by: java.lang.UnsatisfiedLinkError: /tmp/libx.so: Error loading shared library ld-linux-x86-64.so.2: No such file or directory (needed by /tmp/libx.so)\n\tat a.C(C.java:1)', "LibraryNotFound", "ld-linux-x86-64.so.2", "gcompat"),
    ("a panic of Rust, below Python", 1, "thread '<unnamed>' panicked at crates/x.rs:412:22:\ncalled `Result::unwrap()` on an `Err` value: FeatureNotActive\nnote: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n" + trace("pyo3_runtime.PanicException: called `Result::unwrap()` on an `Err` value: FeatureNotActive"), "PythonException", "FeatureNotActive (train.py, line 12)", "what the message names"),
    (".NET", 134, "Process terminated. Couldn't find a valid ICU package installed on the system.\n   at System.Environment.FailFast(System.String)\n   at System.Globalization.CultureInfo..cctor()", "ProgramFailed", "valid ICU package", "what the message names"),
    ("a quota of git-lfs", 128, "Error downloading object: g_0250 (8593ae7): Smudge error: batch response: This repository is over its data quota.\nerror: external filter 'git-lfs filter-process' failed\nfatal: g_0250: smudge filter lfs failed", "LimitReached", "data quota", "buy more"),
    ("data that a script could not fetch", 1, "fatal error: Unable to locate credentials\n" + 50 * "2026-11-26 17:53:24,395 INFO lr: 0.1\n" + trace("ValueError: num_samples should be a positive integer value, but got num_samples=0"), "AccessDenied", "num_samples=0 (train.py, line 12), after: fatal error: Unable to locate credentials", "the credentials"),
    ("data that a command which is missing should fetch", 1, "run.sh: line 5: aws: command not found\nrun.sh: line 7: nvidia-smi: command not found\n" + trace("AssertionError", '  File "/app/train.py", line 12, in main', "    assert len(files) > 0"), "CommandNotFound", "AssertionError in: assert len(files) > 0 (train.py, line 12), after: run.sh: line 5: aws: command not found", "install aws in the image"),
    ("data in a directory that is not there", 1, "run.sh: line 3: cd: /data: No such file or directory\n" + trace("ValueError: found 0 files"), "FileNotFound", "found 0 files (train.py, line 12), after: run.sh: line 3: cd: /data", "the path"),
    ("no data, perhaps", 1, "cat: /etc/motd: No such file or directory\ncurl: (6) Could not resolve host: data.corp\n" + trace("ZeroDivisionError: division by zero"), "HostUnreachable", "division by zero (train.py, line 12), after: curl: (6)", "DNS"),
    ("a mistake, after what a program has logged", 1, "2026-11-26 17:53:24,395 ERROR upload of metrics: 403 Client Error: Forbidden for url\n" + trace("ZeroDivisionError: division by zero"), "PythonException", "division by zero (train.py", "correct the program; its last"),
    ("of Ray's processes the one that ends the program", 1, "\n".join(f"({name} pid=7) {line}" for name, text in (("TrainController", trace("ray.exceptions.GetTimeoutError: Get timed out")), ("RayTrainWorker", trace("KeyError: 'decay'"))) for line in text.splitlines()) + "\n" + trace("ray.train.WorkerGroupError: Training failed due to worker errors:\n[Rank 0 Error Snippet]:\n" + trace("KeyError: 'decay'")), "PythonException", "1: KeyError: 'decay' (train.py, line 12)", "what the message names"),
    ("of conda's problems the one that decides", 1, "LibMambaUnsatisfiableError: Encountered problems while solving:\n  - package a-1 requires b\n  - nothing provides __cuda >=12 needed by b\n\n" + trace("ModuleNotFoundError: No module named 'b'"), "ModuleNotFound", "printed before: LibMambaUnsatisfiableError: Encountered problems while solving: - nothing provides __cuda", "set -eo pipefail"),
    ("the first command of a script", 1, "kinit: Clock skew too great while getting initial credentials\n" + trace("FileNotFoundError: [Errno 2] No such file or directory: '/data/train.npy'"), "AccessDenied", "after: kinit: Clock skew too great", "clock"),
    ("a proxy, of pip", 1, "WARNING: Retrying (Retry(total=4, connect=None)) after connection broken by 'ProxyError('Cannot connect to proxy.', OSError('Tunnel connection failed: 407 Proxy Authentication Required'))': /simple/orbax/\nERROR: No matching distribution found for orbax-checkpoint==0.11.5", "HostUnreachable", "407 Proxy Authentication Required", "user and password"),
    ("hosts of DeepSpeed", 1, "ssh: Could not resolve hostname w-0.demo: Name or service not known\n" + trace("RuntimeError: Using hostfile at /etc/mpi/hostfile but host=w-0.demo was not reachable via ssh."), "PeersUnreachable", "printed before: ssh: Could not resolve hostname w-0.demo", "replica"),
    ("a crash of Java", 134, "#\n# A fatal error has been detected by the Java Runtime Environment:\n#\n#  SIGSEGV (0xb) at pc=0x00007f6b, pid=1, tid=42\n#\n# Problematic frame:\n# C  [libxgboost4j.so+0x1234]  Foo::Bar()\n#\n# If you would like to submit a bug report, please visit:\n#   https://bugreport.java.com/bugreport/crash.jsp", "ProgramFailed", "crashed in C  [libxgboost4j.so+0x1234]  Foo::Bar()", "hs_err_pid"),
    ("azcopy", 1, "RESPONSE 403: 403 This request is not authorized to perform this operation using this permission.\nERROR CODE: AuthorizationPermissionMismatch", "AccessDenied", "AuthorizationPermissionMismatch", "token"),
    ("a value without quotes", 1, "run.sh: line 3: export: `7': not a valid identifier", "ShellError", "`7'", "quoted"),
    ("a bus error of a rank", 135, boxed("mpirun noticed that process rank 1 with PID 9 on node w-1 exited on signal 7 (Bus error)."), "WorkerProcessKilled", "rank 1", "/dev/shm"),
    ("a cascade of hydra", 1, "[mpiexec@l] HYDT_topo_bind (tools/topo/topo.c:92): no topology library available: error\n[mpiexec@l] HYDU_bind (x.c:1): error binding\n[mpiexec@l] main (ui/mpich/mpiexec.c:336): process manager error waiting for completion", "ProgramFailed", "no topology library", "what the message names"),
    ("an argument of a script", 1, "/usr/local/bin/docker-entrypoint.sh: line 26: $1: unbound variable", "WrongArguments", "$1", "argument 1"),
    ("a detail of Postgres", 1, "FATAL:  database files are incompatible with server\nDETAIL:  The data directory was initialized by PostgreSQL version 11.", "ProgramFailed", "PostgreSQL version 11", "what the message names"),
    ("a rule of snakemake", 1, "MissingOutputException in rule metabat in file Snakefile, line 3:\nJob 0 completed successfully, but some output files are missing.\nShutting down, this might take some time.\nExiting because a job execution failed. Look above for error message", "PythonException", "MissingOutputException in rule metabat", "what the message names"),
    ("an error of mongod", 14, '{"t":{"$date":"2026"},"s":"E","c":"WT","id":22435,"msg":"WiredTiger error","attr":{"error":1,"message":"/data/db/WiredTiger.wt: handle-open: open: Operation not permitted"}}', "PermissionDenied", "WiredTiger error: /data/db/WiredTiger.wt", "owner"),
    ("a what(), below a shell", 134, "terminate called after throwing an instance of 'std::runtime_error'\n  what():  locale::facet::_S_create_c_locale name not valid\n/opt/run.sh: line 14:    21 Aborted                 (core dumped) regenie", "ProgramFailed", "what(): locale::facet::_S_create_c_locale name not valid", "what the message names"),
    ("glibc, below a shell", 134, "free(): invalid next size (normal)\n./start.sh: line 3:    12 Aborted                 ./zimg", "ProgramFailed", "exit code 134: free(): invalid next size (normal)", "what the message names"),
    ("a check of glog", 134, "F1126 10:00:00.1 42 db_lmdb.hpp:13] Check failed: mdb_status == 0 (-30792 vs. 0) MDB_MAP_FULL: Environment mapsize limit reached\n*** Check failure stack trace: ***\n    @     0x7f21 google::LogMessage::Fail()\n./create.sh: line 44: 32177 Aborted                 (core dumped) convert", "ProgramFailed", "MDB_MAP_FULL", "what the message names"),
    ("an archive that ends early", 2, "gzip: stdin: unexpected end of file\ntar: Unexpected EOF in archive\ntar: Error is not recoverable: exiting now", "ProgramFailed", "tar: Unexpected EOF in archive", "what the message names"),
    ("gsutil", 1, "ServiceException: 401 Anonymous caller does not have storage.objects.get access\nCommandException: 1 file/object could not be transferred.", "AccessDenied", "401 Anonymous", "ServiceAccount"),
    ("a task of Airflow", 1, "[2026-11-26] {local_task_job.py:151} INFO - Task exited with return code Negsignal.SIGKILL\n[2026-11-26] {x.py:1} INFO - 0 downstream tasks scheduled", "WorkerProcessKilled", "Negsignal.SIGKILL", "memory"),
    ("a limit of ClickHouse", 241, "Received exception from server (version 23.1):\nCode: 241. DB::Exception: Received from db:9000. DB::Exception: Memory limit (total) exceeded: would use 56.02 GiB.\n(query: INSERT INTO t SELECT 1)", "LimitReached", "Memory limit (total)", "max_memory_usage"),
    ("a name, of Go", 1, '{"level":"fatal","error":"failed to connect to db: lookup ganymede-db on 127.0.0.11:53: server misbehaving","time":"2026"}\n[exit_on_failure] SIGTERM supervisord pid=28', "HostUnreachable", "lookup ganymede-db", "ganymede-db does not resolve"),
    ("a certificate, of svn", 1, "svn: E230001: Server SSL certificate verification failed: issuer is not trusted\nERROR: In directory", "TlsFailed", "issuer is not trusted", "CA"),
    ("a driver that conda misses", 1, "  - nothing provides __cuda needed by pytorch-1.13.0-cuda112\ncritical libmamba UnSatisfiable Error", "VersionsConflict", "nothing provides __cuda", "CONDA_OVERRIDE_CUDA"),
    ("a limit of the node", 78, "ERROR: [1] bootstrap checks failed\n[1]: max virtual memory areas vm.max_map_count [65530] is too low, increase to at least [262144]", "LimitReached", "65530", "sysctl"),
    ("aria2", 24, "11/26 10:00:00 [ERROR] CUID#7 - Download aborted. URI=https://hub/x\nException: [HttpSkipResponseCommand.cc:215] errorCode=24 Authorization failed.\n\nIf there are any errors, then see the log file. See '-l' option in help/man page for details.", "AccessDenied", "Authorization failed", "credentials"),
    ("a denial of vault", 1, "  | Code: 403. Errors:\n  | \n  | * 1 error occurred:\n  | \t* permission denied", "AccessDenied", "Code: 403. Errors: * 1 error occurred: * permission denied", "credentials"),
    ("a module of Perl", 2, "Can't locate JSON/XS.pm in @INC (you may need to install the JSON::XS module) (@INC contains: /etc/perl) at prep.pl line 3.\nBEGIN failed--compilation aborted at prep.pl line 3.", "ModuleNotFound", "JSON/XS.pm", "JSON/XS.pm"),
    ("a library of MKL", 2, "INTEL MKL FATAL ERROR: Cannot load libmkl_avx512.so or libmkl_def.so.", "LibraryNotFound", "libmkl_avx512.so", "install the library"),
    ("a rendezvous", 1, trace("torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store has failed. See inner exception for details."), "PeersUnreachable", "RendezvousConnectionError", "replica"),
    ("an error above, of TensorFlow", 1, "2026-11-26 10:00:00.1: E tensorflow/compiler/xla/stream_executor/cuda/cuda_dnn.cc:417] Loaded runtime CuDNN library: 8.5.0 but source was compiled with: 8.6.0.\n" + trace("tensorflow.python.framework.errors_impl.UnimplementedError: DNN library is not found. Look at the errors above."), "VersionsConflict", "after: 2026-11-26 10:00:00.1: E tensorflow", "LD_LIBRARY_PATH"),
    ("a bus error, as a launcher shows it", 1, "[E] process 3 exits with return code = -7", "WorkerProcessKilled", "-7", "/dev/shm"),
    ("a segmentation fault, as a launcher shows it", 1, "[E] process 3 exits with return code = -11", "WorkerProcessKilled", "-11", "faulthandler"),
    ("an actor of Ray", 1, trace("ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task. Worker exit type: SYSTEM_ERROR"), "WorkerProcessKilled", "died unexpectedly", "memory"),
    ("a worker of Ray that crashed", 1, "(RayTrainWorker pid=27215) Fatal Python error: Segmentation fault\n(RayTrainWorker pid=27215) \n(RayTrainWorker pid=27215) Stack (most recent call first):\n(RayTrainWorker pid=27215)   File \"/x/site-packages/decord/video_reader.py\", line 175 in get_batch\n(RayTrainWorker pid=27215)   File \"/app/dataset.py\", line 51 in load\n" + trace("ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task."), "WorkerProcessKilled", "it crashed in get_batch (decord/video_reader.py, line 175), called by load (dataset.py, line 51)", "the package decord"),
    ("an optional variable", 1, trace("RuntimeError: The Inner error is reported as above. Please set the environment variable ASCEND_LAUNCH_BLOCKING=1"), "PythonException", "Inner error", "what the message names"),
    ("a process of nextflow", 1, "ERROR ~ Error executing process > 'FASTQC'\n\nCaused by:\n  Process requirement exceeds available memory -- req: 36 GB; avail: 32 GB\n\nCommand executed:\n  fastqc\n-[nf-core/rnaseq] Pipeline completed with errors-", "ProgramFailed", "Error executing process > 'FASTQC', after Process requirement exceeds", "what the message names"),
    ("a device of FUSE", 1, "mount: open /dev/fuse: Operation not permitted", "PermissionDenied", "/dev/fuse", "SYS_ADMIN"),
    ("a detail of Postgres, with times", 1, "2023-04-07 12:46:45.584 UTC [1] FATAL:  database files are incompatible with server\n2023-04-07 12:46:45.584 UTC [1] DETAIL:  The data directory was initialized by PostgreSQL version 11.", "ProgramFailed", "PostgreSQL version 11", "what the message names"),
    ("a lock of HDF5", 1, "HDF5-DIAG: Error detected in HDF5 (1.10.4):\n  #000: H5FDsec2.c line 940 in H5FD_sec2_lock(): unable to lock file, errno = 11, error message = 'Resource temporarily unavailable'\n    major: File accessibility\n    minor: Unable to lock file", "StorageFailed", "errno = 11", "HDF5_USE_FILE_LOCKING"),
    ("an instruction that the CPU lacks", 132, "/entry.sh: line 4: 39 Illegal instruction     (core dumped) mongod", "WorkerProcessKilled", "Illegal instruction", "AVX"),
    ("a kernel of Jupyter", 1, trace("nbclient.exceptions.DeadKernelError: Kernel died"), "WorkerProcessKilled", "Kernel died", "memory"),
    ("Fortran", 2, "At line 76 of file x.f90 (unit = 156, file = 'a.csv')\nFortran runtime error: End of file\n\nError termination. Backtrace:\n#0  0x7f933448c762 in ???", "ProgramFailed", "End of file", "what the message names"),
    ("workers of Dask that were killed", 1, "distributed.nanny - WARNING - Worker exceeded 95% memory budget. Restarting\n" + trace("distributed.scheduler.KilledWorker: Attempted to run task 'f' on 4 different workers"), "MemoryExhausted", "after: distributed.nanny - WARNING - Worker exceeded 95% memory budget", "limits.memory"),
    ("another message of DALI", 1, trace("RuntimeError: Critical error in pipeline:\nError when executing Mixed operator ImageDecoder encountered:\nError in thread 0: [jpeg_mem.cc:176] Assert on \"jpeg_start_decompress(&cinfo)\" failed"), "PythonException", "encountered: Error in thread 0: [jpeg_mem.cc:176]", "what the message names"),
    ("a peer of HCCL", 1, trace("RuntimeError: HCCL function error, error code is 9") + "\nEI0006: [PID: 41] Getting socket times out. Reason: Remote Rank did not send the data in time.", "PeersUnreachable", "EI0006", "replica"),
    ("a fabric that UCX lost", 134, "[n-051:51920:0:52950] ib_mlx5_log.c:139  Transport retry count exceeded on mlx5_0:1/RoCE (synd 0x15 vend 0x81)\n" + boxed("mpirun noticed that process rank 8 with PID 9 on node w-1 exited on signal 6 (Aborted)."), "PeersUnreachable", "Transport retry count", "ibstat"),
    ("an override that hydra cannot parse", 1, "missing EQUAL at '<EOF>'\nSee https://hydra.cc/docs/1.2/advanced/override_grammar/basic for details\n\nSet the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace.", "WrongArguments", "missing EQUAL", "KEY=VALUE"),
    ("a launcher's line below an exception", 1, trace("KeyError: 'roi_head is not in the registry'") + "\nERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 0 (pid: 7013) of binary: python", "PythonException", "1: KeyError: 'roi_head is not in the registry' (train.py, line 12)", "what the message names"),
    ("Intel's Fortran", 24, "forrtl: severe (24): end-of-file during read, unit 10, file /data/in.nml\nImage              PC                Routine            Line        Source\nlibc.so.6          00007F21  Unknown               Unknown  Unknown", "ProgramFailed", "end-of-file during read", "what the message names"),
    ("AWS for Go", 1, "upload failed: RequestTimeTooSkewed: The difference between the request time and the current time is too large.\n\tstatus code: 403, request id: X, host id: Y", "AccessDenied", "RequestTimeTooSkewed", "clock"),
    ("an instruction, without a shell", 132, "Illegal instruction (core dumped)", "WorkerProcessKilled", "Illegal", "AVX"),
    ("a process of nextflow, without a level", 1, "Error executing process > 'FASTQC'\n\nCaused by:\n  Process requirement exceeds available memory\n", "ProgramFailed", "after Process requirement exceeds", "what the message names"),
    ("a header", 1, "cuda.cu:3:10: fatal error: curand_kernel.h: No such file or directory\ncompilation terminated.\n" + trace("RuntimeError: Error building extension 'x'"), "LibraryNotFound", "after: cuda.cu:3:10: fatal error: curand_kernel.h", "curand_kernel.h"),
    ("workers of Dask that crashed", 1, "terminate called after throwing an instance of 'dmlc::Error'\n  what():  span.h:404: Check failed: _ptr || _count == 0\n" + trace("distributed.scheduler.KilledWorker: Attempted to run task 'f' on 4 different workers"), "ProgramFailed", "after: what(): span.h:404: Check failed", "what the message names"),
    ("memory of RAPIDS", 1, trace("MemoryError: std::bad_alloc: out_of_memory: CUDA error at: rmm/cuda_memory_resource.hpp: cudaErrorMemoryAllocation out of memory"), "GpuOutOfMemory", "cudaErrorMemoryAllocation", "smaller batch"),
    ("a driver that does not start", 1, trace("RuntimeError: CUDA unknown error - this may be due to an incorrectly set up environment"), "GpuUnusable", "CUDA unknown error", "driver"),
    ("a worker of vLLM", 1, "\n".join(f"(VllmWorker rank=0 pid=91) ERROR 05-01 10:00:00 [multiproc_executor.py:487] {line}" for line in trace("ValueError: Free memory on device (3.1/79.2 GiB) is less than desired").splitlines()) + "\n" + trace("RuntimeError: Engine core initialization failed. See root cause above."), "PythonException", "1: ValueError: Free memory on device", "what the message names"),
    ("locked memory, of UCX", 1, "[w-0:70113:0:70113] ib_log.c:246  UCX  ERROR mlx5_0: ibv_create_cq() failed: Cannot allocate memory. Please set max locked memory (ulimit -l) to 'unlimited'\n[w-0:70113] PML ucx cannot be selected", "LimitReached", "ibv_create_cq()", "IPC_LOCK"),
    ("a pointer of git-lfs", 1, "fatal: model.bin: This repository is over its data quota\n" + trace("_pickle.UnpicklingError: invalid load key, 'v'."), "DataInvalid", "printed before: fatal: model.bin: This repository is over its data quota", "git lfs pull"),
    ("an environment of conda that is not there", 1, "EnvironmentNameNotFound: Could not find conda environment: train-py311\n" + trace("ModuleNotFoundError: No module named 'torch'"), "ModuleNotFound", "printed before: EnvironmentNameNotFound", "set -eo pipefail"),
    ("rabit", 1, trace("xgboost.core.XGBoostError: [10:00:00] rabit: Allreduce failed"), "PeersUnreachable", "Allreduce failed", "replica"),
    ("rank 0, which ended", 1, trace("torch.distributed.DistBackendError: [1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got error: failed to recv, got 0 bytes"), "PeersUnreachable", "got 0 bytes", "replica"),
    ("a download that was denied before", 1, "fatal error: An error occurred (ExpiredToken) when calling the ListObjectsV2 operation: The provided token has expired.\n" + trace("FileNotFoundError: [Errno 2] No such file or directory: '/data/train.npy'"), "AccessDenied", "after: fatal error: An error occurred (ExpiredToken)", "credentials"),
    ("a server that ends", 1, trace("requests.exceptions.ConnectionError: ('Connection aborted.', RemoteDisconnected('Remote end closed connection without response'))"), "HostUnreachable", "Remote end closed", "its log"),
    ("a project of wandb", 1, trace("wandb.errors.CommError: It appears that you do not have permission to access the requested resource. (Error 404: Not Found)"), "AccessDenied", "permission", "WANDB_API_KEY"),
    ("models that differ", 1, trace("RuntimeError: DDP expects same model across all ranks, but Rank 0 has 161 params, while rank 2 has inconsistent 159 params."), "CollectiveMismatch", "rank 2 has inconsistent", "same model"),
    ("a package that conda lacks", 1, "Collecting package metadata: ...working... done\nSolving environment: ...working... failed\n\nResolvePackageNotFound: \n  - cudatoolkit=11.9", "VersionsConflict", "ResolvePackageNotFound: - cudatoolkit=11.9", "other versions"),
    ("a full disk, of TensorFlow", 1, trace("tensorflow.python.framework.errors_impl.ResourceExhaustedError: {{function_node __wrapped__SaveV2}} /ckpt/x.tempstate1178; No space left on device [Op:SaveV2]"), "DiskFull", "No space left", "larger volume"),
    ("samples of different shapes", 1, trace("RuntimeError: Trying to resize storage that is not resizable"), "DataInvalid", "not resizable", "collate_fn"),
]  # fmt: skip

ROWS = [
    # what newcomers met
    ("nccl is not built in", 1, NO_NCCL, "BackendUnavailable", "doesn't have NCCL built in"),
    ("LOCAL_RANK is not set", 1, unset("LOCAL_RANK"), "EnvironmentMissing", "KeyError: 'LOCAL_RANK'"),
    ("another variable is not set", 1, unset("DATA_DIR"), "EnvironmentMissing", "KeyError: 'DATA_DIR'"),
    ("a key is missing, of no environment", 1, trace("KeyError: 'DATA_DIR'"), "PythonException", "KeyError: 'DATA_DIR'"),
    ("a syntax error", 1, "  File \"/app/train.py\", line 3\n    def f(\n         ^\nSyntaxError: '(' was never closed", "SyntaxError", "train.py, line 3"),
    ("an indentation error", 1, '  File "/app/train.py", line 4\n    x = 1\nIndentationError: unexpected indent', "SyntaxError", "unexpected indent"),
    ("a missing script", 2, "python: can't open file '/app/trian.py': [Errno 2] No such file or directory", "FileNotFound", "/app/trian.py"),
    ("/dev/shm is full, of nccl", 1, SHM, "SharedMemoryFull", "/dev/shm/nccl-vT6Fyh"),
    ("/dev/shm is full, of the data loader", 1, trace("RuntimeError: DataLoader worker (pid 9) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory."), "SharedMemoryFull", "Bus error"),
    ("/dev/shm is full, of Open MPI", 1, "It appears as if there is not enough space for the shared memory backing file.", "SharedMemoryFull", "backing file"),
    ("a certificate of the future", 1, trace("ssl.SSLCertVerificationError: [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate is not yet valid (_ssl.c:1006)"), "TlsFailed", "not yet valid"),
    ("an unreachable hub", 1, HUB, "HostUnreachable", "huggingface.co"),
    ("a missing module", 1, trace("ModuleNotFoundError: No module named 'einops'"), "ModuleNotFound", "einops"),
    ("a missing module of -m", 1, "/usr/bin/python: No module named trainer.main", "ModuleNotFound", "trainer.main"),
    # which of several errors
    ("the rank that failed, not those that lost it", 1, TWO_RANKS, "PythonException", "label 12 is out of range (train.py, line 12)"),
    ("a rank that was killed", 1, KILLED_RANK, "WorkerProcessKilled", "SIGKILL"),
    ("a spawned process", 1, SPAWNED, "PythonException", "IndexError: index 5"),
    ("the exception, not the clean-up after it", 1, AT_EXIT, "PythonException", "ZeroDivisionError"),
    ("the exception of a data loader's worker", 1, IN_WORKER, "FileNotFound", "/data/train/7.png"),
    ("the exception, not mpirun's summary", 1, trace("ValueError: bad shard") + "\n" + MPI_FAILED, "PythonException", "rank 1 failed first: ValueError: bad shard"),
    ("a consequence alone, and mpirun's summary of Open MPI 5", 1, tagged(0, trace("RuntimeError: Horovod has been shut down. This was caused by an exception on one of the ranks")) + "\n" + MPI_FAILED.replace("[[23,1],1]", "[prterun-demo-launcher-23@1,1]"), "PeersUnreachable", "; rank 1 failed first"),
    ("nothing but mpirun's summary", 1, MPI_FAILED, "ProgramFailed", "rank 1 ended first, with exit code 1"),
    ("a lost peer alone", 1, trace(LOST_PEER), "PeersUnreachable", "Connection closed by peer"),
    ("a cause below a wrapper", 1, trace("RuntimeError: could not start training", before=trace("OSError: [Errno 28] No space left on device") + DURING), "DiskFull", "could not start training, after OSError"),
    ("the exception of a group", 1, "  + Exception Group Traceback (most recent call last):\n  | ExceptionGroup: two (1 sub-exception)\n  +-+---------------- 1 ----------------\n    | Traceback (most recent call last):\n    |   File \"/app/a.py\", line 3, in f\n    | ValueError: inner", "PythonException", "ValueError: inner"),
    ("a warning after which the program went on", 1, "09:00 WARNING train: HF_TOKEN is not set, downloads are rate limited\n09:01 INFO train: step 1\nDataset /data has 0 samples", "ProgramFailed", "its last line: Dataset /data has 0 samples"),
    ("a warning if there is nothing else", 1, "UserWarning: CUDA initialization: no driver found", "GpuUnusable", "CUDA initialization"),
    ("an ordinary line with nan", 1, NEVER, "ProgramFailed", "exit code 1"),
    ("the line that reads like an error", 3, "start\nfatal: shard 7 has no index\nbye", "ProgramFailed", "fatal: shard 7 has no index"),
    # GPUs and collectives
    ("memory of a GPU", 1, trace("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB."), "GpuOutOfMemory", "CUDA out of memory"),
    ("memory of a GPU, JAX", 1, trace("jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 68719476736 bytes."), "GpuOutOfMemory", "RESOURCE_EXHAUSTED"),
    ("no CUDA in torch", 1, trace("AssertionError: Torch not compiled with CUDA enabled"), "GpuUnusable", "not compiled with CUDA"),
    ("no GPU, JAX", 1, trace("RuntimeError: Unable to initialize backend 'cuda': no supported devices found for platform CUDA"), "GpuUnusable", "Unable to initialize"),
    ("a rank without a GPU of its own", 1, trace("RuntimeError: CUDA error: invalid device ordinal\nCUDA kernel errors might be asynchronously reported"), "GpuUnusable", "invalid device ordinal"),
    ("an assertion on the device", 1, trace("RuntimeError: CUDA error: device-side assert triggered"), "GpuError", "device-side assert"),
    ("a broken GPU", 1, trace("RuntimeError: CUDA error: uncorrectable ECC error encountered"), "GpuError", "ECC"),
    ("a watchdog", 134, WATCHDOG, "CollectiveTimeout", "rank 0 waited 600 s for the others in ALLREDUCE number 7"),
    ("a monitored barrier", 1, trace("RuntimeError: Rank 1 failed to pass monitoredBarrier in 30000 ms"), "CollectiveTimeout", "rank 1 did not reach the barrier"),
    ("different collectives", 1, trace("RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running collective: CollectiveFingerPrint(SequenceNumber=1, OpType=ALLREDUCE)"), "CollectiveMismatch", "Rank 0 is running"),
    ("different models", 1, trace("RuntimeError: DDP expects same model across all ranks, but Rank 0 has 4 params, while rank 1 has inconsistent 5 params."), "CollectiveMismatch", "inconsistent 5"),
    ("a segmentation fault", 139, "Fatal Python error: Segmentation fault", "SIGSEGV", "segmentation fault"),
    ("killed, after an old traceback", 137, trace("ValueError: retried"), "SIGKILL", "killed by SIGKILL"),
    # files, disks, memory, limits
    ("a missing file", 1, trace("FileNotFoundError: [Errno 2] No such file or directory: 'data/train.csv'"), "FileNotFound", "data/train.csv"),
    ("a missing file, by a shell tool", 1, "cat: /data/list.txt: No such file or directory", "FileNotFound", "/data/list.txt"),
    ("a missing directory", 2, "sh: 1: cd: can't cd to /nope", "FileNotFound", "/nope"),
    ("no right to write", 1, trace("PermissionError: [Errno 13] Permission denied: '/output/model.pt'"), "PermissionDenied", "/output/model.pt"),
    ("read-only", 1, trace("OSError: [Errno 30] Read-only file system: '/data/x'"), "PermissionDenied", "Read-only"),
    ("the disk is full", 1, trace("OSError: [Errno 28] No space left on device: '/ckpt/1.pt'"), "DiskFull", "/ckpt/1.pt"),
    ("no memory", 1, trace("numpy.core._exceptions._ArrayMemoryError: Unable to allocate 745. GiB for an array with shape (100000, 1000000)"), "MemoryExhausted", "745. GiB"),
    ("no memory, bare", 1, trace("MemoryError"), "MemoryExhausted", "MemoryError"),
    ("no memory, of C++", 134, "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc", "MemoryExhausted", "bad_alloc"),
    ("a killed worker", 1, trace("RuntimeError: DataLoader worker (pid(s) 77, 78) exited unexpectedly"), "WorkerProcessKilled", "exited unexpectedly"),
    ("too many files", 1, trace("OSError: [Errno 24] Too many open files: '/data/1'"), "LimitReached", "Too many open files"),
    ("too many threads", 1, trace("RuntimeError: can't start new thread"), "LimitReached", "new thread"),
    ("a missing library", 1, trace("ImportError: libGL.so.1: cannot open shared object file: No such file or directory"), "LibraryNotFound", "libGL.so.1"),
    ("another libc", 1, "python: /lib/libc.so.6: version `GLIBC_2.34' not found (required by python)", "LibraryNotFound", "GLIBC_2.34"),
    ("versions that do not fit", 1, trace("ImportError: cannot import name 'packaging' from 'pkg_resources' (/x/pkg_resources/__init__.py)"), "VersionsConflict", "cannot import name"),
    # the error below an error
    ("an unset variable, of a configuration error", 1, unset("DATA_DIR") + BY + trace("app.ConfigError: invalid config"), "EnvironmentMissing", "ConfigError: invalid config, after KeyError: 'DATA_DIR'"),
    ("an unset variable, while another error is raised", 1, unset("DATA_DIR") + DURING + trace("RuntimeError: tracker: connection refused"), "EnvironmentMissing", "after KeyError: 'DATA_DIR'"),
    ("an unset variable, of an error that names no file", 1, unset("DATA_DIR") + BY + trace("ValueError: the data does not exist"), "EnvironmentMissing", "KeyError: 'DATA_DIR'"),
    ("the first of three causes", 1, trace("FileNotFoundError: [Errno 2] No such file or directory: '/cfg/a.yaml'") + BY + trace("app.ConfigError: bad") + BY + trace("RuntimeError: no training"), "FileNotFound", "/cfg/a.yaml"),
    ("a lost host, which is no cause of its own", 1, trace("ConnectionRefusedError: [Errno 111] Connection refused") + BY + trace("app.HubError: HTTPSConnectionPool(host='hub.example.com', port=443): no"), "HostUnreachable", "hub.example.com"),
    ("hydra's hint", 1, "Error executing job with overrides: []\n" + trace("ValueError: lr must be positive") + FULL_ERROR, "PythonException", "lr must be positive"),
    ("hydra's hint alone", 1, "Error in call to target 'app.Net':\nTypeError(\"Net() got an unexpected keyword argument 'hiden'\")\nfull_key: model" + FULL_ERROR, "ConfigInvalid", "'app.Net': TypeError(\"Net() got an unexpected keyword argument 'hiden'"),
    ("hydra, no such group", 1, "In 'config': Could not find 'model/resnet500'\n\nAvailable options in 'model':\n\tresnet50" + FULL_ERROR, "ConfigInvalid", "model/resnet500"),
    ("a command that the program runs", 1, "tar: x.tar: Cannot open: No such file or directory\n" + trace(TAR), "FileNotFound", "exit status 2: tar: x.tar: Cannot open"),
    ("such a command, of no known cause", 1, "loading\ntar: invalid header in shard 17\n" + trace(TAR), "ProgramFailed", "exit status 2: tar: invalid header in shard 17"),
    ("such a command, silent", 1, trace(TAR), "ProgramFailed", "returned non-zero exit status 2"),
    ("such a command, killed", 1, trace("subprocess.CalledProcessError: Command '['./prepare']' died with <Signals.SIGKILL: 9>."), "WorkerProcessKilled", "./prepare"),
    ("faulthandler", 139, FAULT, "SIGSEGV", "(SIGSEGV, exit code 139) in encode (native.py, line 33)"),
    ("faulthandler, of a thread of a library", 139, FAULT.partition("\nCurrent thread")[0], "SIGSEGV", "in wait (threading.py, line 331)"),
    ("faulthandler, of a C++ exception", 134, "  what():  shard 7\n" + FAULT.replace("Segmentation fault", "Aborted"), "SIGABRT", "in encode (native.py, line 33): what(): shard 7"),
    ("faulthandler, after a time-out", 1, 'Timeout (0:01:00)!\nThread 0x7f (most recent call first):\n  File "/app/data.py", line 7 in read\n  File "/app/train.py", line 2 in main', "ProgramFailed", "in read (data.py, line 7)"),
    ("a command that does not exist", 1, trace("FileNotFoundError: [Errno 2] No such file or directory: 'nvcc'", '  File "/usr/lib/python3.11/subprocess.py", line 1955, in _execute_child', "    raise child_exception_type(errno_num, err_msg, err_filename)"), "CommandNotFound", "'nvcc'"),
    ("a command without access", 1, "fatal error: An error occurred (403) when calling the HeadObject operation: Forbidden\n" + trace(TAR), "AccessDenied", "HeadObject"),
    ("nccl's last error", 1, trace(NCCL.format("internal error", "ncclInternalError: Internal check failed.", "Invalid config blocking attribute value -21")), "GpuError", "Invalid config blocking attribute value -21"),
    ("nccl's last error, memory", 1, trace(NCCL.format("unhandled cuda error", UNHANDLED, "Cuda failure 2 'out of memory'")), "GpuOutOfMemory", "Cuda failure 2 'out of memory'"),
    ("nccl's last error, a peer", 1, trace(NCCL.format("remote process exited", "ncclRemoteError: A call failed.", "socketProgress: Connection closed by remote peer w-1<40213>")), "PeersUnreachable", "remote peer w-1<40213>"),
    ("nccl's last error, without an exception", 134, NCCL.format("unhandled cuda error", UNHANDLED, "Cuda failure 'peer access is not supported'"), "GpuError", "peer access is not supported"),
    ("tensorflow, a port in use", 1, trace(NO_GRPC), "PortInUse", "Could not start gRPC server"),
    ("java's heap", 1, f'Exception in thread "main" {JAVA}\n\tat java.util.Arrays.copyOf(Arrays.java:3332)', "MemoryExhausted", "Java heap space"),
    ("java's heap, below Spark", 1, trace(SPARK + 30 * "\tat org.apache.spark.X(X.scala:1)\n" + f"Caused by: {JAVA}"), "MemoryExhausted", "Caused by: java.lang.OutOfMemoryError"),
    # checkpoints, numbers, configuration
    ("another model", 1, trace('RuntimeError: Error(s) in loading state_dict for Net:\n\tsize mismatch for fc.weight: copying a param with shape torch.Size([10, 4])'), "CheckpointMismatch", "size mismatch for fc.weight"),
    ("a damaged checkpoint", 1, trace("RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory"), "DataInvalid", "central directory"),
    ("an empty checkpoint", 1, trace("EOFError: Ran out of input"), "DataInvalid", "Ran out of input"),
    ("a loss of nan", 1, trace("ValueError: loss is nan at step 120"), "NotANumber", "loss is nan"),
    ("a gradient of nan", 1, trace("RuntimeError: Function 'MulBackward0' returned nan values in its 0th output."), "NotANumber", "nan values"),
    ("a bad json", 1, trace("json.decoder.JSONDecodeError: Expecting ',' delimiter: line 3 column 5 (char 40)"), "ConfigInvalid", "line 3"),
    ("a bad yaml", 1, trace('yaml.scanner.ScannerError: mapping values are not allowed here\n  in "config.yaml", line 4, column 9'), "ConfigInvalid", "mapping values"),
    ("a bad model", 1, trace("pydantic_core._pydantic_core.ValidationError: 1 validation error for Config\nlr\n  Input should be a valid number"), "ConfigInvalid", "1 validation error"),
    ("hydra", 1, "Could not override 'trainer.lrr'.\nKey 'lrr' is not in struct", "ConfigInvalid", "trainer.lrr"),
    # arguments and shells
    ("argparse", 2, "usage: train.py [-h] [--lr LR]\ntrain.py: error: argument --lr: invalid float value: 'abc'", "WrongArguments", "invalid float value"),
    ("argparse, required", 2, "usage: t.py --data DATA\nt.py: error: the following arguments are required: --data", "WrongArguments", "--data"),
    ("click", 2, "Usage: train.py [OPTIONS]\nTry 'train.py --help' for help.\n\nError: No such option: --epoch Did you mean --epochs?", "WrongArguments", "--epoch"),
    ("absl", 1, "FATAL Flags parsing error:\n  Unknown command line flag 'lrr'. Did you mean: lr ?", "WrongArguments", "lrr"),
    ("sh, syntax", 2, 'sh: 1: Syntax error: Unterminated quoted string', "ShellError", "Unterminated"),
    ("bash, unset", 1, "train.sh: line 3: DATA: unbound variable", "EnvironmentMissing", "DATA"),
    ("a missing program", 127, "sh: 1: accelerate: not found", "CommandNotFound", "accelerate"),
    ("no right to run", 126, "sh: 1: ./train.sh: Permission denied", "CommandNotExecutable", "./train.sh"),
    # connections
    ("a port in use", 1, trace("torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: 23456, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use"), "PortInUse", "23456"),
    ("not the pod's address", 1, trace("OSError: [Errno 99] Cannot assign requested address"), "PeersUnreachable", "Errno 99"),
    ("the master does not answer", 1, trace("torch.distributed.DistStoreError: Timed out after 61 seconds waiting for clients. 1/2 clients joined."), "PeersUnreachable", "1/2 clients"),
    ("a refused connection", 1, trace("ConnectionRefusedError: [Errno 111] Connection refused"), "PeersUnreachable", "refused"),
    ("a private model", 1, trace("huggingface_hub.errors.GatedRepoError: 401 Client Error. Access to model meta-llama/Llama-3 is restricted."), "AccessDenied", "restricted"),
    ("no credentials", 1, trace("botocore.exceptions.NoCredentialsError: Unable to locate credentials"), "AccessDenied", "credentials"),
    ("no such model", 1, trace("OSError: bert-basse is not a local folder and is not a valid model identifier listed on 'https://huggingface.co/models'"), "FileNotFound", "bert-basse"),
    ("a database", 1, trace('psycopg2.OperationalError: connection to server at "db.corp.example" (10.0.0.1), port 5432 failed: timeout expired'), "HostUnreachable", "db.corp.example"),
    ("pip without a network", 1, trace("requests.exceptions.ConnectionError: HTTPSConnectionPool(host='pypi.org', port=443): Max retries exceeded with url: /simple"), "HostUnreachable", "pypi.org"),
    # MPI
    ("no slots", 1, "There are not enough slots available in the system to satisfy the 8\nslots that were requested by the application:\n  python", "TooFewSlots", "not enough slots available for the 8 processes"),
    ("a host key", 255, "Host key verification failed.\nORTE was unable to reliably start one or more daemons.", "SshRefused", "Host key"),
    ("a key", 255, "mpiuser@demo-worker-0: Permission denied (publickey,password).\nORTE was unable to reliably start one or more daemons.", "SshRefused", "publickey"),
    ("sshd's directory", 255, "Missing privilege separation directory: /run/sshd", "SshRefused", "/run/sshd"),
    ("root", 1, "mpirun has detected an attempt to run as root.", "RunAsRootRefused", "root"),
    ("no such program on a worker", 1, "mpirun was unable to launch the specified application as it could not access\nor execute an executable:\n\nExecutable: trainn\nNode: demo-worker-0", "CommandNotFound", "trainn"),
    ("no Open MPI on a worker", 1, "bash: line 1: orted: command not found\nORTE was unable to reliably start one or more daemons.", "CommandNotFound", "orted"),
    ("a rank crashed", 139, "mpirun noticed that process rank 1 with PID 0 on node demo-worker-1 exited on signal 11 (Segmentation fault).", "WorkerProcessKilled", "rank 1"),
    ("a rank was killed", 137, "mpirun noticed that process rank 3 with PID 0 on node demo-worker-1 exited on signal 9 (Killed).\n---------", "WorkerProcessKilled", "rank 3"),
    ("a crash in one of two threads", 139, CRASH, "SIGSEGV", "in join (server_lib.py, line 176)"),
    ("a broken heap", 134, "epoch 0 step 10 loss 9.9144\ndouble free or corruption (!prev)", "SIGABRT", "double free or corruption"),
    # other frameworks
    ("tensorflow, no peers", 1, trace("tensorflow.python.framework.errors_impl.UnavailableError: failed to connect to all addresses"), "PeersUnreachable", "all addresses"),
    ("tensorflow, TF_CONFIG", 1, trace("ValueError: TF_CONFIG environment variable is not set"), "EnvironmentMissing", "TF_CONFIG"),
    ("jax, no coordinator", 1, trace("jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Barrier_id: PjRT_Client_Connect"), "PeersUnreachable", "Barrier timed out"),
    ("xgboost, no tracker", 1, trace("xgboost.core.XGBoostError: [10:00:00] /src/collective/comm.cc:50: Failed to connect to the tracker"), "PeersUnreachable", "tracker"),
    ("paddle, a variable", 1, unset("PADDLE_TRAINER_ENDPOINTS"), "EnvironmentMissing", "PADDLE_TRAINER_ENDPOINTS"),
    ("a volume that does not answer", 1, trace("OSError: [Errno 116] Stale file handle: '/mnt/nfs/data'"), "StorageFailed", "Stale file handle"),
    ("damaged data", 1, trace("pyarrow.lib.ArrowInvalid: Parquet magic bytes not found in footer. Either the file is corrupted"), "DataInvalid", "Parquet"),
    ("killed, below a shell", 1, "bash: line 1:    12 Killed                  python train.py", "WorkerProcessKilled", "Killed"),
    ("a library of a program", 127, "./train: error while loading shared libraries: libmpi.so.40: cannot open shared object file", "LibraryNotFound", "libmpi.so.40"),
    ("the ends of Windows' lines", 126, "sh: 1: /train.sh: /bin/bash^M: bad interpreter: No such file or directory", "ShellError", "CRLF"),
    ("Windows line endings, of a command", 127, "/run.sh: line 2: $'\\r': command not found\nbash: line 9: fg: not found", "ShellError", "CRLF"),
    ("Windows line endings, of a file", 2, "/run.sh: line 3: cd: $'/srv\\r': No such file or directory\npython: can't open file '/app/train.py\\r': [Errno 2] No such file or directory", "ShellError", "CRLF"),
    ("Windows line endings, of an interpreter", 127, "env: 'python3\\r': No such file or directory\nenv: use -[v]S to pass options in shebang lines", "ShellError", "python3"),
    ("what is printed after an exception", 1, "\n".join((trace("ValueError: batch 7 for 2 replicas"), "error: cannot flush", *(f"removing {n}" for n in range(200)))), "PythonException", "batch 7"),
    ("an error that was overcome, long before", 1, "\n".join((trace("ValueError: bad row 7"), *(f"step {n}" for n in range(200)), trace("KeyError: 'label'"))), "PythonException", "label"),
    ("a path that is a directory", 1, trace("IsADirectoryError: [Errno 21] Is a directory: '/etc/app/config.json'"), "FileNotFound", "config.json"),
    ("yaml, a tab", 1, trace("yaml.scanner.ScannerError: while scanning for the next token\nfound character '\\t' that cannot start any token\n  in \"/etc/cfg/train.yaml\", line 3, column 1"), "ConfigInvalid", 'cannot start any token in "/etc/cfg/train.yaml", line 3'),
    ("yaml, a snippet", 1, trace('yaml.parser.ParserError: while parsing a block mapping\n  in "<unicode string>", line 1, column 1:\n    a: 1\n    ^\nexpected <block end>, but found \'-\'\n  in "<unicode string>", line 2, column 1:\n    - b'), "ConfigInvalid", "expected <block end>, but found '-' in"),
    ("missing values", 1, trace("ValueError: Input X contains NaN.\nLogisticRegression does not accept missing values"), "DataInvalid", "Input X contains NaN"),
    ("git, a path", 128, "fatal: '/srv/models.git' does not appear to be a git repository\nfatal: Could not read from remote repository.", "FileNotFound", "/srv/models.git"),
    ("git, a name", 128, "remote: Repository not found.\nfatal: repository 'https://github.com/corp/modles.git/' not found", "FileNotFound", "modles.git"),
    ("ssh before ORTE", 255, "ssh: connect to host demo-worker-1 port 22: Connection refused\nORTE was unable to reliably start one or more daemons.", "PeersUnreachable", "demo-worker-1 port 22"),
    ("aborted, with the words of the library", 134, "free(): invalid pointer", "SIGABRT", "invalid pointer"),
    ("the rank that did not join", 134, WATCHDOG + "\nCollective 7 (ALLREDUCE): ranks [1, 3] did not join", "CollectiveTimeout", "ranks [1, 3] did not join"),
    ("jax, no coordinator's address", 1, trace("ValueError: coordinator_address should be defined."), "EnvironmentMissing", "coordinator_address"),
    ("paddle, the launcher", 1, "LAUNCH ERROR 2026-11-23 10:00:00,000 Container failed !!!", "ProgramFailed", "Container failed"),
    ("no route", 1, trace("OSError: [Errno 113] No route to host"), "PeersUnreachable", "No route to host"),
    ("a backend that does not exist", 1, trace("AssertionError: Unknown backend type ncl"), "BackendUnavailable", "ncl"),
    ("a compiler that is missing", 1, "error: command 'gcc' failed: No such file or directory", "CommandNotFound", "gcc"),
    ("timeout(1)", 124, "step 7", "ProgramFailed", "the timeout command stopped it"),
    # the first cause
    ("an exception raised from another", 1, trace("ValueError: shard 7 has no index") + BY + trace("RuntimeError: could not start"), "PythonException", "could not start (train.py, line 12), after ValueError: shard 7 has no index (train.py, line 12)"),
    ("three that tell nothing", 1, trace("IndexError: 5") + BY + trace("app.LoadError: row 2") + BY + trace("RuntimeError: no training"), "PythonException", "RuntimeError: no training (train.py, line 12), after app.LoadError: row 2, after IndexError: 5"),
    ("a known exception raised from an unknown one", 1, trace("ValueError: port 0") + BY + trace("app.ConfigError: bad"), "ConfigInvalid", "app.ConfigError: bad (train.py, line 12), after ValueError: port 0"),
    ("an exception in the handling of another", 1, trace("KeyError: 'label'") + DURING + trace("NameError: name 'log' is not defined"), "PythonException", "(train.py, line 12), after KeyError: 'label'"),
    ("the exception that an unknown one tells already", 1, trace("ValueError: shard 7") + BY + trace("RuntimeError: cannot read: ValueError: shard 7"), "PythonException", "cannot read: ValueError: shard 7 (train.py, line 12)"),
    # the line that says more than the exception
    ("an assertion on the device, in words", 1, ASSERTED, "GpuError", "the assertion `t >= 0 && t < n_classes` failed on the GPU"),
    ("tensorflow, memory", 1, trace(TF_FAILED.format("OOM when allocating tensor with shape[65536,65536] and type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc")), "GpuOutOfMemory", "OOM when allocating tensor with shape[65536,65536]"),
    ("tensorflow, memory of the CPU", 1, trace("tensorflow.python.framework.errors_impl.ResourceExhaustedError: {{function_node __wrapped__MatMul}} OOM when allocating tensor with shape[99999,99999] and type float on /job:localhost/replica:0/task:0/device:CPU:0 by allocator cpu [Op:MatMul]"), "MemoryExhausted", "shape[99999,99999]"),
    ("tensorflow, shapes", 1, trace(TF_FAILED.replace("ResourceExhausted", "InvalidArgument").format("Incompatible shapes: [32,10] vs. [32,5]")), "PythonException", "Incompatible shapes: [32,10] vs. [32,5]"),
    # outputs of several processes in one line
    ("an exception after a progress bar", 1, trace("45%|####5     | 45/100 [00:03<00:03]ValueError: shard 7 has no index"), "PythonException", "exit code 1: ValueError: shard 7"),
    ("an exception before another's traceback", 1, trace("ValueError: shard 7" + trace("ValueError: shard 7")), "PythonException", "ValueError: shard 7"),
    # the interpreter of a script
    ("an interpreter that is missing", 127, "bash: line 1: /app/train.py: cannot execute: required file not found", "CommandNotFound", "the interpreter in the #! line of /app/train.py does not exist"),
    ("an interpreter that is missing, of an older bash", 126, "bash: /app/train.py: /usr/bin/pyhton3: bad interpreter: No such file or directory", "CommandNotFound", "the interpreter /usr/bin/pyhton3 in the #! line of /app/train.py does not exist"),
    ("an interpreter that is missing, by env", 127, "/usr/bin/env: 'pyhton3': No such file or directory", "CommandNotFound", "pyhton3"),
    ("an interpreter that is missing, by the runtime", 255, "exec /app/train.py: no such file or directory", "CommandNotFound", "the command /app/train.py exists, but the interpreter in its #! line does not"),
    ("an unset variable, of a shell that ends with 127", 127, "bash: line 1: DATA_DIR: unbound variable", "EnvironmentMissing", "DATA_DIR: unbound"),
    ("an assertion without a message", 1, trace("AssertionError", '  File "/app/train.py", line 12, in main', "    assert labels.max() < classes", "           ^^^^^^^^^^^^"), "PythonException", "AssertionError in: assert labels.max() < classes (train.py, line 12)"),
    # everyday ones
    ("an old driver", 1, trace("RuntimeError: The NVIDIA driver on your system is too old (found version 11040)."), "GpuUnusable", "too old"),
    ("fewer GPUs than where it was saved", 1, trace("RuntimeError: Attempting to deserialize object on CUDA device 3 but torch.cuda.device_count() is 1."), "GpuUnusable", "CUDA device 3"),
    ("/dev/shm is full, of an object", 1, trace("RuntimeError: Unable to open shared memory object </torch_12_3> in read-write mode: No space left on device (28)"), "SharedMemoryFull", "torch_12_3"),
    ("a spawned process that was killed", 1, trace("torch.multiprocessing.spawn.ProcessExitedException: process 0 terminated with signal SIGKILL"), "WorkerProcessKilled", "SIGKILL"),
    ("a launcher that is missing", 1, trace("RuntimeError: launcher 'pdsh' not installed."), "CommandNotFound", "pdsh"),
    ("a module of a module", 1, trace("RuntimeError: Failed to import x because of the following error (look up to see its traceback):\nNo module named 'flash_attn'"), "ModuleNotFound", "flash_attn"),
    ("a script without the right to read it", 2, "python3: can't open file '/app/main.py': [Errno 13] Permission denied", "PermissionDenied", "/app/main.py"),
    ("a data set's hub", 1, trace("ConnectionError: Couldn't reach 'squad' on the Hub (ConnectionError)"), "HostUnreachable", "squad"),
    ("a worker of a data loader that hangs", 1, trace("RuntimeError: DataLoader timed out after 60 seconds"), "PythonException", "DataLoader timed out"),
    ("mxnet, no scheduler", 255, "[10:00:00] src/van.cc:291: Check failed: connect to scheduler 10.0.0.1:9091 failed", "PeersUnreachable", "scheduler 10.0.0.1"),
    ("lightgbm, no peer", 1, "[LightGBM] [Fatal] Connecting to rank 1 failed", "PeersUnreachable", "rank 1"),
    ("paddle, no peer", 1, trace("paddle.fluid.core_avx.EnforceNotMet: (Unavailable) connect to 10.0.0.1:6170 failed"), "PeersUnreachable", "6170"),
    ("jax, another task", 1, "E0000 client.cc] Terminating process because the JAX distributed service detected fatal errors. This most likely indicates that another task died", "PeersUnreachable", "another task died"),
    ("nccl, aborted", 1, trace("RuntimeError: NCCL communicator was aborted on rank 1."), "PeersUnreachable", "aborted on rank 1"),
    ("a table with too many fields", 1, 'Traceback (most recent call last):\n  File "/app/train.py", line 44, in <module>\n    df = next(chunks)\n  File "pandas/_libs/parsers.pyx", line 2061, in pandas._libs.parsers.raise_parser_error\npandas.errors.ParserError: Error tokenizing data. C error: Expected 12 fields in line 48211, saw 13', "DataInvalid", "saw 13 (train.py, line 44)"),
    ("a killed command of several lines, of bash", 137, '/x.sh: line 8:  8952 Killed                  python -u -c "\nimport os\ntime.sleep(90)"', "WorkerProcessKilled", "line 8: 8952 Killed python -u …"),
    ("a task of Ray", 1, "Traceback (most recent call last):\nray.exceptions.RayTaskError(ArrowInvalid): ray::ReadParquet() (pid=8)\n    for b in apply():\npyarrow.lib.ArrowInvalid: Parquet magic bytes not found in footer\n\nThe above exception was the direct cause of the following exception:\n\nTraceback (most recent call last):\n  File \"/w/prep.py\", line 14, in <module>\n    ds.materialize()\nray.data.exceptions.SystemException", "DataInvalid", "magic bytes not found"),
    ("aborted, with c10's stack", 134, "terminate called after throwing an instance of 'c10::Error'\n  what():  shard 7 is empty\nException raised from read at /build/io.cpp:9 (most recent call first):\nframe #0: c10::Error::Error(std::string) + 0x57 (0x7f01 in /lib/libc10.so)\nframe #1: <unknown function> + 0x2 (0x7f02 in /lib/libc.so.6)", "SIGABRT", "what(): shard 7 is empty"),
    ("a crash, with Open MPI's stack", 139, "cannot decode shard 7\n[node:41] *** Process received signal ***\n[node:41] [ 0] /lib/libc.so.6(error+0x3c)[0x7f]\n[node:41] *** End of error message ***", "SIGSEGV", "cannot decode shard 7"),
    ("aborted, with a line before", 134, "OMP: Error #13: Assertion failure at kmp_runtime.cpp(81).\nAborted (core dumped)", "SIGABRT", "OMP: Error #13"),
    # what was partly right once
    ("a full disk, of torch.save", 1, trace("RuntimeError: basic_ios::clear: iostream error") + DURING + trace("RuntimeError: [enforce fail at inline_container.cc:672] . unexpected pos 640 vs 534"), "DiskFull", "unexpected pos 640"),
    ("a full disk, of a writer of torch", 1, trace("RuntimeError: [enforce fail at inline_container.cc:862] . PytorchStreamWriter failed writing file data/3: file write failed"), "DiskFull", "failed writing file data/3"),
    ("a full disk, of numpy", 1, trace("OSError: 400000 requested and 18432 written"), "DiskFull", "18432 written"),
    ("a full disk, of safetensors", 1, trace('safetensors_rust.SafetensorError: Error while serializing: I/O error: No space left on device (os error 28)'), "DiskFull", "os error 28"),
    ("a program for another machine", 255, "exec /app/train: exec format error", "WrongArchitecture", "exec format error"),
    ("a program for another machine, of a shell", 126, "bash: line 1: ./train: cannot execute binary file: Exec format error", "WrongArchitecture", "./train"),
    ("too long a word", 126, "bash: line 1: /usr/bin/python: Argument list too long", "LimitReached", "Argument list"),
    ("Windows line endings, of the first line", 128, "exec /app/run.sh: no such file or directory (its first line: '#!/bin/bash\\r\\n')", "ShellError", "CRLF"),
    ("spawn without the guard", 1, trace("RuntimeError: \n        An attempt has been made to start a new process before the\n        current process has finished its bootstrapping phase.\n\n        This probably means that you are not using fork to start your\n        child processes and you have forgotten to use the proper idiom\n        in the main module:\n\n            if __name__ == '__main__':\n                freeze_support()\n                ..."), "PythonException", 'without if __name__ == "__main__"'),
    ("spawn of a lambda", 1, trace("AttributeError: Can't pickle local object 'main.<locals>.<lambda>'") + "\n" + trace("EOFError: Ran out of input", '  File "<string>", line 1, in <module>', '  File "/usr/lib/python3.11/multiprocessing/spawn.py", line 132, in _main', "    self = reduction.pickle.load(from_parent)"), "PythonException", "Can't pickle local object"),
    ("a launcher whose process was killed", 1, "[2026-11-26 10:00:00,123] [ERROR] [launch.py:325:sigkill_handler] ['/usr/bin/python', '-u', 'train.py', '--local_rank=1'] exits with return code = -9", "WorkerProcessKilled", "return code = -9"),
    ("loky, a killed worker", 1, trace("joblib.externals.loky.process_executor.TerminatedWorkerError: A worker process managed by the executor was unexpectedly terminated."), "WorkerProcessKilled", "unexpectedly terminated"),
    ("pip without a network, of a package", 1, "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError('<HTTPSConnection>: Failed to establish a new connection: [Errno -3] Temporary failure in name resolution')': /simple/einops/\nERROR: Could not find a version that satisfies the requirement einops (from versions: none)\nERROR: No matching distribution found for einops", "HostUnreachable", "No matching distribution found for einops, after: 'NewConnectionError"),
    ("pip, a build", 1, "  error: subprocess-exited-with-error\n  │ exit code: 1\n  ╰─> [2 lines of output]\n      running dist_info\n      error: invalid command 'bdist_wheel'\n      [end of output]\nerror: metadata-generation-failed\n× Encountered error while generating package metadata.\n╰─> See above for output.", "ProgramFailed", "failed with exit code 1: error: invalid command 'bdist_wheel'"),
    ("cmake", 1, 'CMake Error at CMakeLists.txt:6 (find_package):\n  By not providing "FindTorch.cmake" this project has asked CMake to find a\n  package configuration file provided by "Torch", but CMake did not find one.\n\n  Could not find it under these names:\n\n-- Configuring incomplete, errors occurred!', "LibraryNotFound", 'find a package configuration file provided by "Torch", but'),
    ("cmake, an error of a project", 1, "CMake Error at CMakeLists.txt:6 (message):\n  set CUDA_ARCHS\nCall Stack (most recent call first):\n  cmake/Error.cmake:9 (check)\n\n-- Configuring incomplete, errors occurred!", "ProgramFailed", "(message): set CUDA_ARCHS"),
    ("pip, no such version", 1, "ERROR: Could not find a version that satisfies the requirement einops==99 (from versions: 0.1, 0.8)\nERROR: No matching distribution found for einops==99", "VersionsConflict", "einops==99"),
    ("apt without a network", 100, "Err:1 http://deb.debian.org/debian bookworm InRelease\n  Temporary failure resolving 'deb.debian.org'\nE: Unable to locate package libgl1", "HostUnreachable", "deb.debian.org"),
    ("wget without a network", 4, "wget: unable to resolve host address ‘data.example.com’", "HostUnreachable", "data.example.com"),
    ("more CPU time than allowed", 152, "", "SIGXCPU", "CPU time limit"),
    ("a file larger than allowed", 1, trace("OSError: [Errno 27] File too large: '/ckpt/1.pt'"), "LimitReached", "File too large"),
    ("a locale without UTF-8", 1, trace("UnicodeEncodeError: 'ascii' codec can't encode character '\\xe9' in position 1: ordinal not in range(128)"), "EnvironmentMissing", "'ascii' codec"),
    ("a variable, in words", 1, trace("AssertionError: DATA_ROOT must be set"), "EnvironmentMissing", "DATA_ROOT must be set"),
    ("a misspelt name of a module", 1, trace("AttributeError: module 'json' has no attribute 'loadz'. Did you mean: 'load'?"), "PythonException", "loadz"),
    ("modules that import each other", 1, trace("ImportError: cannot import name 'A' from partially initialized module 'b' (most likely due to a circular import)"), "PythonException", "circular import"),
    ("an exception that was printed", 2, 'ValueError("no shard")', "PythonException", "no shard"),
    ("an exception that was logged, without its traceback", 1, "2026-11-26 10:00:00 ERROR training failed: RuntimeError: no index", "PythonException", "no index"),
    ("wget, no such file", 8, "2026-11-26 10:00:00 ERROR 404: Not Found.", "FileNotFound", "404"),
    ("curl, no right", 22, "curl: (22) The requested URL returned error: 403", "AccessDenied", "403"),
    ("a dollar too many", 2, "sh: 1: kill: Illegal number: $", "ShellError", "Illegal number"),
    ("torchrun's summary alone", 1, "E1126 12:03:35.000 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 1 (pid: 9620) of binary: python\n" + trace("torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ", '  File "/x/torch/distributed/launcher/api.py", line 301, in launch_agent', "    raise ChildFailedError(") + "\n============================================================\ntr.py FAILED\n------------------------------------------------------------\nFailures:\n  <NO_OTHER_FAILURES>\n------------------------------------------------------------\nRoot Cause (first observed failure):\n[0]:\n  time      : 2026-11-26_12:03:35\n  host      : h\n  rank      : 1 (local_rank: 1)\n  exitcode  : 1 (pid: 9620)\n  error_file: <N/A>\n  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html", "ProgramFailed", "rank 1 failed first, with exit code 1"),
    ("a rank that does not come", 1, trace("torch.distributed.DistStoreError: wait timeout after 12000ms, keys: /default_pg/0//cpu//0/1"), "PeersUnreachable", "no process joined as rank 1 within 12000 ms"),
    ("a command of bash, in sh", 127, "sh: 1: source: not found", "ShellError", "source"),
    ("an option of bash, in sh", 2, "sh: 1: set: Illegal option -o pipefail", "ShellError", "pipefail"),
    ("an array of bash, in sh", 2, 'sh: 1: Syntax error: "(" unexpected', "ShellError", "unexpected"),
    ("conda without its shell", 1, "CondaError: Run 'conda init' before 'conda activate'", "ShellError", "conda init"),
    ("another Python's home", 1, "Fatal Python error: init_fs_encoding: failed to get the Python codec of the filesystem encoding\nModuleNotFoundError: No module named 'encodings'", "EnvironmentMissing", "encodings"),
    ("a user without a name", 1, trace("KeyError: 'getpwuid(): uid not found: 1000'"), "EnvironmentMissing", "uid not found: 1000"),
    ("R, a package", 1, "Error in library(lightgbm) : there is no package called ‘lightgbm’", "ModuleNotFound", "lightgbm"),
    ("node, a module", 1, "Error: Cannot find module 'express'", "ModuleNotFound", "express"),
    ("apt without its lists", 100, "E: Unable to locate package libgl1", "FileNotFound", "libgl1"),
    ("a locked file", 1, trace("BlockingIOError: [Errno 11] Unable to synchronously open file (unable to lock file, errno = 11, error message = 'Resource temporarily unavailable')"), "StorageFailed", "unable to lock file"),
    ("git, another owner", 128, "fatal: detected dubious ownership in repository at '/workspace'", "PermissionDenied", "dubious ownership"),
    ("a broker", 1, trace("kafka.errors.NoBrokersAvailable: NoBrokersAvailable"), "HostUnreachable", "NoBrokersAvailable"),
    ("a proxy", 1, trace("OSError: Tunnel connection failed: 407 Proxy Authentication Required"), "HostUnreachable", "407"),
    ("a variable that a shell demands", 2, "sh: 1: DATA_DIR: must be set", "EnvironmentMissing", "DATA_DIR: must be set"),
    ("a command in capitals", 127, "sh: 1: TRAIN: not found", "CommandNotFound", "TRAIN"),
    ("torch, no compiler", 1, trace("RuntimeError: Failed to find C compiler. Please specify via CC environment variable."), "CommandNotFound", "C compiler"),
    ("numpy, another file", 1, trace("ValueError: This file contains pickled (object) data. If you trust the file you can load it"), "DataInvalid", "pickled"),
    ("sqlite, no file", 1, trace("sqlite3.OperationalError: unable to open database file"), "FileNotFound", "database file"),
    ("more than weights, in colours", 1, trace("_pickle.UnpicklingError: Weights only load failed. To do so you have two options, \x1b[1mdo those steps\x1b[0m."), "CheckpointMismatch", "options, do those steps"),
    ("a crash below dash", 1, "Segmentation fault\ntrainer exited", "WorkerProcessKilled", "Segmentation fault"),
    # texts of other tools and frameworks
    ("a linker's error", 1, "/usr/bin/ld: b.o: in function `f':\nb.c:(.text+0x0): multiple definition of `f'; a.c:(.text+0x0): first defined here\ncollect2: error: ld returned 1 exit status", "ProgramFailed", "exit code 1: b.c:(.text+0x0): multiple definition of `f'"),
    ("an extension that is not built", 1, trace("RuntimeError: Error building extension 'x': [1/2] c++ -MMD " + 20 * "-I/opt/include " + "\nFAILED: main.o\nmain.cpp:2:16: error: 'q' was not declared in this scope"), "PythonException", "main.cpp:2:16: error: 'q' was not declared"),
    ("a page in place of a checkpoint", 1, trace("_pickle.UnpicklingError: Weights only load failed. In PyTorch 2.6, we changed the default value.\nPlease file an issue with the following: WeightsUnpickler error: \n\nUnsupported operand 60\n\nCheck the documentation"), "DataInvalid", "Weights only load failed: WeightsUnpickler error: Unsupported operand 60"),
    ("ray train, a long message of its own", 1, "2026-11-26 12:43:17,905 ERROR tune_controller.py:1331 -- Trial task failed for trial T_1\n" + trace("OSError: [Errno 28] No space left on device: '/mnt/tok.json'") + BY + trace("ray.train.base_trainer.TrainingFailedError: The Ray Train run failed. Please inspect the previous error messages for a cause. " + 30 * "You can restart the run. "), "DiskFull", "after OSError: [Errno 28] No space left on device: '/mnt/tok.json' (train.py"),
    ("the end of a box, and another", 1, f"We apologize for the problem.\n{74 * '-'}\n+ sleep 5\nssh: Could not resolve hostname w-0.w: Name or service not known\n" + boxed("ORTE was unable to reliably start one or more daemons."), "PeersUnreachable", "exit code 1: ssh: Could not resolve hostname w-0.w"),
    ("a traceback of rich", 1, RICH, "EnvironmentMissing", "KeyError: 'DATABASE_URL' (train.py, line 4)"),
    ("the end of a traceback of rich", 1, RICH[RICH.index("│ /app") :], "EnvironmentMissing", "KeyError: 'DATABASE_URL' (train.py, line 4)"),
    ("loguru, a record of JSON", 1, '{"text": "start\\n", "record": {"level": {"name": "INFO"}, "message": "start"}}\n' + LOGURU, "PythonException", "exit code 1: ValueError: bad shard (train.py"),
    ("structlog, exceptions as a list", 1, STRUCTLOG + '\n{"event": "shutdown", "level": "info"}', "FileNotFound", "RuntimeError: no model, after FileNotFoundError: [Errno 2] No such file or directory: '/m.json'"),
    ("an exception without its traceback, by its class", 1, "[rank1]: PermissionError: [Errno 13] Permission denied: '/.cache'", "PermissionDenied", "'/.cache'"),
    ("two lists of keys", 1, trace("RuntimeError: Error(s) in loading state_dict for Net:\n\tMissing key(s) in state_dict: " + ", ".join(f'\"layers.{n}.weight\"' for n in range(90)) + '.\n\tUnexpected key(s) in state_dict: "encoder.layers.0.weight". '), "CheckpointMismatch", 'Unexpected key(s) in state_dict: "encoder.layers.0.weight"'),
    ("a heading printed before", 1, "ResolvePackageNotFound: \n  - cudatoolkit=11.8\n" + trace("ModuleNotFoundError: No module named 'torch'"), "ModuleNotFound", "printed before: ResolvePackageNotFound: - cudatoolkit=11.8"),
    ("glog's banner of a crash", 134, "terminate called after throwing an instance of 'std::runtime_error'\n  what():  bad shape\n*** Aborted at 1592991226 (unix time) try \"date -d @1592991226\" if you are using GNU date ***", "SIGABRT", "exit code 134): what(): bad shape"),
    ("mpirun, a line in pieces", 1, tagged(1, trace("IndexError: index 7 is out of bounds").replace("Error: ", "Error[1,1]<stderr>:: [1,1]<stderr>:")) + "\n" + MPI_FAILED, "PythonException", "IndexError: index 7 is out of bounds (train.py"),
    ("mpirun, two ranks in one line", 7, "[1,1]<stdout>:checksum of shard 17 does not match, aborting[1,0]<stdout>:step 0 loss 7.1\n[1,0]<stderr>:bye", "ProgramFailed", "checksum of shard 17 does not match, aborting"),
    ("srun, with labels", 1, "\n".join(f"{rank}: {line}" for rank, text in ((3, trace("FileNotFoundError: [Errno 2] No such file or directory: '/data/3.bin'")), (0, trace(LOST_PEER))) for line in text.splitlines()) + "\nsrun: error: n2: task 3: Exited with exit code 1", "FileNotFound", "'/data/3.bin' (train.py"),
    ("rust, a thread and its join", 101, "thread 'decoder' (7) panicked at r.rs:5:60:\ncannot read merges: Os { code: 2, kind: NotFound }\nnote: run with `RUST_BACKTRACE=1`\n\nthread 'main' (1) panicked at r.rs:8:17:\ndecoder panicked: Any { .. }\nnote: run with `RUST_BACKTRACE=1`", "ProgramFailed", "panicked at r.rs:5:60: cannot read merges"),
    ("a fatal line of glog", 134, "E1126 17:53:56.8 14 t.py:5] no shared file system\nF1126 17:53:56.9 14 t.py:7] Number of shards (7) must be divisible by 8\n*** Check failure stack trace: ***", "SIGABRT", "exit code 134): F1126 17:53:56.9 14 t.py:7] Number of shards (7)"),
    ("a compiler's first error", 1, "ops/ragged.cc:47:31: error: 'Span' has no member named 'Size'\nops/ragged.cc:49:3: error: 'n' was not declared\nERROR: Build did NOT complete successfully\nERROR: Build failed. Not running target", "ProgramFailed", "exit code 1: ops/ragged.cc:47:31: error: 'Span'"),
    ("tensorflow, several root errors", 1, trace(TF_FAILED.replace("ResourceExhausted", "InvalidArgument").format("2 root error(s) found.\n  (0) INVALID_ARGUMENT:  Input is empty.\n\t [[{{function_node __inference_parse_fn_88}}{{node DecodeJpeg}}]]\n  (1) CANCELLED:  GetNextFromShard was cancelled")), "PythonException", "Graph execution error: (0) INVALID_ARGUMENT: Input is empty. [[{{function_node __inference_parse_fn_88}}{{node DecodeJpeg}}]] (train.py"),
    ("tensorflow, an exception of the data's generator", 1, trace("tensorflow.python.framework.errors_impl.InvalidArgumentError: Graph execution error:\n\nDetected at node PyFunc defined at (most recent call last):\nTypeError: `generator` yielded a list\n" + trace("TypeError: `generator` yielded a list") + "\n\n\t [[{{node PyFunc}}]]\n2026-11-26 09:38:00.481219: W data_op.cc:108] FAILED_PRECONDITION: Python interpreter state is not initialized\n\t [[{{node PyFunc}}]]"), "PythonException", "Graph execution error: TypeError: `generator` yielded a list (train.py"),
    ("paddle, the signal of its launcher", 1, trace("ValueError: label is 1003") + "\n\n----------------------\nError Message Summary:\n----------------------\nFatalError: `Termination signal` is detected by the operating system.\n  [SignalInfo: *** SIGTERM (@0xedf) received by PID 3823 ***]", "PythonException", "exit code 1: ValueError: label is 1003"),
    ("a crash below bash", 139, "epoch 1 loss 0.41\nrun.sh: line 4: 23249 Segmentation fault      ./t --data /data", "SIGSEGV", "crashed with a segmentation fault (SIGSEGV, exit code 139): run.sh: line 4: 23249 Segmentation fault ./t"),
    ("a server that is awaited", 124, "wait-for-it.sh: waiting 3 seconds for db:5432\nwait-for-it.sh: timeout occurred after waiting 3 seconds for db:5432\nwait-for-it.sh: strict mode, refusing to execute subprocess", "HostUnreachable", "3 seconds for db:5432"),
    ("xgboost, a chain of errors", 1, trace("xgboost.core.XGBoostError: [17:31:37] /x/result.cc:83: [comm.cc:220|17:31:37]: \n\n- [comm.cc:220|17:31:37]: Bootstrap failed.\n- [comm.cc:41|17:31:37]: Failed to connect to the tracker.\n- [socket.cc:189|17:31:37]: Failed to connect to 10.0.0.4:9199\nStack trace:"), "PeersUnreachable", "XGBoostError: Bootstrap failed: Failed to connect to the tracker: Failed to connect to 10.0.0.4:9199 (train.py"),
    ("tensorflow, a task that died", 1, trace(TF_FAILED.replace("ResourceExhaustedError", "UnavailableError").format("Collective ops is aborted by: The following tasks are unhealthy (stopped sending heartbeats):\n/job:worker/replica:0/task:1\nThe tasks have crashed. Check the task logs.\nThe error could be from a previous operation.")), "PeersUnreachable", "heartbeats): /job:worker/replica:0/task:1"),
    ("files that a directory lacks", 1, "checkpoint_dir '/a' is missing the files: ['lit_model.pth'].\nSee all download options by running:\n litgpt download", "ProgramFailed", "exit code 1: checkpoint_dir '/a' is missing the files: ['lit_model.pth']"),
    ("a checkpoint, with the exceptions of all ranks", 1, trace("torch.distributed.checkpoint.api.CheckpointException: CheckpointException ranks:dict_keys([0])") + "\n" + trace("ValueError: Size mismatch between saved 3 and current 4").replace("last)", "last): (RANK 0)", 1), "PythonException", "exit code 1: ValueError: Size mismatch between saved 3 and current 4 (train.py, line 12), on rank 0"),
    ("a message before the next step of a script", 1, trace("ValueError: pre-tokenizer was not recognized") + "\n==> uploading\nupload failed: [Errno 2] No such file or directory: '/out/m'", "PythonException", "pre-tokenizer was not recognized (train.py"),
    ("the model that a server does not load", 1, "load: error loading model: unknown architecture: 'gemma4'\nfrom_file: failed to load model\nsrv: failed to load model, '/m.gguf'\nsrv: cleaning up before exit\nmain: exiting due to model loading error", "ProgramFailed", "exit code 1: load: error loading model: unknown architecture: 'gemma4'"),
    ("an engine of another version", 1, "[TensorRT-LLM][ERROR] IRuntime::deserializeCudaEngine: Error Code 1: Serialization (Serialization assertion stdVersionRead failed. Note: Current Version: 240, Serialized Engine Version: 239)\n" + trace("RuntimeError: Assertion failed: Failed to deserialize cuda engine"), "VersionsConflict", "Failed to deserialize cuda engine (train.py, line 12), after: [TensorRT-LLM][ERROR] IRuntime"),
    ("a script, after cd", 2, "run.sh: line 4: cd: /w/project: No such file or directory\npython: can't open file '/home/u/train.py': [Errno 2] No such file or directory", "FileNotFound", "the script /home/u/train.py does not exist; printed before: run.sh: line 4: cd: /w/project"),
    ("a script, after git", 2, "fatal: could not read Username for 'https://github.com': No such device or address\nrun.sh: line 4: cd: project: No such file or directory\npython: can't open file '/home/u/train.py': [Errno 2] No such file or directory", "AccessDenied", "does not exist, after: fatal: could not read Username"),
    ("no data, after its download", 1, "AccessDeniedException: 403 t@ml.iam does not have storage.objects.list access to the bucket\nUnpacking\n" + trace("ValueError: no shards for 8 ranks"), "AccessDenied", "no shards for 8 ranks (train.py, line 12), after: AccessDeniedException: 403"),
    ("workers that died, and their scheduler's log", 1, "2026-11-26 17:32 - distributed.scheduler - ERROR - Task f marked as failed because 4 workers died while trying to run it\n" + trace("distributed.scheduler.KilledWorker: Attempted to run task 'f' on 4 different workers"), "WorkerProcessKilled", "4 different workers (train.py, line 12)"),
    ("a traceback in a field of JSON", 1, json.dumps({"level": "ERROR", "fields": {"message": "Cannot start\n" + trace("RuntimeError: weight model.h.0.qweight does not exist")}, "target": "t"}) + '\n{"level": "ERROR", "fields": {"message": "Shard 0 failed"}}\nError: ShardCannotStart', "PythonException", "qweight does not exist (train.py"),
    ("a key that is not of the environment", 1, trace("KeyError: 'acc'", '  File "/app/train.py", line 12, in main', '    best = scores[os.environ.get("METRIC", "acc")]'), "PythonException", "KeyError: 'acc' (train.py, line 12)"),
    ("a line of glog that ends the program", 134, "E1126 17:53:56.8 14 t.py:5] disk is slow\nF1126 17:53:56.8 14 t.py:7] 7 shards for 8 hosts\n" + FAULT.replace("Segmentation fault", "Aborted"), "SIGABRT", "aborted (SIGABRT, exit code 134): F1126 17:53:56.8 14 t.py:7] 7 shards for 8 hosts"),
    ("a missing file, in German", 1, "cp: der Aufruf von stat für '/mnt/a.tar' ist nicht möglich: Datei oder Verzeichnis nicht gefunden", "FileNotFound", "cp: der Aufruf"),
    ("a missing command, in French", 127, "Début\nrun.sh: ligne 3: trainer : commande introuvable\nfin", "CommandNotFound", "(exit code 127): run.sh: ligne 3: trainer : commande introuvable"),
    ("a missing command, in another language", 127, "start\nrun.sh: rivi 3: trainer: komentoa ei löydy", "CommandNotFound", "(exit code 127): run.sh: rivi 3"),
    ("an exception in a test of pytest", 1, "E   pyarrow.lib.ArrowInvalid: JSON parse error: Invalid value. in row 0\n\npyarrow/error.pxi:100: ArrowInvalid", "ProgramFailed", "1: E pyarrow.lib.ArrowInvalid: JSON parse error"),
    ("an exception in JSON, in a part of it", 1, json.dumps({"log": {"level": "error"}, "message": "run failed", "error": {"type": "ValueError", "message": "7", "stack_trace": trace("ValueError: shard 7").splitlines()}}), "PythonException", "1: ValueError: shard 7 (train.py, line 12)"),
    ("an exception in JSON, without a stack", 1, json.dumps({"@l": "Fatal", "@m": "run failed", "error": {"message": "shard 7", "type": "ValueError"}}), "PythonException", "1: run failed: ValueError: shard 7"),
    ("an object of JSON that is too deep", 1, "shard 7 is invalid\n" + '{"a":' + 2000 * "[", "ProgramFailed", "failed with exit code 1: shard 7 is invalid"),
    ("credentials, by the class of the exception", 1, trace("redis.exceptions.AuthenticationError: HELLO must be called with the client already authenticated"), "AccessDenied", "HELLO must be called"),
    ("an error in JSON, by its level alone", 1, '{"level":"ERROR","fields":{"message":"quota used up"}}\n{"level":"INFO","fields":{"message":"Shutting down"}}', "ProgramFailed", "failed with exit code 1: ERROR: quota used up"),
    ("no error in JSON", 1, '{"level": "info", "msg": "upload failed, the next attempt follows", "error": null}', "ProgramFailed", "failed with exit code 1; its last line: INFO: upload failed"),
    ("more than weights, with the class", 1, trace(WEIGHTS), "CheckpointMismatch", "Weights only load failed: WeightsUnpickler error: Unsupported global: GLOBAL numpy.dtype was"),
    ("a cell of a notebook", 1, NOTEBOOK, "PythonException", "exit code 1: ValueError: bad n"),
    ("a message before make's", 2, trace("FileNotFoundError: [Errno 2] No such file or directory: 'a.json'") + "\nmake: *** [Makefile:7: train] Error 1", "FileNotFound", "'a.json' (train.py"),
    ("a message before a progress bar", 1, trace("ValueError: bad shard") + "\nSteps:  25%|██▌       | 500/2000 [25:22<1:16:06,  3.04s/it, loss=0.42]", "PythonException", "bad shard (train.py"),
    ("an option, in a frame", 2, "Try 'ty.py --help' for help.\n╭─ Error ─────────────────╮\n│ Missing option          │\n│ '--config'.             │\n╰─────────────────────────╯", "WrongArguments", "Error: Missing option '--config'"),
    ("an option, in a frame of ASCII", 2, "+- Error -----------------+\n| No such option: --confg |\n+-------------------------+", "WrongArguments", "exit code 2: Error: No such option: --confg"),
    ("Windows line endings, of an option", 2, "/w/run.sh: line 1: set: pipefail\r: invalid option name", "ShellError", "CRLF"),
    ("Windows line endings, of an option, in dash", 2, "/w/run.sh: 1: set: Illegal option -", "ShellError", "CRLF"),
    ("a child without the guard, and its parent", 1, SPAWNED_TWICE, "PythonException", "context has already been set"),
    ("a child that gives no answer", 1, trace("multiprocessing.context.TimeoutError"), "PythonException", "TimeoutError"),
    ("the first command of a pipeline", 2, f"curl: (7) Failed to connect to 127.0.0.1 port 9 after 74 ms: Couldn't connect to server\n{NO_ARCHIVE}", "HostUnreachable", "curl: (7) Failed to connect to 127.0.0.1"),
    ("the first command of a pipeline, of no known cause", 2, f"fetch: error 17 of shard 3\n{NO_ARCHIVE}", "ProgramFailed", "fetch: error 17 of shard 3"),
    ("a pipeline's last command alone", 2, NO_ARCHIVE, "ProgramFailed", "gzip: stdin: unexpected end of file"),
    ("nccl, the wrong interface", 1, "w-1:71:71 [0] NCCL INFO Bootstrap : Using docker0:172.17.0.1<0>\n" + trace(NCCL.format("unhandled system error", "ncclSystemError: System call failed.", "socketStartConnect: Connect to 172.17.0.1<45123> failed : No route to host")), "PeersUnreachable", "No route to host (train.py, line 12); NCCL uses the interface docker0"),
    ("a GPU that the driver reports", 1, "NVRM: Xid (PCI:0000:3b:00): 79, pid=7, GPU has fallen off the bus.", "GpuError", "fallen off the bus"),
    ("mxnet, memory", 1, trace('mxnet.base.MXNetError: Traceback (most recent call last):\n  [bt] (4) /x/mxnet/libmxnet.so(+0x22c1f5b) [0x7f1cd22c1f5b]\n  File "../src/storage/./pooled_storage_manager.h", line 192\nMXNetError: Memory allocation failed out of memory'), "GpuOutOfMemory", "MXNetError: Memory allocation failed out of memory"),
    ("tensorflow, memory, and the program's lines", 1, trace(TF_FAILED.replace("<stack traces unavailable>", '    File "/workspace/train.py", line 70, in <module>\n      model.fit(ds, epochs=10)').format("OOM when allocating tensor with shape[16384,100352] and type float")), "GpuOutOfMemory", "OOM when allocating tensor with shape[16384,100352]"),
    ("paddle, memory", 1, PADDLE_OOM, "GpuOutOfMemory", "ResourceExhaustedError: Out of memory error on GPU 0. Cannot allocate"),
    ("no archive", 1, trace("zipfile.BadZipFile: File is not a zip file"), "DataInvalid", "not a zip file"),
    ("no right to list pods", 1, f"Error from server (Forbidden): pods is forbidden: {NO_ROLE}", "AccessDenied", "cannot list resource"),
    ("no right to list pods, of a client", 1, trace("kubernetes.client.exceptions.ApiException: (403)\nReason: Forbidden\nHTTP response body: " + '{"message":"pods is forbidden: ' + NO_ROLE.replace('"', '\\"') + '"}'), "AccessDenied", "system:serviceaccount"),
    ("the rank that ended MPI", 1, trace("ValueError: bad shard") + "\n" + MPI_ABORT, "PythonException", "bad shard (train.py, line 12); rank 1 called MPI_Abort"),
    ("a program's own message", 1, "checking config\nerror: global batch size 100 is not divisible by world size 8", "ProgramFailed", "failed with exit code 1: error: global batch size 100"),
    ("a command, and what is printed around it", 127, "preparing\npyenv: python3.9: command not found\n\nThe `python3.9' command exists in these Python versions:\n  3.9.18\ntraining ended with 127", "CommandNotFound", "the command was not found (exit code 127): pyenv: python3.9: command not found"),
    # words that other causes have, too
    ("an argument of a layer", 1, trace("ValueError: Argument `beta_2` must be >= 0 and < 1. Received: 2."), "PythonException", "beta_2"),
    ("shapes of arrays", 1, trace("ValueError: Shapes (32, 8) and (32, 7) are incompatible"), "PythonException", "incompatible"),
    ("gradient checkpointing", 1, trace("ValueError: Foo is not compatible with gradient checkpointing."), "PythonException", "gradient checkpointing"),
    ("a backend of another kind", 1, trace("ValueError: Invalid backend: polars. Must be one of: pandas, pyarrow"), "PythonException", "polars"),
    ("a tensor that is not on a GPU", 1, trace("ValueError: Lanczos preprocessing requires a CUDA tensor"), "PythonException", "CUDA tensor"),
    ("a setup that is not available", 1, trace("SetupUnavailable: No trusted /bin/sh was found"), "PythonException", "No trusted"),
    ("a hint about NaN", 1, trace("RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)") + "\n" + trace("RuntimeError: No best trial found for the given metric: loss. All values are NaN. To not ignore NaN values, set `filter_nan_and_inf`"), "PythonException", "mat1 and mat2"),
    ("an object store that refuses", 1, trace("PermissionError: Forbidden"), "AccessDenied", "Forbidden"),
    ("a database that does not listen", 1, trace('psycopg2.OperationalError: connection to server at "db" (10.0.0.7), port 5432 failed: Connection refused'), "HostUnreachable", "5432"),
    ("a server in the pod itself that is none", 1, trace("mlflow.exceptions.MlflowException: API request to http://127.0.0.1:5000/api failed with exception HTTPConnectionPool(host='127.0.0.1', port=5000): Max retries exceeded with url: /api (Caused by NewConnectionError('[Errno 111] Connection refused'))"), "HostUnreachable", "Connection refused"),
    ("a name that does not resolve, before a time-out", 1, "[W1 socket.cpp:764] [c10d] The IPv6 network addresses of (job-master-0, 23456) cannot be retrieved (gai error: -2 - Name or service not known).\n" + trace("torch.distributed.DistNetworkError: The client socket has timed out after 12000ms while trying to connect to (job-master-0, 23456)."), "PeersUnreachable", "gai error: -2 - Name or service not known"),
    ("a first line that says nothing", 1, trace("datasets.table.CastError: Couldn't cast\ntext: string\nlabel: int64\nto\n{'text': Value('string')}\nbecause column names don't match"), "DataInvalid", "because column names don't match"),
    ("the body of an answer", 1, trace('kubernetes.client.exceptions.ApiException: (404)\nReason: Not Found\nHTTP response headers: HTTPHeaderDict({})\nHTTP response body: {"message":"pods \\"w-0\\" not found"}'), "PythonException", 'Not Found HTTP response body: {"message":"pods'),
    ("a gated model, below a blank line", 1, trace("huggingface_hub.errors.GatedRepoError: 401 Client Error. (Request ID: Root=1-6)\n\nCannot access gated repo for url https://hub/org/model/config.json."), "AccessDenied", "org/model"),
    ("tensorflow, an exception in a graph", 1, trace("tensorflow.python.framework.errors_impl.InvalidArgumentError: Graph execution error:\n\nDetected at node PyFunc defined at (most recent call last):\n<stack traces unavailable>\nTypeError: `generator` yielded another shape\nTraceback (most recent call last):\n\n  File \"/x/tensorflow/f.py\", line 269, in __call__\n    ret = func(*args)\n\nTypeError: `generator` yielded another shape\n\n\n\t [[{{node PyFunc}}]]"), "PythonException", "`generator` yielded another shape"),
    ("an error that was logged without its traceback", 1, "[rank1]: PermissionError: [Errno 13] Permission denied: '/.cache'", "PermissionDenied", "/.cache"),
    ("glog's banner below what a program threw", 134, "terminate called after throwing an instance of 'std::runtime_error'\n  what():  bad shape\n*** Aborted at 1592991226 (unix time) try \"date -d @1592991226\" if you are using GNU date ***", "SIGABRT", "what(): bad shape"),
    ("a class that the pickle names", 1, trace("AttributeError: Can't get attribute 'Vocab' on <module '__main__' (built-in)>"), "PythonException", "Vocab"),
    ("a database that does not exist", 1, trace('psycopg2.OperationalError: connection to server at "db" (10.0.0.7), port 5432 failed: FATAL:  database "optuna" does not exist'), "ConfigInvalid", "optuna"),
    ("JSON that JavaScript cannot read", 1, "SyntaxError: Unexpected token < in JSON at position 0\n    at JSON.parse (<anonymous>)", "ConfigInvalid", "Unexpected token"),
    ("keras, a message below a blank line", 1, trace("ValueError: Exception encountered when calling Sequential.call().\n\n\x1b[1mInput 0 of layer is incompatible: expected axis -1 of value 8\x1b[0m\n\nArguments received by Sequential.call():"), "PythonException", "expected axis -1 of value 8"),
    ("a torch without CUDA", 1, trace("AssertionError: Torch not compiled with CUDA enabled"), "GpuUnusable", "not compiled with CUDA"),
    ("a pointer of Git LFS as a checkpoint", 1, trace("_pickle.UnpicklingError: Weights only load failed. To do so you have two options.\n\tWeightsUnpickler error: Unsupported operand 118"), "DataInvalid", "operand 118"),
    ("the linker", 1, "m.c:(.text+0xa): undefined reference to `dgemm_'\ncollect2: error: ld returned 1 exit status", "LibraryNotFound", "dgemm_"),
    ("an explanation that is indented", 1, trace("torch._dynamo.exc.Unsupported: Failed to trace builtin operator\n  Explanation: Dynamo does not know how to trace `print`\n  Hint: Avoid it\n  Hint: Or\n  Hint: Else"), "PythonException", "how to trace `print`"),
    ("an exception without a message, in a library", 1, 'Traceback (most recent call last):\n  File "/w/train.py", line 2, in <module>\n    asyncio.run(main())\n  File "/usr/lib/python3.11/asyncio/runners.py", line 190, in run\n    return runner.run(main)\nTimeoutError', "PythonException", "in: asyncio.run(main()) (train.py, line 2)"),
    ("a traceback in a field of JSON", 1, json.dumps({"level": "ERROR", "msg": "fatal", "exc": trace("FileNotFoundError: [Errno 2] No such file or directory: '/t'")}), "FileNotFound", "'/t'"),
    ("another module built for NumPy 1", 1, trace("ImportError: numpy.core.multiarray failed to import"), "VersionsConflict", "multiarray"),
    ("a module built for another torch", 1, trace("ImportError: /x/flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so: undefined symbol: _ZN3c105ErrorC2E"), "VersionsConflict", "undefined symbol"),
    ("paddle, shared memory", 1, trace("SystemError: (Fatal) DataLoader process (pid 211) exited is killed by signal: Bus error.\n  It may be caused by insufficient shared storage space."), "SharedMemoryFull", "Bus error"),
    ("a script that ran before without its module", 1, trace("ModuleNotFoundError: No module named 'fastavro'") + "\n== training\n" + trace("FileNotFoundError: [Errno 2] No such file or directory: '/out/train.csv'"), "ModuleNotFound", "'/out/train.csv' (train.py, line 12), after: ModuleNotFoundError: No module named 'fastavro'"),
    ("tensorflow, an exception in AutoGraph's code", 1, 'Traceback (most recent call last):\n  File "/w/train.py", line 12, in main\n    model.fit(x)\n  File "/tmp/__autograph_generated_file9.py", line 15, in tf__train\n    retval_ = ag__.converted_call()\nValueError: in user code:\n\n    File "/x/keras/src/losses.py", line 2122, in categorical_crossentropy\n        target.shape.assert_is_compatible_with(output.shape)\n\n    ValueError: Shapes (None, 1) and (None, 10) are incompatible\n', "PythonException", "ValueError: Shapes (None, 1) and (None, 10) are incompatible (train.py, line 12)"),
    ("a checkpoint that ends early", 1, 'Traceback (most recent call last):\n  File "/w/train.py", line 12, in main\n    torch.load(path)\n  File "/x/site-packages/torch/serialization.py", line 1500, in load\n    with _open_zipfile_reader(f) as opened:\nOSError: [Errno 22] Invalid argument', "DataInvalid", "Invalid argument (train.py, line 12)"),
    ("a module built for NumPy 1", 1, trace("RuntimeError: Numpy is not available"), "VersionsConflict", "Numpy is not available"),
    ("a launcher's line below the message", 1, trace("AssertionError: Sum of batch sizes differs") + "\nLAUNCH INFO 2026-11-26 18:40:11,202 Exit code 1", "PythonException", "batch sizes differs (train.py, line 12)"),
    ("a package that crashed", 139, "Fatal Python error: Segmentation fault\n\nCurrent thread 0x7f2b (most recent call first):\n  File \"/opt/lib/python3.10/site-packages/decord/_ffi/function.py\", line 173 in __call__\n  File \"/w/video.py\", line 52 in __getitem__", "SIGSEGV", "__call__ (decord/_ffi/function.py, line 173), called by __getitem__ (video.py, line 52)"),
    ("a server that is slow", 1, trace("requests.exceptions.ReadTimeout: HTTPConnectionPool(host='hub', port=80): Read timed out. (read timeout=2)"), "HostUnreachable", "Read timed out"),
    ("a column that does not exist", 1, trace("pyarrow.lib.ArrowInvalid: No match for FieldRef.Name(item_id) in user_id: int64"), "DataInvalid", "FieldRef"),
    ("mpich, a signal", 9, "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   PID 7 RUNNING AT w-0\n=   EXIT CODE: 9\n=   CLEANING UP REMAINING PROCESSES\nYOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)\nPlease see the FAQ page for debugging suggestions", "WorkerProcessKilled", "Killed (signal 9)"),
    ("xgboost, no tracker", 1, trace("xgboost.core.XGBoostError: [17:31:37] /x/result.cc:83: - [comm.cc:41|17:31:37]: Failed to connect to the tracker."), "PeersUnreachable", "tracker"),
    ("torchrun's long summary after the error", 1, trace("ValueError: num_query_groups (4) must be a multiple of 8") + "\n" + TORCHRUN_OF_8, "PythonException", "num_query_groups"),
    # rendezvous and collectives
    ("torch elastic, too few nodes", 1, trace("torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError"), "PeersUnreachable", "RendezvousTimeoutError"),
    ("a barrier that was not reached", 1, trace("RuntimeError: Timed out waiting 60000ms for the barrier: 1/2 reached"), "PeersUnreachable", "1/2 reached"),
    ("jax, tasks that did not come", 1, trace("jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Id: PjRT_Client_Connect::0. This usually happens because a task triggered the barrier too early or too slowly. # of tasks that reached the barrier: 1/2. The first task at the barrier: /job:jax_worker/replica:0/task:0. Some timed out task names: /job:jax_worker/replica:0/task:1"), "PeersUnreachable", "/job:jax_worker/replica:0/task:1 did not reach the barrier of the coordinator, 1/2 did"),
    ("tensorflow, tasks that do not come", 1, "I0000 coordination_service_agent.cc:1] waiting for tasks: /job:worker/task:1\nE0000 coordination: DEADLINE_EXCEEDED: Barrier timed out", "PeersUnreachable", "DEADLINE_EXCEEDED"),
]  # fmt: skip


def test_texts_and_advice_name_groups_of_their_pattern_alone() -> None:
    for clue in (*LINES, *EXCEPTIONS, *REMAINS, *REPORTS, *COMMANDS, *INTERPRETERS, *LINE_ENDS, *RUNTIME):
        for words in (clue.text, clue.advice, clue.local):
            words.format(*[""] * clue.pattern.groups, pip="", debian="")


@pytest.mark.parametrize(("code", "printed", "advice"), [pytest.param(*row[1:3], row[5], id=row[0]) for row in ADVISED])
def test_the_advice_is_that_for_the_error(code: int, printed: str, advice: str) -> None:
    assert advice in end_of_program(SIGNALS.get(code, "Error"), code, "", shown_lines(printed)).advice


@pytest.mark.parametrize(
    ("code", "printed", "reason", "word"), [pytest.param(*row[1:5], id=row[0]) for row in (*ROWS, *ADVISED)]
)
def test_the_cause_is_that_of_the_last_error(code: int, printed: str, reason: str, word: str) -> None:
    made = end_of_program(SIGNALS.get(code, "Error"), code, "", shown_lines(printed))
    assert (made.reason, word in made.text) == (reason, True), made
    assert made.advice
    # Where pods are processes of this machine there are no images.
    made = end_of_program("Error", code, "", printed.splitlines(), local=True)
    assert not {"image", "nvidia.com/gpu", "NetworkPolicy"} & {word.strip(",.;") for word in made.advice.split()}, made


@pytest.mark.parametrize(
    ("code", "printed", "advice"),
    [
        (127, "sh: 1: mpirun: not found", "apt install openmpi-bin"),
        (1, trace("RuntimeError: CUDA error: uncorrectable ECC error encountered"), "this machine's GPU has failed"),
        (
            1,
            trace("RuntimeError: The NVIDIA driver on your system is too old (found version 11040)."),
            "update this machine's NVIDIA",
        ),
        (1, SPAWNED_TWICE, '__name__ == "__main__"'),
        (1, trace("_pickle.UnpicklingError: Weights only load failed."), "add_safe_globals"),
        (127, "sh: 1: torchrun: not found", "pip install torch"),
        (127, "sh: 1: /app/run.sh: not found", "dos2unix"),
        (1, trace("RuntimeError: context has already been set"), '__name__ == "__main__"'),
        (1, "bash: line 1: orted: command not found", "Debian: openmpi-bin"),
        (1, "error: command 'gcc' failed: No such file or directory", "Debian: build-essential"),
        (1, trace("ModuleNotFoundError: No module named 'cv2'"), "pip install opencv-python-headless"),
        (1, trace("ModuleNotFoundError: No module named 'einops.layers'"), "pip install einops;"),
        (1, trace("ImportError: libGL.so.1: cannot open shared object file: No such file or directory"), "Debian: libgl1"),
        (
            1,
            trace("torch.distributed.DistStoreError: wait timeout after 15000ms, keys: /default_pg/0//cpu//0/0"),
            "the world size",
        ),
        (1, NO_NCCL, "install a torch that has the backend"),
    ],
)
def test_where_pods_are_processes_of_this_machine_the_advice_is_about_it(code: int, printed: str, advice: str) -> None:
    made = end_of_program("Error", code, "", printed.splitlines(), local=True)
    assert advice in made.advice


def test_windows_line_ends_are_found_in_what_the_kubelet_keeps() -> None:
    assert "CRLF" in error_in("Error", 2, "/w/run.sh: line 1: set: pipefail\r: invalid option name")


def test_a_line_of_json_that_the_kubelet_has_cut_has_an_exception() -> None:
    record = json.dumps({"level": "error", "exc_info": trace("KeyError: 'labels'"), "run": "7"})
    assert (
        error_in("Error", 1, ("x" * 2048 + record.partition("Traceback")[2])[-2048:])
        == "KeyError: 'labels' (train.py, line 12)"
    )


def test_of_a_long_error_the_end_is_kept_too() -> None:
    printed = trace(f"RuntimeError: no answer of {'x' * 500}: [Errno 111] Connection refused")
    cause = end_of_program("Error", 1, "", printed.splitlines())
    assert all("no answer" in text and "[Errno 111] Connection" in text for text in (cause.text, error_in("Error", 1, printed)))


def test_java_heap_advice_names_xmx() -> None:
    assert "-Xmx" in end_of_program("Error", 1, "", [JAVA]).advice


def test_faulthandler_is_not_advised_where_it_has_printed() -> None:
    assert "faulthandler" not in end_of_program("SIGSEGV", 139, "", FAULT.splitlines()).advice


def test_a_command_line_in_one_item_is_told_from_a_missing_program() -> None:
    message = 'exec: "python train.py --lr 3e-4": executable file not found in $PATH'
    assert "give each word an item" in end_of_program("StartError", 128, message).advice


def test_last_lines_are_referred_to_where_there_are_some() -> None:
    assert "last lines" in end_of_program("Error", 1, "", ["bye"]).advice
    assert "last lines" not in end_of_program("Error", 1, "", ["", " "]).advice


@pytest.mark.parametrize(
    "message",
    [
        "[Errno 2] No such file or directory: '/nope'",
        'OCI runtime create failed: runc create failed: chdir to cwd ("/nope") set in config.json failed: no such file or directory',
    ],
)
def test_a_missing_working_directory_is_no_missing_command(message: str) -> None:
    made = end_of_program("StartError", 128, message)
    assert made.reason == "WorkingDirectoryNotFound"
    assert "/nope" in made.text
