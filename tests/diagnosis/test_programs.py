"""Clues, each by its own example and near miss; and which of the errors that a program printed is its cause."""

# ruff: noqa: E501  recorded texts, as they come

import json
import time
from collections.abc import Callable

import pytest

from jobcommon.causes import clues
from jobcommon.causes.clues import Table, table
from jobcommon.causes.error_lines import error_in
from jobcommon.causes.programs import end_of_program
from jobcommon.client.lines import shown_lines

TABLES = ("clue", "script", "command", "refused", "unschedulable", "pull", "missing", "mount", "probe")
CLUES = [pytest.param(name, clue, id=f"{name}: {clue.example[:60]}") for name in TABLES for clue in table(name).clues]
WITHOUT_RE2 = {name: Table(table(name).clues, linear=False) for name in TABLES}


@pytest.mark.parametrize(("name", "clue"), CLUES)
def test_a_clue_matches_its_example_and_not_its_near_miss(name: str, clue: clues.Clue) -> None:
    """With RE2 and, where there is no wheel, with re."""
    for engine in (table(name), WITHOUT_RE2[name]):
        assert engine.matching(clue.example)[:1] == [clue]
        assert clue not in engine.matching(clue.miss)
    groups = table(name).place(clue, clue.example)[1]
    assert groups == WITHOUT_RE2[name].place(clue, clue.example)[1]
    for local in (False, True):
        made = clue.cause(clue.example, groups, local=local)
        assert made.text
        assert made.advice


def test_there_are_few_clues() -> None:
    assert len(CLUES) <= 120


def trace(exception: str, *frames: str, before: str = "") -> str:
    """A traceback that ends with `exception`; `frames` are lines of it."""
    inner = "\n".join(frames or ('  File "/app/train.py", line 12, in main', "    run()"))
    return f"{before}Traceback (most recent call last):\n{inner}\n{exception}"


def tagged(rank: int, printed: str, tag: str = "[1,{}]<stderr>:") -> str:
    """What a rank printed, as mpirun passes it on."""
    return "\n".join(tag.format(rank) + line for line in printed.splitlines())


def boxed(message: str) -> str:
    """A message of Open MPI."""
    return f"{74 * '-'}\n{message}\n{74 * '-'}"


DURING = "\n\nDuring handling of the above exception, another exception occurred:\n\n"
BY = "\n\nThe above exception was the direct cause of the following exception:\n\n"
LOST = "RuntimeError: [pair.cc:534] Connection closed by peer [10.0.0.7]:41231"
SUMMARY = (
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\ntrain.py FAILED\nRoot Cause (first observed failure):\n[0]:\n"
    "  time      : 2026-03-11\n  host      : w-0\n  rank      : 1 (local_rank: 1)\n  exitcode  : {} (pid: 7)\n  error_file: <N/A>"
)
MPIRUN = boxed("Primary job  terminated normally, but 1 process returned\na non-zero exit code. Per user-direction, the job has been aborted.") + "\n" + boxed(
    "mpirun detected that one or more processes exited with non-zero status, thus causing\nthe job to be terminated. The first process to do so was:\n\n  Process name: [[23,1],2]\n  Exit code:    1"
)  # fmt: skip
CRASH = (
    'Fatal Python error: Segmentation fault\n\nThread 0x01 (most recent call first):\n  File "/usr/lib/python3.11/threading.py", line 324 in wait\n'
    'Current thread 0x02 (most recent call first):\n  File "/x/site-packages/decord/reader.py", line 175 in get_batch\n  File "/app/data.py", line 12 in load\n'
)
NCCL = "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:77, {}, NCCL version 2.26.2\nncclX: failed.\nLast error:\n{}"
RICH = "╭──── Traceback (most recent call last) ────╮\n│ /app/train.py:4 in main │\n│ ❱ 4 │ run() │\n╰────╯\nKeyError: 'DATABASE_URL'"
HINTS = "\nCUDA kernel errors might be asynchronously reported at some other API call.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\nCompile with `TORCH_USE_CUDA_DSA` to enable assertions."
TF = "tf.errors.InvalidArgumentError: Graph execution error:\n\nDetected at node X defined at (most recent call last):\n<stack traces unavailable>\n{}\n\t [[{{{{node X}}}}]] [Op:__inference_f_1]"
IN_LOG = "\n".join(
    f"2026-11-26 10:11:{at:02},345 [ERROR] train: {line}"
    for at, line in enumerate(trace("ValueError: no samples").splitlines())
)
GONE_ON = "\n".join((trace("ValueError: bad row 7"), *(f"step {n}" for n in range(200)), trace("KeyError: 'label'")))
AT_EXIT = (
    trace("ZeroDivisionError: division by zero")
    + "\nException ignored in: <function f.__del__ at 0x7f>\n"
    + trace("OSError: [Errno 9] Bad file descriptor")
)
IN_WORKER = trace(
    "RuntimeError: Caught ValueError in DataLoader worker process 0.\nOriginal " + trace("ValueError: image 7 is empty")
)

#: by what was printed: the exit code, that, the reason, and a part of the text
ROWS: list[tuple[str, int, str, str, str]] = [
    # which error
    ("an exception", 1, trace("ValueError: no shard"), "PythonException", "exit code 1: ValueError: no shard (train.py, line 12)"),
    ("the line that reads like an error", 3, "start\nfatal: shard 7 has no index\nbye", "ProgramFailed", "fatal: shard 7 has no index"),
    ("nothing", 3, "step 1", "ProgramFailed", "failed with exit code 3; its last line: step 1"),
    ("a warning", 1, "09:00 WARNING train: HF_TOKEN is not set\nDataset has 0 samples", "ProgramFailed", "its last line: Dataset has 0"),
    ("an error that was overcome", 1, GONE_ON, "PythonException", "KeyError: 'label'"),
    ("the exception, not the clean-up after it", 1, AT_EXIT, "PythonException", "ZeroDivisionError"),
    ("the exception of a data loader's worker", 1, IN_WORKER, "PythonException", "ValueError: image 7 is empty"),
    ("a spawned process", 1, "torch.multiprocessing.spawn.ProcessRaisedException: \n\n-- Process 1 terminated with the following error:\n" + trace("IndexError: index 5"), "PythonException", "IndexError: index 5"),
    ("raised from another", 1, trace("ValueError: shard 7") + BY + trace("RuntimeError: could not start"), "PythonException", "could not start (train.py, line 12), after ValueError: shard 7 (train"),
    ("in the handling of another", 1, trace("OSError: [Errno 28] No space left on device") + DURING + trace("RuntimeError: no training"), "DiskFull", "no training (train.py, line 12), after OSError"),
    ("an exception of a group", 1, "  + Exception Group Traceback (most recent call last):\n  | ExceptionGroup: two (1 sub-exception)\n  +-+---- 1 ----\n    | Traceback (most recent call last):\n    |   File \"/app/a.py\", line 3, in f\n    | ValueError: inner", "PythonException", "ValueError: inner"),
    ("a traceback that the kubelet has cut", 1, '  File "/app/train.py", line 44, in <module>\n    df = next(chunks)\nValueError: 13 fields', "PythonException", "13 fields (train.py, line 44)"),
    ("no message", 1, trace("AssertionError", '  File "/app/train.py", line 12, in main', "    assert n < 5", "           ^^^^^"), "PythonException", "AssertionError in: assert n < 5 (train.py, line 12)"),
    ("a message of several lines, and what is printed next", 1, trace("ValueError: shard 7 has no index\nstep 1\nstep 2\nstep 3\nstep 4"), "PythonException", "ValueError: shard 7 has no index (train"),
    ("a message that goes on after a colon", 1, trace("pydantic.ValidationError: 1 validation error for S:\nlr\n  Field required"), "PythonException", "for S: lr Field required"),
    ("a key, and what another rank prints", 1, trace("KeyError: 'valid'\nrank 1: step 3") + "\n" + MPIRUN, "PythonException", "rank 2 failed first: KeyError: 'valid' (train"),
    ("a command that the program runs", 1, "tar: invalid header in shard 17\n" + trace("subprocess.CalledProcessError: Command '['tar']' returned non-zero exit status 2."), "ProgramFailed", "tar: invalid header in shard 17"),
    ("an error of Java, below", 1, 'Exception in thread "main" java.lang.RuntimeException: failed\n\tat com.corp.Train.main(Train.java:12)\nCaused by: java.io.IOException: closed\n\tat a.B.c(B.java:4)', "ProgramFailed", "Caused by: java.io.IOException: closed"),
    ("a panic of Go", 2, "panic: index out of range [5]\n\ngoroutine 1 [running]:\nmain.main()\n" + 20 * "\t/app/main.go:12 +0x1d\n" + "exit status 2", "ProgramFailed", "panic: index out of range [5]"),
    ("a panic of Rust", 101, "thread 'main' panicked at src/main.rs:12:5:\nshard 7 is empty\nnote: run with `RUST_BACKTRACE=1`", "ProgramFailed", "shard 7 is empty"),
    ("what is given up, and why", 1, "ERROR: no quota in project x\nERROR: shutting down", "ProgramFailed", "no quota"),
    ("tensorflow's graph", 1, trace(TF.format("Incompatible shapes: [32,10] vs. [32,5]")), "PythonException", "Incompatible shapes: [32,10] vs. [32,5]"),
    ("hints that torch adds", 1, trace("RuntimeError: CUDA error: an illegal memory access was encountered" + HINTS), "GpuError", "was encountered (train"),
    # around lines
    ("a log", 1, IN_LOG, "PythonException", "ValueError: no samples (train.py, line 12)"),
    ("rich's frame", 1, RICH, "PythonException", "KeyError: 'DATABASE_URL' (train.py, line 4)"),
    ("an error in a frame", 2, "╭─ Error ─────╮\n│ Missing option '--config'. │\n╰─────╯", "ProgramFailed", "Error: Missing option '--config'"),
    ("JSON", 1, json.dumps({"level": "error", "msg": "failed", "exc_info": trace("KeyError: 'labels'")}), "PythonException", "KeyError: 'labels' (train.py, line 12)"),
    ("JSON without a stack", 1, json.dumps({"level": "error", "msg": "allreduce", "error": "shard 7 is empty"}), "ProgramFailed", "allreduce: shard 7 is empty"),
    ("JSON of no error", 1, json.dumps({"level": "info", "msg": "uploaded"}), "ProgramFailed", "its last line"),
    ("JSON that is too deep", 1, '{"level": ' + 5000 * "[" + "}\nshard 7 is invalid", "ProgramFailed", "shard 7 is invalid"),
    ("a progress bar before it", 1, trace("45%|####5     | 45/100 [00:03<00:03]ValueError: shard 7"), "PythonException", "ValueError: shard 7"),
    ("another's traceback after it", 1, trace("ValueError: shard 7" + trace("ValueError: shard 7")), "PythonException", "ValueError: shard 7"),
    ("glog's last words", 134, "F1126 17:53:56.9 14 t.py:7] 7 shards for 8 hosts", "SIGABRT", "exit code 134): F1126 17:53:56.9 14 t.py:7] 7 shards"),
    # ranks and launchers
    ("the rank that failed, not those that lost it", 1, tagged(1, trace("ValueError: label 12"), "[rank{}]: ") + "\n" + tagged(0, trace(LOST), "[rank{}]: "), "PythonException", "rank 1: ValueError: label 12 (train.py, line 12)"),
    ("an error of all ranks", 1, "\n".join(tagged(n, trace("ValueError: lr"), "[rank{}]: ") for n in range(2)), "PythonException", "exit code 1: ValueError: lr"),
    ("a host of pdsh", 1, tagged(2, trace("ValueError: expected 512"), "worker-1: [rank{}]: "), "PythonException", "rank 2 on worker-1: ValueError: expected 512"),
    ("a line in pieces", 1, '[1,1]<stderr>:Traceback (most recent call last):\n[1,1]<stderr>:  File "/app/train.py", line 3, in f\n[1,1]<stderr>:IndexError[1,1]<stderr>:: [1,1]<stderr>:index 7[1,0]<stdout>:step 3', "PythonException", "rank 1: IndexError: index 7 (train.py, line 3)"),
    ("a rank of horovodrun", 1, tagged(2, trace("KeyError: 'v2'"), "Thu Nov 26 09:36:11 2026[{}]<stderr>:") + "\n" + trace("RuntimeError: Horovod detected that one or more processes exited with non-zero status, thus causing the job to be terminated."), "PythonException", "rank 2: KeyError: 'v2'"),
    ("mpirun's summary", 1, trace("ValueError: bad shard") + "\n" + MPIRUN, "PythonException", "rank 2 failed first: ValueError: bad shard"),
    ("mpirun's summary alone", 1, MPIRUN, "ProgramFailed", "rank 2 ended first, with exit code 1"),
    ("a rank that gave up", 1, trace("ValueError: bad shard") + "\n" + boxed("MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD\nwith errorcode 1."), "PythonException", "bad shard (train.py, line 12); rank 1 called MPI_Abort"),
    ("torchrun's summary", 1, trace("ValueError: 4 groups") + "\n" + trace(SUMMARY.format(1)), "PythonException", "4 groups"),
    ("torchrun's summary alone", 1, trace(SUMMARY.format(1)), "ProgramFailed", "rank 1 failed first, with exit code 1"),
    ("a rank that crashed, and its peer", 1, tagged(0, trace(LOST), "[rank{}]: ") + "\n" + trace(SUMMARY.format(-11)), "WorkerProcessKilled", "rank 1 failed first, with exit code -11"),
    ("a lost peer alone", 1, trace(LOST), "PeersUnreachable", "Connection closed by peer"),
    ("a killed rank, and its peer", 1, trace(LOST) + "\nmpirun noticed that process rank 3 with PID 0 on node w-1 exited on signal 9 (Killed).", "WorkerProcessKilled", "rank 3"),
    ("nccl's last error", 1, trace(NCCL.format("unhandled cuda error", "Cuda failure 2 'out of memory'")), "GpuOutOfMemory", "Cuda failure 2 'out of memory'"),
    ("nccl's last error, a peer", 1, trace(NCCL.format("remote process exited", "Connection closed by remote peer w-1<40213>")), "PeersUnreachable", "remote peer w-1<40213>"),
    ("a watchdog", 134, "[rank0]:[E1123 10:00:00 X.cpp:632] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600042 milliseconds before timing out.\nterminate called after throwing", "CollectiveTimeout", "rank 0 waited 600 s for the others in ALLREDUCE number 7"),
    ("a process below", 1, tagged(0, trace("ValueError: no cache blocks"), "(EngineCore_DP{} pid=6804) ") + "\n" + trace("RuntimeError: Engine core failed. See root cause above."), "PythonException", "ValueError: no cache blocks"),
    # signals, commands
    ("killed, after an exception", 137, trace("ValueError: retried"), "SIGKILL", "killed by SIGKILL (exit code 137), after it printed ValueError: retried"),
    ("killed, as the shell says", 137, "Killed", "SIGKILL", "killed by SIGKILL (exit code 137)"),
    ("stopped", 143, "step 7", "SIGTERM", "stopped by SIGTERM (exit code 143)"),
    ("a crash", 139, CRASH, "SIGSEGV", "in get_batch (decord/reader.py, line 175), called by load (data.py, line 12)"),
    ("a broken heap", 134, "step 1\ndouble free or corruption (!prev)", "SIGABRT", "aborted (SIGABRT, exit code 134): double free"),
    ("timeout(1)", 124, "step 7", "ProgramFailed", "the timeout command stopped it"),
    ("a missing program", 127, "sh: 1: accelerate: not found", "CommandNotFound", "the command was not found (exit code 127): sh: 1: accelerate: not found"),
    ("a variable that is not set", 127, "bash: line 1: DATA_DIR: unbound variable", "EnvironmentMissing", "DATA_DIR: unbound"),
    ("Windows line endings", 2, "/run.sh: line 3: cd: $'/srv\\r': No such file or directory\npython: no such option: --lr", "ShellError", "/srv"),
    ("Windows line endings, raw", 2, "/w/run.sh: line 1: set: pipefail\r: invalid option name", "ShellError", "pipefail"),
    ("a variable of a configuration error", 1, trace("KeyError: 'DATA_DIR'", '  File "<frozen os>", line 685, in __getitem__') + BY + trace("app.ConfigError: bad"), "EnvironmentMissing", "ConfigError: bad (train.py, line 12), after KeyError: 'DATA_DIR'"),
]  # fmt: skip
SIGNALS = {134: "SIGABRT", 137: "SIGKILL", 139: "SIGSEGV", 143: "SIGTERM"}


@pytest.mark.parametrize(("code", "printed", "reason", "word"), [pytest.param(*row[1:], id=row[0]) for row in ROWS])
def test_the_cause_is_that_of_the_error(code: int, printed: str, reason: str, word: str) -> None:
    made = end_of_program(SIGNALS.get(code, "Error"), code, "", shown_lines(printed))
    assert (made.reason, word in made.text) == (reason, True), made
    assert made.advice
    # Where pods are processes of this machine there are no images.
    made = end_of_program("Error", code, "", printed.splitlines(), local=True)
    assert not {"image", "nvidia.com/gpu", "NetworkPolicy"} & {word.strip(",.;") for word in made.advice.split()}, made


# In seconds; re takes longer than RE2.
LIMIT = 0.03 if clues.re2 is not None else 0.3
HOSTILE = (
    "a", "\n", "error: ", "{", '{"a":', "[1,0]<stderr>:", "host=a.b", "-", "a.", "1", "(0x1 in ", "A_", " | ", "1%|", "NCCL ", "connection ",
    "Traceback (most recent call last):\nE: x:\n", "ValueError: x\n", '  File "/a.py", line 3, in f\n    x\n', f"{30 * '-'}\nfoo error\n",
    "009 ERROR x Traceback (most recent call last)\n", "mpirun noticed that process rank 1 ", "tasks that reached the barrier: 1/2 ",
)  # fmt: skip


@pytest.mark.parametrize("part", HOSTILE)
@pytest.mark.parametrize("reason", ["Error", "SIGKILL"])
def test_any_message_is_read_in_a_bounded_time(part: str, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Generous for a busy machine, and a thousandth of what a pattern with two wildcards takes."""
    # What has been read is kept.
    messages = (f"{(part * 4096)[:4090]}{number}" for number in range(9))

    def cost(read: Callable[..., object]) -> float:
        message, before = next(messages), time.process_time()
        read(reason, 1, message)
        return time.process_time() - before

    end_of_program(reason, 1, "ValueError: x")
    assert min(cost(error_in) for _ in range(3)) < 0.005
    assert min(cost(end_of_program) for _ in range(3)) < LIMIT
    for module in ("clues", "programs"):
        monkeypatch.setattr(f"jobcommon.causes.{module}.table", WITHOUT_RE2.__getitem__)
    assert min(cost(end_of_program) for _ in range(3)) < 0.3


def test_a_long_error_keeps_its_beginning_and_its_end() -> None:
    long = trace(f"RuntimeError: no answer of {'x' * 500}: [Errno 111] Connection refused")
    assert all(part in error_in("Error", 1, long) for part in ("no answer", "[Errno 111] Connection"))
    assert error_in("Error", 127, long) == ""


@pytest.mark.parametrize(
    ("message", "reason", "said"),
    [
        ('exec: "python train.py --lr 3e-4": executable file not found in $PATH', "CommandNotFound", "give each word an item"),
        ("[Errno 2] No such file or directory: '/nope'", "WorkingDirectoryNotFound", "workingDir"),
        ("nvidia-container-cli: initialization error", "GpuUnusable", "reboot the node"),
        ("what nobody knows", "CommandNotFound", "correct command"),
    ],
)
def test_a_container_that_was_not_started_is_explained(message: str, reason: str, said: str) -> None:
    made = end_of_program("StartError", 128, message)
    assert (made.reason, said in made.advice) == (reason, True)


def test_what_is_left_of_a_log_is_told() -> None:
    assert "last lines" in end_of_program("Error", 1, "", ["bye"]).advice
    assert "terminationMessagePolicy" in end_of_program("Error", 1, "", gone=True).advice
    assert end_of_program("OOMKilled", 137, "").reason == "OOMKilled"
    assert "faulthandler" not in end_of_program("SIGSEGV", 139, "", CRASH.splitlines()).advice
