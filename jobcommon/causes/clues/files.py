"""Clues to what is wrong with files, volumes, checkpoints and data."""

from jobcommon.causes.cause import Clue
from jobcommon.causes.cause_reasons import Reason
from jobcommon.causes.clues.advice import DISK, LOCAL_PATHS, NO_JSON, PATHS

FILES = (
    Clue(
        r"can't open file '([^']+)': \[Errno 2\]", Reason.FILE_NOT_FOUND,
        "the script {0} does not exist", PATHS,
        local=LOCAL_PATHS,
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
        r"No space left on device|kein Speicherplatz mehr verfügbar|Aucun espace disponible|设备上没有空间|"
        r"Disk quota exceeded|\[Errno (?:28|122)\]|ENOSPC|code: 28, kind: StorageFull|"
        # torch.save, numpy and TensorFlow name no disk.
        r"PytorchStreamWriter failed|inline_container\.cc:\d+\] \. unexpected pos|basic_ios::clear: iostream error|"
        r"\b\d+ requested and \d+ written|file write failed",
        Reason.DISK_FULL, "", DISK,
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
        r"Stale (?:NFS )?file handle|Input/output error|\[Errno (?:5|103|107|116)\]|Transport endpoint is not connected",
        Reason.STORAGE_FAILED, "",
        "the volume does not respond: check its server or driver, and whether other pods on the node can use it",
    ),
    Clue(
        r"database is locked", Reason.STORAGE_FAILED, "",
        "several processes write a SQLite file at once, or its volume has no locks: use a database server (Optuna: or its "
        "JournalStorage), or a single writer",
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
        r"FileExistsError|\[Errno 17\]|destination path '.*' already exists", Reason.FILE_EXISTS, "",
        "it exists already, from an earlier attempt or from another replica: make the program accept that (os.makedirs(..., "
        "exist_ok=True)), or put rank and attempt into its name",
    ),
    Clue(
        r"detected dubious ownership in repository", Reason.PERMISSION_DENIED, "",
        "another user owns the repository: git config --global --add safe.directory DIR",
    ),
    Clue(
        r"externally-managed-environment", Reason.PERMISSION_DENIED, "",
        "this Python belongs to the system: install into a virtual environment (python -m venv), or use an image with its "
        "own Python",
        local="this Python belongs to the system: install into a virtual environment (python -m venv)",
    ),
)  # fmt: skip

DATA = (
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
        r"HeaderTooLarge|invalid load key, 'v'", Reason.DATA_INVALID, "",
        "the file is no model, perhaps a Git LFS pointer (head -c 200 FILE): run git lfs pull, or download it again",
    ),
    Clue(
        r"Unsupported operand \d+", Reason.DATA_INVALID, "",
        "the file is no checkpoint: it may be a Git LFS pointer (118) or an error page (60); see head -c 200 FILE, and load "
        "it again",
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
        r"[Mm]issing key in checkpoint", Reason.CHECKPOINT_MISMATCH, "",
        "the checkpoint was saved from another model, or by another number of ranks: resume with that, or load it without this "
        "key (strict=False, allow_partial_load)",
    ),
    Clue(
        r"Missing key\(s\) in state_dict: \"(module\.|_orig_mod\.)|"
        r"Unexpected key\(s\) in state_dict: \"(module\.|_orig_mod\.|model\.)", Reason.CHECKPOINT_MISMATCH, "",
        "the names differ by the prefix {0}{1} alone: a wrapper (DDP, torch.compile, Lightning) adds it; save the wrapped "
        "model's state_dict (model.module, model._orig_mod), or take the prefix off the keys, or add it",
    ),
    Clue(
        r"parameter groups? that (?:doesn't match|has)|different number of parameter groups", Reason.CHECKPOINT_MISMATCH, "",
        "the optimizer has other parameters than when it was saved: freeze and group the same parameters, or load the model "
        "without the optimizer's state",
    ),
    Clue(
        r"finding central directory|\[Errno 22\] Invalid argument[\s\S]*torch/serialization\.py|"
        r"invalid header or archive is corrupted|MetadataIncompleteBuffer|"
        r"checkpoint\b.*(?:corrupt|truncated)|PytorchStreamReader failed", Reason.DATA_INVALID, "",
        "the file is damaged or incomplete: resume from an earlier checkpoint, or load it again; write checkpoints under "
        "another name first, and rename them when they are complete",
    ),
    Clue(
        r"Error\(s\) in loading state_dict|size mismatch for \S+(?::|\.(?:weight|bias))|(?:Missing|"
        r"Unexpected) key\(s\) in state_dict|"
        r"loaded state dict|SafetensorError|not compatible with .*(?<!gradient )checkpoint\b|"
        r"checkpoint\b.*(?:mismatch|incompatible)|(?:Unsuccessful TensorSliceReader|not found in checkpoint)|"
        r"Shapes .* incompatible[\s\S]*(?:checkpoint|restore|load_weights)|doesn't match (?:the )?(?:size of )?checkpoint",
        Reason.CHECKPOINT_MISMATCH, "",
        "load the checkpoint into the model it was saved from; if the file is damaged, resume from an earlier checkpoint or "
        "delete it",
    ),
    Clue(
        r"(?:(?-i:missing [A-Z_]+)|extraneous input|mismatched input|no viable alternative|"
        r"token recognition error).{,40}\bat(?: input)? '", Reason.WRONG_ARGUMENTS,
        "", "correct the override in the arguments, which hydra cannot parse: KEY=VALUE, with quotes around special characters",
    ),
    Clue(
        r"(?:requests|httpx|aiohttp)\.\S*(?:JSONDecodeError|ContentTypeError)|JSONDecodeError[\s\S]*(?:requests|httpx)/",
        Reason.DATA_INVALID, "", "the server answered with something else than JSON, such as an error page: print the "
        "status and the text of its answer",
    ),
    Clue(
        r"JSONDecodeError", Reason.CONFIG_INVALID, "", NO_JSON,
    ),
    Clue(
        r"UnpicklingError|pickle data was truncated|Ran out of input", Reason.DATA_INVALID, "",
        "the file is empty, damaged or no pickle: check its content (head -c 200 FILE), which may be an error page or a Git "
        "LFS pointer; of a checkpoint, resume from an earlier one",
    ),
    Clue(
        r"yaml\.\w+\.\w+Error|(?<![\w.])(?:Scanner|Parser|Constructor|Composer)Error: |TOMLDecodeError|configparser\.\w+Error|"
        r"omegaconf\.errors|hydra\.errors|MissingConfigException|ConfigAttributeError|validation errors? for|"
        r"jsonschema\.\S*ValidationError|"
        r"Could not override '|Error merging override|Error in call to target '|In '[\w/]+': Could not find '|"
        r"Missing mandatory value|(?:Error|invalid value) in (?:config|configuration)|invalid (?:json|yaml|toml)|"
        r"InvalidConfig|ConfigError|Invalid TF_CONFIG",
        Reason.CONFIG_INVALID, "", "correct the file or value that the message names",
    ),
)  # fmt: skip
