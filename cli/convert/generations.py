"""Reading polyaxonfiles of the generations up to 0.6.

They differ in where the tasks stand: directly in ``environment`` (January 2018), under the framework's name (to 0.4.1), or
under ``replicas`` with a ``framework`` at the top (0.4.2 on); and in how a task's properties are spelt: a list a property
(``worker_resources``) or a list of tasks (``worker``). Mixtures exist, so all spellings are read in all places.
"""

from collections.abc import Mapping
from typing import Any

from jobcommon.cli.convert.command import read_command
from jobcommon.cli.convert.experiment import Experiment
from jobcommon.cli.convert.finding import Notes
from jobcommon.cli.convert.naming import identity
from jobcommon.cli.convert.params import read_params, substitute
from jobcommon.cli.convert.section import Section
from jobcommon.cli.convert.task import Group, read_pairs, read_properties

# POLYAXON_CLUSTER names every task, and Linux takes no variable of more than 128 KiB.
MAX_TASKS = 1_000
FRAMEWORKS = ("tensorflow", "mxnet", "pytorch", "horovod")
_BACKENDS = ("native", "kubeflow", "mpi", "other")
_KINDS = ("experiment", "job")
_MANY = "describes many experiments; only one is converted: write a file for each, with its params"
# What environment says of these is for every task; the rest of it is for the master alone (Polyaxon 0.5, scheduler/spawners).
_FOR_ALL = ("service_account", "image_pull_secrets", "secret_refs", "config_map_refs", "env_vars")
_BUILD_STEPS = ("build_steps", "steps", "dockerfile", "ref", "build_ref")
_RESOURCES = ("cpu", "memory", "gpu", "limits", "requests")


def read_experiment(body: Mapping[str, Any], notes: Notes, *, name: str | None, image: str | None, fallback: str) -> Experiment:
    """The experiment in the document. What is wrong with it is in `notes`, and may have left the experiment incomplete."""
    top = Section(body, "", notes)
    top.take("version")
    kind = top.text("kind")
    if kind is not None and kind not in _KINDS:
        notes.error("kind", f"{kind[:40]} is not supported: only {' and '.join(_KINDS)} can be converted")
    top.refuse(_MANY, "matrix", "hptuning", "settings", "workflow", "ops", "concurrency")
    params_name = "POLYAXON_DECLARATIONS" if top.has("declarations") else "POLYAXON_PARAMS"
    params = read_params(top, "params", "declarations")
    top = Section(_substituted(top, params), "", notes)
    who = identity(top, name=name, fallback=fallback)
    environment = top.section("environment")
    mpi, framework, tasks = _topology(top, environment)
    master = read_properties(environment)
    for_all = {name: value for name, value in master.items() if name in _FOR_ALL}
    workers, servers = _group(tasks, "worker", for_all), _group(tasks, "ps", for_all)
    run, build = top.section("run"), top.section("build")
    command = read_command(run)
    if command is None:
        notes.error("run.cmd", "is required: the command of every task")
    env = {**_env(build), **_env(run)}
    found_image = _image(build, run, image)
    log_level = top.section("logging").text("level") or "INFO"
    policy = _termination(top.section("termination"))
    # The tasks may be the environment's own; it is closed once more then, which says nothing.
    for section in (tasks, environment, run, build, top):
        section.close()
    return Experiment(
        name=who.name,
        image=found_image,
        command=command or "",
        framework=framework,
        mpi=mpi,
        master=master,
        workers=workers,
        servers=servers,
        env=env,
        params=params,
        params_name=params_name,
        info=who.info,
        log_level=log_level.upper(),
        annotations=who.annotations,
        run_policy=policy,
    )


def _substituted(top: Section, params: Mapping[str, Any]) -> dict[str, Any]:
    return {key: substitute(value, params, key, top.notes) for key, value in top.rest().items()}


def _topology(top: Section, environment: Section) -> tuple[bool, str, Section]:
    """Whether mpi-operator is asked for, the framework, and the section that has the numbers of tasks."""
    notes = top.notes
    named = [name for name in (*FRAMEWORKS, "mpi") if environment.has(name)]
    framework, backend = (top.text("framework") or "").lower(), (top.text("backend") or "native").lower()
    if backend not in _BACKENDS:
        notes.error("backend", f"{backend[:40]} is not supported: use one of {', '.join(_BACKENDS)}")
    if len(named) > 1:
        notes.error("environment", f"only one framework can be used; there are {', '.join(named)}")
    if environment.has("replicas") and named:
        notes.error("environment.replicas", f"the tasks are also under {named[0]}: remove one of the two")
    if named and framework not in ("", named[0]):
        notes.error("framework", f"{framework[:40]} is not the one under environment, which is {named[0]}")
    if named:
        framework, tasks = named[0], environment.section(named[0])
    elif environment.has("replicas"):
        tasks = environment.section("replicas")
        # The MPI page of the documentation has the backend as a framework.
        if framework not in (*FRAMEWORKS, "mpi") and backend != "mpi":
            what = f"`{framework[:40]}` is not supported" if framework else "is required"
            notes.error("framework", f"{what} for distributed experiments: use one of {', '.join(FRAMEWORKS)}")
    else:
        # The first generation, which knew only TensorFlow.
        tasks = environment
        if not framework and (environment.has("n_workers") or environment.has("n_ps")):
            framework = "tensorflow"
    return backend == "mpi" or framework == "mpi", framework, tasks


def _group(tasks: Section, kind: str, for_all: Mapping[str, Any]) -> Group:
    """The tasks of a kind, worker or ps, in every spelling."""
    plural = {"worker": "n_workers", "ps": "n_ps"}[kind]
    count = tasks.integer(plural, most=MAX_TASKS) or 0
    default: dict[str, Any] = {}
    by_index: dict[int, dict[str, Any]] = {}
    if tasks.has(f"default_{kind}"):
        section = tasks.section(f"default_{kind}")
        _add(default, read_properties(section), section)
        section.close()
    for old, name in (("resources", "resources"), ("node_selectors", "node_selector")):
        path = tasks.at(f"default_{kind}_{old}")
        value = tasks.take(f"default_{kind}_{old}")
        if value is not None:
            _add(default, read_properties(Section({name: value}, path, tasks.notes)), tasks)
    for section in tasks.sections(kind):
        _read_entry(section, by_index, count)
    for section in tasks.sections(f"{kind}_resources"):
        inline = {key: section.take(key) for key in _RESOURCES if section.has(key)}
        whole = [section.take("resources")] if section.has("resources") else []
        _read_entry(section, by_index, count, {"resources": {**inline, **(whole[0] if whole else {})}})
    for section in tasks.sections(f"{kind}_node_selectors"):
        index = section.take("index")
        _read_entry(Section({"index": index}, section.path, tasks.notes), by_index, count, {"node_selector": section.rest()})
    if default and not count:
        tasks.notes.warn(tasks.at(f"default_{kind}"), f"has no effect: {plural} is 0")
    return Group(count, {**for_all, **default}, {index: found for index, found in by_index.items() if index < count})


def _read_entry(
    section: Section, by_index: dict[int, dict[str, Any]], count: int, given: Mapping[str, Any] | None = None
) -> None:
    """One task's own properties: those in `section`, or `given` for a list of a single property."""
    index = section.integer("index", most=MAX_TASKS)
    if index is None:
        section.notes.error(section.path, "index: is required: which task this is for, counted from 0")
    properties = read_properties(section if given is None else Section(given, section.path, section.notes))
    section.close()
    if properties.pop("max_restarts", None):
        section.notes.warn(
            f"{section.path}.max_restarts", "of a single task is not supported; the value for all tasks of its type applies"
        )
    if index is None:
        return
    if index >= count:
        section.notes.warn(section.path, f"has no effect: there is no task {index}, there are {count}")
    _add(by_index.setdefault(index, {}), properties, section)


def _add(found: dict[str, Any], more: Mapping[str, Any], section: Section) -> None:
    for name in found.keys() & more.keys():
        section.notes.error(section.path, f"{name} is given twice for the same task, in two spellings")
    found.update(more)


def _env(section: Section) -> dict[str, str]:
    return read_pairs(section, "env_vars") if section.has("env_vars") else {}


def _image(build: Section, run: Section, given: str | None) -> str:
    """The image: --image, else build.image (0.1.8 on), else run.image. Nothing is built here."""
    built = {section.path: section.text("image") for section in (build, run)}
    own = [image for image in built.values() if image]
    if len(own) > 1:
        build.notes.error("run.image", "the image is given twice, also as build.image: remove one")
    steps = [section.at(key) for section in (build, run) for key in _BUILD_STEPS if section.has(key)]
    for section in (build, run):
        for key in _BUILD_STEPS:
            section.take(key)
    for path in steps:
        if given:
            build.notes.warn(path, f"is not run: the image is {given}, which must contain what it would add")
        else:
            build.notes.error(path, "cannot run here: build the image and name it with --image")
    image = given or (own[0] if own else None)
    if image is None and not steps:
        build.notes.error("build.image", "is required: name an image there or with --image")
    return image or ""


def _termination(section: Section) -> dict[str, Any]:
    """The limits on the job as a whole: maxRetries, ttl and timeout in seconds."""
    found = {
        "backoffLimit": section.integer("max_retries"),
        "ttlSecondsAfterFinished": section.integer("ttl"),
        "activeDeadlineSeconds": section.integer("timeout", least=1, most=10 * 365 * 24 * 3600),
    }
    section.close()
    return {key: value for key, value in found.items() if value is not None}
