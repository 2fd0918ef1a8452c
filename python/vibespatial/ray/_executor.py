"""Who runs the tasks: a Ray cluster, or this process.

A task is a function of this package that takes its `Settings` first and returns a tuple. Its first value is a `Report`; the others stay where
they are until a later task or the caller asks for them. Tasks depend on their arguments alone and change nothing but the files that they put in place at their end, so a
task that Ray starts again gives the same rows, and nothing is doubled.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Optional, Sequence

from ._options import Cancelled, Options, Progress, Report, Settings

_POLL_S = 0.1
# If no task has ended for so long, the cluster is asked whether a node can run them
_SILENT_S = 30.0
# How long tasks that were cancelled may take to end
_END_S = 10


@dataclass
class Call:
    """A task to run. References among `arguments` are replaced by their values; those inside of other values are not. The first is its
    `Settings`, which say what it reserves. `work` is an estimate: those with the most begin first."""

    label: str
    task: Callable[..., tuple[Any, ...]]
    arguments: Sequence[Any]
    returns: int = 1
    work: float = 0.0

    @property
    def settings(self) -> Settings:
        found: Settings = self.arguments[0]
        return found


class LocalExecutor:
    """Tasks in this process, one after another. For tests, and to look at a plan without a cluster."""

    nodes = 1

    def __init__(self, options: Options) -> None:
        self.options = options

    def slots(self, settings: Settings) -> int:
        """How many tasks with these settings run at a time."""
        return 1

    def can_run(self, settings: Settings) -> bool:
        """Whether there is a node that could run a task with these settings, now or when others have ended."""
        return True

    def memory(self) -> int:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2

    def put(self, value: Any) -> Any:
        return _Held(value)

    def get(self, reference: Any) -> Any:
        return reference.value if isinstance(reference, _Held) else reference

    def submit(self, call: Call) -> list[Any]:
        values = call.task(*(self.get(value) for value in call.arguments))
        return [_Held(value) for value in values]

    def wait(self, references: list[Any], timeout: float) -> list[Any]:
        return list(references)

    def cancel(self, calls: Sequence[Sequence[Any]]) -> None:
        pass

    def dataset(self, references: Sequence[Any]) -> Any:
        raise ValueError("a Ray Dataset needs a Ray cluster: executor='ray'")


@dataclass(eq=False)
class _Held:
    value: Any


class RayExecutor:
    """Tasks of a Ray cluster that this process has joined."""

    def __init__(self, options: Options) -> None:
        try:
            import ray  # type: ignore[import-untyped]
        except ImportError as error:
            raise ImportError("ray is needed: 'pip install \"vibespatial[ray]\"' gets it, or executor='local' does without") from error
        if not ray.is_initialized():
            raise RuntimeError("this process has joined no Ray cluster: call ray.init() first, or give executor='local'")
        self.ray = ray
        self.options = options
        self._remote: dict[Any, Any] = {}
        # Only memory that the caller has chosen is reserved: the default would be a guess that keeps tasks waiting
        self._memory = options.memory if isinstance(options.memory, int) else None
        nodes = self._living()
        self.nodes = len(nodes)
        cores = [self._room(node, False) for node in nodes]
        self._slots = {False: sum(cores), True: 0}
        if not self._slots[False]:
            raise ValueError(f"no node of the cluster has {self._needs(False)} for one task: choose less")
        # A process cannot change its GPU: where a node has several, it ends after one task, as the next may be given another one
        self._once: dict[str, int] = {}
        if options.num_gpus:
            self._slots[True] = sum(self._room(node, True) for node in nodes)
            if not self._slots[True]:
                raise ValueError(f"no node of the cluster has {self._needs(True)}, which a task asks for")
            if any(node.get("GPU", 0) > 1 for node in nodes):
                self._once = {"max_calls": 1}

    def _living(self) -> list[dict[str, float]]:
        """What each node of the cluster has."""
        return [node["Resources"] for node in self.ray.nodes() if node["Alive"]]

    def _room(self, node: dict[str, float], gpu: bool) -> int:
        """How many tasks run on a node at a time. A task runs on one node, so what is left of each is of no use."""
        room = int(node.get("CPU", 0) / self.options.threads)
        if self._memory is not None:
            room = min(room, int(node.get("memory", 0) / self._memory))
        if gpu:
            room = min(room, int(node.get("GPU", 0)) * int(1 / self.options.num_gpus + 1e-9))
        return room

    def _needs(self, gpu: bool) -> str:
        needs = [f"{self.options.threads} CPUs"]
        needs += [] if self._memory is None else [f"{self._memory / 1e6:,.0f} MB of memory"]
        needs += [f"{self.options.num_gpus:g} GPUs"] if gpu else []
        return " and ".join(needs)

    def slots(self, settings: Settings) -> int:
        return self._slots[settings.gpu]

    def can_run(self, settings: Settings) -> bool:
        return any(self._room(node, settings.gpu) for node in self._living())

    def memory(self) -> int:
        """The share of half of a node's memory that one task has, on the node that has least."""
        shares = []
        for node in self.ray.nodes():
            cores = node["Resources"].get("CPU", 0)
            if node["Alive"] and cores:
                shares.append(node["Resources"].get("memory", 2**31) * self.options.threads / cores / 2)
        return int(min(shares))

    def put(self, value: Any) -> Any:
        return self.ray.put(value)

    def get(self, reference: Any) -> Any:
        if isinstance(reference, self.ray.ObjectRef):
            try:
                return self.ray.get(reference)
            except self.ray.exceptions.RayTaskError as error:
                cause = error.cause if getattr(error, "cause", None) is not None else error
                raise cause from error
        return reference

    def submit(self, call: Call) -> list[Any]:
        gpu = call.settings.gpu
        remote = self._remote.get((call.task, gpu))
        if remote is None:
            # Ray has processes for tasks with a GPU, and others for those without
            remote = self.ray.remote(num_cpus=self.options.threads, **(self._once if gpu else {}))(call.task)
            self._remote[call.task, gpu] = remote
        found = remote.options(
            name=call.label,
            num_gpus=self.options.num_gpus if gpu else 0,
            memory=self._memory,
            num_returns=call.returns,
            max_retries=self.options.max_retries,
            retry_exceptions=False,
            scheduling_strategy="SPREAD",
        ).remote(*call.arguments)
        return [found] if call.returns == 1 else list(found)

    def wait(self, references: list[Any], timeout: float) -> list[Any]:
        done, _ = self.ray.wait(references, num_returns=1, timeout=timeout, fetch_local=False)
        return list(done)

    def cancel(self, calls: Sequence[Sequence[Any]]) -> None:
        """Ends tasks, given by all that they return, and takes note of their errors: Ray prints those that nobody has looked at."""
        for references in calls:
            # Ray ends the driver if a task is cancelled whose results it is just taking in
            if not self.ray.wait(references[:1], timeout=0, fetch_local=False)[0]:
                self.ray.cancel(references[0], force=True)
        for reference in (one for references in calls for one in references):
            try:
                self.ray.get(reference, timeout=_END_S)
            except Exception:  # it is the operation's own error that is raised
                continue

    def dataset(self, references: Sequence[Any]) -> Any:
        import ray.data  # type: ignore[import-untyped]

        return ray.data.from_arrow_refs(list(references))


def executor_of(options: Options) -> Any:
    if options.executor == "ray":
        return RayExecutor(options)
    if options.executor == "local":
        return LocalExecutor(options)
    if isinstance(options.executor, str):
        raise ValueError(f"executor must be 'ray', 'local' or an executor, not {options.executor!r}")
    return options.executor


@dataclass
class Run:
    """One operation on its way: runs stages of tasks, tells how far they are, and collects the reports."""

    operation: str
    executor: Any
    options: Options
    reports: list[Report] = field(default_factory=list)
    begin: float = field(default_factory=time.monotonic)
    rows: int = 0
    planning: Optional[list[Report]] = None

    def start(self) -> None:
        """Begins to run a plan. What an earlier run of it has counted is not part of this one; what planning has reported is."""
        if self.planning is None:
            self.planning = self.reports
        else:
            self.begin = time.monotonic()
        self.reports = list(self.planning)
        self.rows = 0

    def _tell(self, stage: str, done: int, total: int, stage_begin: float, waiting: float = 0.0) -> None:
        if not self.options.progress:
            return
        now = time.monotonic()
        eta = (now - stage_begin) / done * (total - done) if done else None
        progress = Progress(self.operation, stage, done, total, self.rows, now - self.begin, eta, waiting)
        if callable(self.options.progress):
            self.options.progress(progress)
        else:
            print(progress, file=sys.stderr, flush=True)

    def _check(self) -> None:
        if self.options.cancel is not None and self.options.cancel.requested:
            raise Cancelled(f"{self.operation} was cancelled")

    def stage(self, name: str, calls: Sequence[Call], counts: bool = False) -> list[list[Any]]:
        """Runs tasks of the same settings and returns the references of each. `counts` says whether their rows are rows of the result.

        No more tasks are under way than twice what runs at a time: what is read ahead needs memory. If one fails or the operation is
        cancelled, those under way are ended.
        """
        results: list[list[Any]] = [[] for _ in calls]
        under_way: dict[Any, int] = {}
        stage_begin = time.monotonic()
        done = following = 0
        ahead = 2 * self.executor.slots(calls[0].settings) if calls else 0
        order = sorted(range(len(calls)), key=lambda at: -calls[at].work)
        self._tell(name, 0, len(calls), stage_begin)
        known = stage_begin
        idle_since: Optional[float] = None
        try:
            while done < len(calls):
                self._check()
                while following < len(calls) and len(under_way) < ahead:
                    at = order[following]
                    results[at] = references = self.executor.submit(calls[at])
                    under_way[references[0]] = at
                    following += 1
                now = time.monotonic()
                if now - known >= _SILENT_S:
                    # A cluster may be about to get new nodes
                    idle_since = None if self.executor.can_run(calls[0].settings) else idle_since or known
                    known = now
                    if idle_since is not None:
                        self._tell(name, done, len(calls), stage_begin, now - idle_since)
                if idle_since is not None and now - idle_since >= self.options.node_timeout:
                    raise RuntimeError(
                        f"{self.operation}: {name}: no living node of the cluster could run a task for {now - idle_since:.0f} s: "
                        "add nodes, or wait longer for them with node_timeout="
                    )
                for reference in self.executor.wait(list(under_way), _POLL_S):
                    report: Report = self.executor.get(reference)
                    del under_way[reference]
                    done += 1
                    known, idle_since = time.monotonic(), None
                    self.reports.append(report)
                    self.rows += report.rows if counts else 0
                    self._tell(name, done, len(calls), stage_begin)
        except BaseException:
            self.executor.cancel([results[number] for number in under_way.values()])
            raise
        return results

    def skipped(self) -> list[tuple[str, Optional[int], str]]:
        """What could not be read, once each."""
        return sorted({entry for report in self.reports for entry in report.skipped}, key=lambda entry: (entry[0], entry[1] or 0))
