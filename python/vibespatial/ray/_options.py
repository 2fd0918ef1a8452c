"""What a caller can choose for any operation, and the errors that all of them raise."""

from __future__ import annotations

import os
import re
import threading
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Optional, Union

_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
# What a worker needs beside DuckDB's own memory: Python, Ray, Arrow batches, and what the extension may take beyond memory_limit
_BESIDE = 512 * 2**20


class InputError(RuntimeError):
    """A file, row group or block that cannot be read. `path` and `row_group` say which; a row group of None is the whole file."""

    def __init__(self, path: str, row_group: Optional[int], reason: str) -> None:
        super().__init__(path, row_group, reason)
        self.path = path
        self.row_group = row_group
        self.reason = reason

    def __str__(self) -> str:
        where = self.path if self.row_group is None else f"{self.path}, row group {self.row_group}"
        return f"{where}: {self.reason}; on_error='skip' goes on without it"


class Cancelled(RuntimeError):
    """The operation was cancelled; nothing of it is left running."""


class Cancel:
    """Ends a running operation from another thread: pass it as `cancel=`, then call `cancel()`."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def cancel(self) -> None:
        self._event.set()

    @property
    def requested(self) -> bool:
        return self._event.is_set()


@dataclass(frozen=True)
class Progress:
    """How far an operation is. `eta_s` is None until a task of the stage has ended. `waiting_s` is how long no living node of the cluster
    has been able to run the tasks."""

    operation: str
    stage: str
    tasks_done: int
    tasks: int
    rows: int
    elapsed_s: float
    eta_s: Optional[float]
    waiting_s: float = 0.0

    def __str__(self) -> str:
        eta = "" if self.eta_s is None else f", {self.eta_s:.0f} s left in this stage"
        if self.waiting_s:
            eta = f", waiting {self.waiting_s:.0f} s for a node that can run the tasks"
        return f"{self.operation}: {self.stage}, {self.tasks_done} of {self.tasks} tasks, {self.rows:,} rows, {self.elapsed_s:.1f} s{eta}"


def absolute(path: Union[str, "os.PathLike[str]"]) -> str:
    """A path that means the same in all processes: workers have working directories of their own."""
    text = os.fspath(path)
    return text if "://" in text else os.path.abspath(text)


def parse_bytes(text: Union[int, str]) -> int:
    """``"4GB"`` or a number of bytes."""
    if isinstance(text, int):
        return text
    match = re.fullmatch(r"\s*([0-9.]+)\s*([a-zA-Z]*)\s*", text)
    if not match or match[2].lower() not in _UNITS:
        raise ValueError(f"'{text}' is no amount of memory: write '4GB', '512MiB' or a number of bytes")
    return int(float(match[1]) * _UNITS[match[2].lower()])


@dataclass
class Options:
    """Keywords that every operation takes.

    partitions        how many parts the work is cut into; by default as many as memory and workers ask for
    broadcast         'auto', 'left', 'right' or 'never': which side is sent whole to every node
    broadcast_limit   the largest side that 'auto' broadcasts; by default a quarter of `memory`
    exchange          'auto', 'direct' (every task reads its rows from the files) or 'shuffle' (rows move between workers)
    memory            the memory of one task, such as '4GB', which it reserves in Ray; by default its share of half of a node, without reserving it
    threads           DuckDB threads of one task
    num_gpus          the share of a GPU that a task reserves which joins, searches, dissolves or runs a query, at most 1; 0 keeps all work
                      on the CPU. Tasks that sample, cut and settle rows reserve none
    gpu_memory        the device memory that such a task may use, such as '8GB'; workers that share a GPU need it
    temp_directory    where tasks spill; by default the system's folder for temporary files
    on_error          'raise', or 'skip' to go on without row groups that cannot be read
    progress          True prints to stderr, a function gets a `Progress`
    cancel            a `Cancel`
    output            None or 'table', 'dataset' for a Ray Dataset, or the folder to write GeoParquet into
    overwrite         whether an output folder that holds a finished result may be replaced
    max_retries       how often Ray starts a task again whose worker was lost
    node_timeout      how many seconds tasks may wait while no living node of the cluster can run them
    executor          'ray', 'local' for tasks one after another in this process, or an executor
    sample_rows       how many rows of each side are sampled to place the partitions, at least; 64 for each partition
    """

    partitions: Optional[int] = None
    broadcast: str = "auto"
    broadcast_limit: Union[int, str, None] = None
    exchange: str = "auto"
    memory: Union[int, str, None] = None
    threads: int = 1
    num_gpus: float = 0.0
    gpu_memory: Optional[str] = None
    temp_directory: Optional[str] = None
    on_error: str = "raise"
    progress: Union[bool, Callable[[Progress], None]] = False
    cancel: Optional[Cancel] = None
    output: Optional[str] = None
    overwrite: bool = False
    max_retries: int = 3
    node_timeout: float = 300.0
    executor: Any = "ray"
    sample_rows: int = 20_000

    def __post_init__(self) -> None:
        self._one_of("broadcast", ("auto", "left", "right", "never"))
        self._one_of("exchange", ("auto", "direct", "shuffle"))
        self._one_of("on_error", ("raise", "skip"))
        for name in ("partitions", "threads", "sample_rows"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < 1):
                raise ValueError(f"{name} must be a whole number above 0, not {value!r}")
        if not self.node_timeout >= 0:
            raise ValueError(f"node_timeout must be a number of seconds, not {self.node_timeout!r}")
        if not 0 <= self.num_gpus <= 1:
            raise ValueError(f"num_gpus must be between 0 and 1, as a task uses one GPU, not {self.num_gpus!r}")
        if self.output is not None:
            self.output = os.fspath(self.output)
            if self.output not in ("table", "dataset"):
                self.output = absolute(self.output)
        if self.temp_directory is not None:
            self.temp_directory = absolute(self.temp_directory)
        if self.memory is not None:
            self.memory = parse_bytes(self.memory)
            if self.memory < 1:
                raise ValueError("memory must be above 0")
        if self.broadcast_limit is not None:
            self.broadcast_limit = parse_bytes(self.broadcast_limit)

    @property
    def folder(self) -> Optional[str]:
        """The folder that the rows are written into; None if they are returned."""
        return None if self.output in ("table", "dataset") else self.output

    def _one_of(self, name: str, values: tuple[str, ...]) -> None:
        if getattr(self, name) not in values:
            raise ValueError(f"{name} must be one of {', '.join(values)}, not {getattr(self, name)!r}")


@dataclass(frozen=True)
class Settings:
    """What a task has to know to open its engine. `gpu` is whether it runs on a GPU, and so whether it reserves a share of one."""

    memory: int
    threads: int = 1
    gpu: bool = False
    gpu_memory: Optional[str] = None
    temp_directory: Optional[str] = None
    on_error: str = "raise"

    @property
    def memory_limit(self) -> int:
        """DuckDB's share of the budget of a task."""
        return max(self.memory - _BESIDE, self.memory // 2)

    @property
    def on_cpu(self) -> "Settings":
        """Those of a task that has nothing for a GPU to do."""
        return replace(self, gpu=False, gpu_memory=None)


@dataclass
class Report:
    """What a task says about itself. `node` is Ray's name of the node that it ran on. `peak_memory` is that of its process, without Ray's objects, which all workers of a node share. `device` is
    the GPU that the task was given. `engines` counts decisions: (operation, engine, reason) -> how often."""

    label: str = ""
    rows: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    read: int = 0
    host: str = ""
    node: str = ""
    process: int = 0
    device: str = ""
    peak_memory: int = 0
    engines: dict[tuple[str, str, str], int] = field(default_factory=dict)
    skipped: list[tuple[str, Optional[int], str]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
