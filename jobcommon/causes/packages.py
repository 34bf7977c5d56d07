"""Which package to install on a machine for a Python module, a program or a shared library."""

# The names of packages that differ from those of their modules, and the Debian packages of programs and libraries.
_PIP = {
    "cv2": "opencv-python-headless", "sklearn": "scikit-learn", "yaml": "PyYAML", "PIL": "pillow",
    "skimage": "scikit-image",
    "dateutil": "python-dateutil", "google.protobuf": "protobuf", "bs4": "beautifulsoup4", "attr": "attrs",
    "Crypto": "pycryptodome",
    "dotenv": "python-dotenv", "tensorflow_datasets": "tensorflow-datasets", "faiss": "faiss-cpu",
    "pytorch_lightning": "lightning",
    "paddle": "paddlepaddle", "MPI": "mpi4py",
}  # fmt: skip
_DEBIAN = {
    "mpirun": "openmpi-bin", "mpiexec": "openmpi-bin", "orted": "openmpi-bin", "ssh": "openssh-client",
    "sshd": "openssh-server",
    "git": "git", "gcc": "build-essential", "cc": "build-essential", "g++": "build-essential", "make": "make",
    "curl": "curl",
    "wget": "wget", "unzip": "unzip", "ffmpeg": "ffmpeg", "numactl": "numactl", "bash": "bash", "rsync": "rsync",
    "bc": "bc", "jq": "jq",
    "libGL": "libgl1", "libgomp": "libgomp1", "libglib": "libglib2.0-0", "libgthread": "libglib2.0-0",
    "libsndfile": "libsndfile1",
    "libibverbs": "libibverbs1", "libnuma": "libnuma1", "libmpi": "libopenmpi3", "libSM": "libsm6", "libXext": "libxext6",
    "libopenblas": "libopenblas0",
}  # fmt: skip
# Programs that come with a Python package.
_PIP_PROGRAMS = {
    "torchrun": "torch", "accelerate": "accelerate", "deepspeed": "deepspeed", "horovodrun": "horovod",
    "huggingface-cli": "huggingface_hub",
    "lightning": "lightning", "wandb": "wandb", "ray": "ray", "tensorboard": "tensorboard", "xgboost": "xgboost",
}  # fmt: skip


def pip_package(module: str) -> str:
    """The package on PyPI that has a module."""
    top = module.partition(".")[0]
    return _PIP.get(module) or _PIP.get(top, top)


def library_package(name: str) -> str:
    """`` (Debian: libgl1)`` for libGL.so.1; "" for a library that is not known."""
    found = _DEBIAN.get(name.partition(".")[0].partition("-")[0])
    return f" (Debian: {found})" if found else ""


def program_package(name: str) -> str:
    """How to install a program; "" for one that is not known."""
    if (package := _DEBIAN.get(name)) is not None:
        return f"apt install {package}"
    return f"pip install {_PIP_PROGRAMS[name]}" if name in _PIP_PROGRAMS else ""
