"""Clues to what a program lacks: variables, modules, libraries, arguments; and to what shells say."""

from jobcommon.causes.cause import Clue
from jobcommon.causes.cause_reasons import Reason
from jobcommon.causes.clues.advice import NO_JSON

ENVIRONMENT = (
    Clue(
        r"KeyError: '(RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT)'|environment variable (\w+) expected, but not set",
        Reason.ENVIRONMENT_MISSING,
        "", "give the PyTorchJob a Master, or start the script with torchrun (docs/troubleshooting.md)",
    ),
    Clue(
        r"KeyError: '((?:LOCAL|GROUP|ROLE)_\w*(?:RANK|SIZE))'", Reason.ENVIRONMENT_MISSING, "",
        "torchrun sets {0}: start the script with torchrun, or set {0} in env if each pod has one process; jobcommon run "
        "SCRIPT sets it",
    ),
    Clue(
        r"(?:coordinator_address|Number of processes|process id)\b.*(?:should|must) be defined|"
        r"KeyError: '(\w+)'[\s\S]*(?:\bos\.py\"|<frozen os>|environ\[.\1\b)|(?:environment variable|"
        r"env(?:ironment)? var)\W+(\w+)\W+.*(?:not (?:set|defined|found)|missing|required|must be (?:set|specified|defined)\b)|"
        r"(?-i:\b(?!CMAKE_)[A-Z][A-Z0-9]*_[A-Z0-9_]+) (?:must be|is not|isn't|was not|not) (?:set|defined|given|provided)\b|"
        r"(?:missing|(?:please|must|need to) (?:set|define)) (?:the )?(?:required )?environment variable:? (\w+)\b(?!=)|"
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
)  # fmt: skip

MODULES = (
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
        r"No module named '?(?:torch\._six|tensorflow\.contrib|sklearn\.externals|keras\.engine|pkg_resources|distutils|imp)\b",
        Reason.VERSIONS_CONFLICT, "",
        "newer versions have no such module: install the version that the program is written for (pkg_resources: "
        "setuptools<81)",
    ),
    Clue(
        r"(?:ModuleNotFoundError|ImportError)\W+No module named '?([\w.]+)|(?:: |\n)No module named '?([\w.]+)|"
        r"PackageNotFoundError: .*for (\S+)|DistributionNotFound: The '([\w-]+)|requires \w+: .pip install (\w+)|"
        r"requires the (\S+) library|Missing optional dependency '([\w-]+)'",
        Reason.MODULE_NOT_FOUND, "", "install the module in the image, or correct PYTHONPATH and workingDir",
        local="install it in the environment that pods use: pip install {pip}; or correct PYTHONPATH and workingDir",
    ),
    Clue(
        r"\.so\S*: undefined symbol", Reason.VERSIONS_CONFLICT, "",
        "this module was built for another version of a library that it uses (such as torch): install the build that fits "
        "it, or build it again",
    ),
    Clue(
        r"torch_extensions/.*cannot open shared object", Reason.LIBRARY_NOT_FOUND, "",
        "the extension was not built: see the compiler's error before; if the cache is stale, remove ~/.cache/torch_extensions",
    ),
    Clue(
        r"error while loading shared libraries: ([^:\s]+)|(lib[\w+.-]+\.so[.\d]*): cannot open shared object|(?:GLIBC|"
        r"GLIBCXX|CXXABI)_[\d.]+' not found|Cannot load (?:symbol |lib)\S+|Unable to load any of \{lib",
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
        r"undefined reference to", Reason.LIBRARY_NOT_FOUND, "",
        "no library that is linked defines this name: add it (-lNAME, after the files that use it), or use the version that "
        "has it",
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
        r"nothing provides (?:requested )?(\S+)|ResolvePackageNotFound:?\s*(?:- )?(\S+)",
        Reason.VERSIONS_CONFLICT, "",
        "no channel has a compatible version of {0}{1}: choose other versions; __cuda and __glibc stand for this machine's "
        "driver and libc (CONDA_OVERRIDE_CUDA names another)",
    ),
    Clue(
        r"PackagesNotFoundError|UnsatisfiableError:", Reason.VERSIONS_CONFLICT, "",
        "no channel has these packages in versions that fit together: choose other versions, or add the channel that has them "
        "(-c)",
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
        r"CMake Error.*(?:Could NOT find (\w+)|package configuration file provided by \"(\w+)\")", Reason.LIBRARY_NOT_FOUND, "",
        "the image lacks what programs are built with of {0}{1}: install it (Debian: a package with -dev), or add its "
        "directory to CMAKE_PREFIX_PATH",
        local="this machine lacks what programs are built with of {0}{1}: install it (Debian: a package with -dev), or add its "
        "directory to CMAKE_PREFIX_PATH",
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
        r"Serialized Engine Version", Reason.VERSIONS_CONFLICT, "",
        "another version of TensorRT built this engine: build it again with the version that loads it",
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
        r"Numpy is not available|_ARRAY_API not found|numpy\.core\.multiarray failed to import|compiled using NumPy 1",
        Reason.VERSIONS_CONFLICT, "",
        "a module was built for NumPy 1 and NumPy 2 is installed: pip install 'numpy<2', or a newer version of the module",
    ),
    Clue(
        r"cannot import name '|numpy\.dtype size changed|module '[\w.]+' has no attribute '\w+'(?!\. Did you mean)|"
        r"binary incompatib|VersionConflict|requires \S+[<>=~!]=? ?[\d.]+.* (?:but (?!got)|is required)|"
        r"is required for a normal functioning",
        Reason.VERSIONS_CONFLICT, "",
        "install compatible versions, and rename any file of yours that has the name of a module",
        local="install compatible versions (pip check), and rename any file of yours that has the name of a module",
    ),
    Clue(
        r"SyntaxError: .*\bJSON\b", Reason.CONFIG_INVALID, "", NO_JSON,
    ),
    Clue(
        r"\b(?:SyntaxError|IndentationError|TabError): ", Reason.SYNTAX_ERROR, "",
        "correct the script at the line shown, or run it with the version of Python that it is written for",
    ),
    Clue(
        r"\bloss(?: value)? (?:is|was|became|=|:) ?-?(?:nan|inf)\b.*(?:stop|abort|exit|terminat)", Reason.NOT_A_NUMBER, "",
        "lower the learning rate, clip gradients, check the data for NaN; set_detect_anomaly(True) names the operation",
    ),
)  # fmt: skip

ARGUMENTS = (
    Clue(
        r"(?:unrecognized arguments: |HfArgumentParser: \[')--local[-_]rank", Reason.WRONG_ARGUMENTS, "",
        "torch.distributed.launch adds this argument: start the script with torchrun, and read LOCAL_RANK from the environment",
    ),
    Clue(
        r"(?<!\w)error: (?:unrecognized arguments|the following arguments are required|argument |ambiguous option|"
        r"one of the arguments|invalid choice)|"
        r"no such option|(?<!TypeError: )(?<!ValueError: )(?:unknown|unrecognized|unexpected) (?:flag|option|argument|"
        r"command)s?\b|flag provided but not defined|Unrecognized VM option|Invalid maximum heap size|"
        r"(?<!\w)Error: (?:Missing (?:option|argument|parameter)|Invalid value for|Got unexpected extra|No such command)|"
        r"Flags parsing error|Unknown command line flag|unrecognized option|invalid option|(?<!set: )illegal option|"
        r"Could not consume arg|not used by the HfArgumentParser",
        Reason.WRONG_ARGUMENTS, "", "correct args in the pod template; with jobcommon run, the arguments after --",
    ),
)  # fmt: skip

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
        r"EnvironmentNameNotFound|Could not find conda environment", Reason.FILE_NOT_FOUND, "",
        "the image has no conda environment of that name: correct it (conda env list), or create it",
        local="this machine has no conda environment of that name: correct it (conda env list), or create it",
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
