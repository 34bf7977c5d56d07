"""`report_progress`, by which a training loop says how far it is. Runs inside of pods.

It needs the standard library alone, of Python 3.8 or later, so this file can be copied into an image that has no jobcommon. The
protocol is that of Kubeflow Trainer (KEP-2779), with the address and the token that a pod has with ``reportProgress: true``.
"""

from __future__ import annotations

import atexit
import http.client
import json
import logging
import math
import operator
import os
import ssl
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

_URL, _AUTHORITY, _TOKEN = "KUBEFLOW_TRAINER_SERVER_URL", "KUBEFLOW_TRAINER_SERVER_CA_CERT", "KUBEFLOW_TRAINER_SERVER_TOKEN"
RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "PROCESS_ID", "PADDLE_TRAINER_ID", "DMLC_WORKER_ID")
_EVERY_SECONDS = 5.0
# Of a program that has just begun.
_FIRST_SECONDS = 1.0
_REQUEST_SECONDS = 5.0
EXIT_SECONDS = 3.0
# A server that restarts refuses one or two.
_WARN_AFTER = 3
# What the server takes of a name or a value, and so many metrics that a report stays far below its 64 KiB.
_MAX_TEXT, _MAX_METRICS = 64, 64


def report_progress(step: int, total: int | None = None, **metrics: object) -> None:
    """Report that `step` of `total` steps are made, with metrics such as ``loss=loss``. Never raises, and never waits.

    It does nothing where no operator takes reports (``reportProgress`` in ``spec.runPolicy``), and in processes of another rank
    than 0. A thread sends what is new, at most every five seconds (at first every second); at the end of the program it has
    three seconds for the last report. A metric keeps its value until it is reported again. The metric ``checkpoint`` is the
    step of the last checkpoint: what was trained up to there is not lost if the job is restarted or resized. With the metric
    ``phase``, `evaluationSeconds` applies only while its value is not ``train``.
    """
    if (reporter := _reporter()) is not None:
        reporter.report(step, total, metrics)


class Reporter:
    """Sends the latest report, from a thread of its own."""

    def __init__(self, url: str, authority: str, token: str) -> None:
        self._url, self._authority, self._token = urlsplit(url), authority, token
        self._changed = threading.Condition()
        self._step: Any = 0
        self._total: Any = None
        self._at, self._made = 0.0, time.monotonic()
        self._metrics: dict[str, Any] = {}
        self._is_new = self._ends = False
        self._began: tuple[int, float] | None = None
        self._last = 0
        self._failures = 0
        self._thread = threading.Thread(target=self._run, name="report-progress", daemon=True)
        self._thread.start()

    def report(self, step: object, total: object, metrics: Mapping[str, object]) -> None:
        """Keep it to be sent. What computes on a device is not waited for, and a tensor's graph is not kept."""
        kept = {name: value.detach() if hasattr(value, "detach") else value for name, value in metrics.items()}
        with self._changed:
            self._step, self._total, self._at = step, total, time.monotonic()
            self._metrics.update(kept)
            self._is_new = True
            self._changed.notify()

    def end(self) -> None:
        """Send what is left, and wait for it, but not for long."""
        with self._changed:
            self._ends = True
            self._changed.notify()
        self._thread.join(EXIT_SECONDS)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_new or self._ends)
                if not self._is_new:
                    return
                latest = self._step, self._total, self._at, dict(self._metrics)
                self._is_new = False
            sent = self._sent(*latest)
            with self._changed:
                if self._ends and not sent:
                    return
                self._is_new |= not sent
                age = time.monotonic() - self._made
                self._changed.wait_for(lambda: self._ends, min(max(age / 10, _FIRST_SECONDS), _EVERY_SECONDS))

    def _sent(self, step: Any, total: Any, at: float, metrics: Mapping[str, Any]) -> bool:
        try:
            step = int(step)
            # Where the steps begin again, so does the estimate.
            if self._began is None or step < self._last:
                self._began = step, at
            self._last = step
            self._post(json.dumps({"trainerStatus": status_of(step, total, metrics, self._began, at)}).encode())
        except Exception as error:
            self._failures += 1
            if self._failures == _WARN_AFTER:
                logging.getLogger(__name__).warning("progress cannot be reported, training continues: %s", error)
            return False
        self._failures = 0
        return True

    def _post(self, body: bytes) -> None:
        # Read each time: the kubelet renews the token. No proxy stands between a pod and the operator.
        bearer = Path(self._token).read_text(encoding="ascii").strip()
        context = ssl.create_default_context(cafile=self._authority)
        host, port = self._url.hostname or "", self._url.port
        connection = http.client.HTTPSConnection(host, port, timeout=_REQUEST_SECONDS, context=context)
        try:
            headers = {"Authorization": f"Bearer {bearer}", "Content-Type": "application/json"}
            connection.request("POST", self._url.path, body, headers)
            response = connection.getresponse()
            if response.status >= 400:
                raise OSError(f"{self._url.hostname} answers {response.status} {response.reason}")
        finally:
            connection.close()


def status_of(
    step: int, total: float | None, metrics: Mapping[str, object], began: tuple[int, float], at: float
) -> dict[str, Any]:
    """The report in the form of the protocol; `began` and `at`: the first step and its time, and the time of this one."""
    named: dict[str, object] = {"current_step": step, **metrics}
    status: dict[str, Any] = {}
    # Lightning's number of steps may be inf, and -1 where there is no limit.
    if total is not None and math.isfinite(total) and total > 0:
        named = {"current_step": step, "total_steps": int(total), **metrics}
        status["progressPercentage"] = min(max(int(100 * step / total), 0), 100)
        made, left = step - began[0], max(int(total) - step, 0)
        if made > 0 or not left:
            status["estimatedRemainingSeconds"] = round(left * (at - began[1]) / made) if left else 0
    texts = ((name[:_MAX_TEXT], _text(value)[:_MAX_TEXT]) for name, value in list(named.items())[:_MAX_METRICS])
    metric_list = [{"name": name, "value": text} for name, text in texts if name and text]
    return {**status, "metrics": metric_list, "lastUpdatedTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}


def _text(value: Any) -> str:
    """A value as text; of a tensor or an array its number, which may still be computed on a device."""
    if isinstance(value, str):
        return value
    with suppress(TypeError, ValueError, RuntimeError):
        return str(operator.index(value))
    with suppress(TypeError, ValueError, RuntimeError):
        return f"{float(value):.6g}"
    return str(value)


def is_first(environ: Mapping[str, str]) -> bool:
    """Whether this process has rank 0, as its framework or its launcher says; without a rank it has."""
    torch = sys.modules.get("torch.distributed")
    if torch is not None and torch.is_available() and torch.is_initialized():
        return bool(torch.get_rank() == 0)
    rank = next((environ[name] for name in RANKS if environ.get(name)), None)
    if rank is not None:
        return rank == "0"
    try:
        config = json.loads(environ.get("TF_CONFIG") or "{}")
        task, chiefs = config.get("task", {}), {"chief", "master"}.intersection(config.get("cluster", {}))
        return not task or (task.get("type") in (chiefs or {"worker"}) and task.get("index") == 0)
    except (ValueError, AttributeError):
        return True


class Process:
    """The reporter of this process, None if it makes no reports. A forked process begins anew: it has no thread."""

    decided = False
    reporter: Reporter | None = None

    @classmethod
    def forget(cls) -> None:
        """Decide anew whether this process reports."""
        cls.decided, cls.reporter = False, None

    @classmethod
    def end(cls) -> None:
        """Send what is left."""
        if cls.reporter is not None:
            cls.reporter.end()


def _reporter() -> Reporter | None:
    if not Process.decided:
        Process.decided = True
        where = [os.environ.get(name, "") for name in (_URL, _AUTHORITY, _TOKEN)]
        if all(where) and is_first(os.environ):
            Process.reporter = Reporter(*where)
    return Process.reporter


atexit.register(Process.end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=Process.forget)
