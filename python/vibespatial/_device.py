"""Results on the GPU as Arrow arrays, for those who go on in cuDF, CuPy and the like.

The extension has a C interface (src/engine/device_arrays/c_interface.hpp) that is called through ctypes: no compiled module, and no pyarrow.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any, Optional

import duckdb

from ._scope import call_in

_VERSION = 1


class _Schema(ctypes.Structure):
    pass


_Schema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_void_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(_Schema))),
    ("dictionary", ctypes.POINTER(_Schema)),
    ("release", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
    ("private_data", ctypes.c_void_p),
]


class _Array(ctypes.Structure):
    pass


_Array._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(_Array))),
    ("dictionary", ctypes.POINTER(_Array)),
    ("release", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
    ("private_data", ctypes.c_void_p),
]


class _DeviceArray(ctypes.Structure):
    _fields_ = [
        ("array", _Array),
        ("device_id", ctypes.c_int64),
        ("device_type", ctypes.c_int32),
        ("sync_event", ctypes.c_void_p),
        ("reserved", ctypes.c_int64 * 3),
    ]


class _Stream(ctypes.Structure):
    _fields_ = [
        ("get_schema", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)),
        ("get_next", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)),
        ("get_last_error", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)),
        ("release", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
        ("private_data", ctypes.c_void_p),
    ]


class _Failure(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int32), ("text", ctypes.c_char * 1020)]

    #: By kind
    ERRORS = (RuntimeError, ValueError, RuntimeError, MemoryError)

    def error(self) -> Exception:
        return self.ERRORS[self.kind](self.text.decode(errors="replace"))


_AT = ctypes.c_void_p


class _Interface(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_int64),
        ("array_capsule", _AT),
        ("schema_capsule", _AT),
        ("begin", ctypes.CFUNCTYPE(_AT, _AT, ctypes.c_bool, _AT)),
        ("add", ctypes.CFUNCTYPE(ctypes.c_bool, _AT, _AT, _AT)),
        ("send", ctypes.CFUNCTYPE(_AT, _AT, _AT)),
        ("drop_rows", ctypes.CFUNCTYPE(None, _AT)),
        ("export_array", ctypes.CFUNCTYPE(_AT, _AT, _AT)),
        ("export_schema", ctypes.CFUNCTYPE(_AT, _AT, _AT)),
        ("drop_result", ctypes.CFUNCTYPE(None, _AT)),
        ("drop_array", ctypes.CFUNCTYPE(None, _AT)),
        ("drop_schema", ctypes.CFUNCTYPE(None, _AT)),
    ]

    def call(self, name: str, *arguments: Any) -> Any:
        """Calls a function that can fail."""
        failure = _Failure()
        result = getattr(self, name)(*arguments, ctypes.addressof(failure))
        if failure.kind:
            raise failure.error()
        return result


# Prototypes of our own: those of ctypes.pythonapi belong to all
_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, _AT, _AT, _AT)(("PyCapsule_New", ctypes.pythonapi))
_pointer_of = ctypes.PYFUNCTYPE(_AT, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
# For a capsule that is being destroyed: no reference to it may be taken
_dying_pointer_of = ctypes.PYFUNCTYPE(_AT, _AT, _AT)(("PyCapsule_GetPointer", ctypes.pythonapi))


class _Capsules:
    """Makes capsules of one kind, which release what nobody has taken out of them."""

    def __init__(self, name: int, drop: Any) -> None:
        def destroy(capsule: int, pointer_of: Any = _dying_pointer_of) -> None:
            drop(pointer_of(capsule, name))

        self.name = name
        self.destroy = ctypes.PYFUNCTYPE(None, _AT)(destroy)
        # A capsule may be the last thing that the interpreter destroys: this is never freed
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.destroy))

    def new(self, pointer: int) -> Any:
        return _new_capsule(pointer, self.name, ctypes.cast(self.destroy, _AT))


class _Library:
    """The interface of the extension in this process, and the capsules for what it gives."""

    opened: dict[int, "_Library"] = {}

    def __init__(self, address: int) -> None:
        self.functions = _Interface.from_address(address)
        if self.functions.version != _VERSION:
            raise RuntimeError("the extension and the Python package are of different versions: install both from the same wheel")
        self.arrays = _Capsules(self.functions.array_capsule, self.functions.drop_array)
        self.schemas = _Capsules(self.functions.schema_capsule, self.functions.drop_schema)

    @classmethod
    def of(cls, con: duckdb.DuckDBPyConnection) -> "_Library":
        """Raises RuntimeError where there is no GPU."""
        # By its full name: a macro of a database could have the short one
        address, reason = con.sql("SELECT address, reason FROM system.main.vibe_device_interface()").fetchall()[0]
        if address is None:
            raise RuntimeError(f"there is no GPU to put the rows on: {reason}. FROM vibe_gpu_info() shows all that was looked for")
        if address not in cls.opened:
            cls.opened[address] = cls(address)
        return cls.opened[address]


def _same_types(given: _Schema, own: _Schema) -> bool:
    return (
        given.format == own.format
        and given.n_children == own.n_children
        and all(_same_types(given.children[i][0], own.children[i][0]) for i in range(own.n_children))
    )


#: Arrow formats of numbers, as NumPy names their types
_NUMBERS = {
    "c": "|i1", "C": "|u1", "s": "<i2", "S": "<u2", "i": "<i4", "I": "<u4", "l": "<i8", "L": "<u8", "e": "<f2", "f": "<f4", "g": "<f8",
    "tdD": "<i4", "tdm": "<i8", "tts": "<i4", "ttm": "<i4", "ttu": "<i8", "ttn": "<i8", "tDs": "<i8", "tDm": "<i8", "tDu": "<i8", "tDn": "<i8",
}  # fmt: skip


class DeviceBuffer:
    """Numbers in the memory of a GPU (`DeviceArray.buffer` gives it): what CuPy, Numba and PyTorch take without a copy.

    It keeps the memory, and so does what they make of it. Who writes to it changes it for all that have the array.
    """

    def __init__(self, owner: Any, address: int, count: int, typestr: str, on_device: bool) -> None:
        self._owner = owner
        self.address = address
        self.shape = (count,)
        self.typestr = typestr
        self._on_device = on_device

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if not self._on_device:
            raise AttributeError("this memory is not that of a GPU")
        # The copy to the GPU is complete: there is no stream to wait for. Memory that is marked as read-only PyTorch would not take.
        return {"shape": self.shape, "typestr": self.typestr, "data": (self.address, False), "strides": None, "stream": None, "version": 3}


class DeviceArray:
    """Rows of a query in the memory of a GPU: a struct array with a field for each column (`to_device` makes it).

    Consumers take it through ``__arrow_c_device_array__``, as often as they like, without a copy. The memory stays until this object and all
    that was made of it are gone, whether or not the connection is still open. The copy to the GPU is complete: there is no event to wait for.
    """

    def __init__(self, library: _Library, result: int) -> None:
        self._library = library
        self._result = result
        self._drop = library.functions.drop_result
        array = _DeviceArray.from_address(library.functions.call("export_array", result))
        #: As the Arrow C device interface numbers them: 2 is CUDA, 13 CUDA managed memory
        self.device_type: int = array.device_type
        self.device_id: int = array.device_id
        self._rows: int = array.array.length
        library.functions.drop_array(ctypes.addressof(array))

    def __del__(self) -> None:
        result, self._result = getattr(self, "_result", None), None
        if result:
            self._drop(result)

    def __len__(self) -> int:
        return self._rows

    def __arrow_c_schema__(self) -> Any:
        return self._library.schemas.new(self._library.functions.call("export_schema", self._result))

    def __arrow_c_device_array__(self, requested_schema: Any = None, **kwargs: Any) -> tuple[Any, Any]:
        unknown = [name for name, value in kwargs.items() if value is not None]
        if unknown:
            raise NotImplementedError(f"{', '.join(unknown)}: not supported")
        schema = self.__arrow_c_schema__()
        if requested_schema is not None:
            given = _Schema.from_address(_pointer_of(requested_schema, b"arrow_schema"))
            if not _same_types(given, _Schema.from_address(_pointer_of(schema, b"arrow_schema"))):
                raise NotImplementedError("the rows are on the GPU and are not cast there: cast them in the query")
        return schema, self._library.arrays.new(self._library.functions.call("export_array", self._result))

    def buffer(self, *path: str, kind: str = "values") -> DeviceBuffer:
        """One buffer of a column: ``buffer("geom", "x")`` of points, ``buffer("geom", "vertices", "x")`` of lines, by the names of the fields.

        `kind` is ``values`` for numbers, ``offsets`` for lists, text and bytes, ``validity`` for the bits of rows that are not NULL. Raises
        KeyError where there is no such field, ValueError where it has no such buffer.
        """
        schema_capsule, owner = self.__arrow_c_device_array__()
        schema = _Schema.from_address(_pointer_of(schema_capsule, b"arrow_schema"))
        taken = _DeviceArray.from_address(_pointer_of(owner, b"arrow_device_array"))
        data = taken.array
        for name in path:
            names = [schema.children[i][0].name.decode() for i in range(schema.n_children)]
            if name not in names:
                raise KeyError(f"{name!r}: the fields are {', '.join(map(repr, names)) or 'none'}")
            schema, data = schema.children[names.index(name)][0], data.children[names.index(name)][0]
        form = schema.format.decode()
        typestr, number, count = None, 1, data.length
        if kind == "validity":
            typestr, number, count = "|u1", 0, (data.length + 7) // 8
        elif kind == "offsets" and form in ("+l", "+m", "u", "z", "+L", "U", "Z"):
            typestr, count = "<i8" if form in ("+L", "U", "Z") else "<i4", data.length + 1
        elif kind == "values":
            typestr = "<i8" if form.startswith("ts") else _NUMBERS.get(form)
        address = data.buffers[number] if typestr and number < data.n_buffers else None
        if typestr is None or address is None:
            what = "no row of it is NULL" if kind == "validity" else f"its Arrow format is {form}"
            raise ValueError(f"{' / '.join(path)} has no {kind}: {what}")
        return DeviceBuffer(owner, address, count, typestr, self.device_type in (2, 13))

    def __repr__(self) -> str:
        return f"<vibespatial.DeviceArray of {self._rows} rows on device {self.device_id} of type {self.device_type}>"


def _check(stream: _Stream, status: int) -> None:
    if status:
        text = stream.get_last_error(ctypes.addressof(stream))
        raise duckdb.Error(text.decode(errors="replace") if text else f"the rows could not be read: error {status}")


def _send(library: _Library, capsule: Any, native: bool) -> int:
    """All rows of a stream on the device"""
    functions = library.functions
    stream = _Stream.from_address(_pointer_of(capsule, b"arrow_array_stream"))
    schema, batch = _Schema(), _Array()
    _check(stream, stream.get_schema(ctypes.addressof(stream), ctypes.addressof(schema)))
    try:
        rows = functions.call("begin", ctypes.addressof(schema), native)
    finally:
        schema.release(ctypes.addressof(schema))
    try:
        while True:
            _check(stream, stream.get_next(ctypes.addressof(stream), ctypes.addressof(batch)))
            if not batch.release:
                break
            functions.call("add", rows, ctypes.addressof(batch))
        return int(functions.call("send", rows))
    finally:
        if batch.release:
            batch.release(ctypes.addressof(batch))
        functions.drop_rows(rows)


def to_device(source: Any, con: duckdb.DuckDBPyConnection, *, encoding: str = "native", params: Any = None) -> DeviceArray:
    """The rows of a query, a relation or Arrow data in the memory of the GPU, for cuDF, CuPy and others that take Arrow device arrays.

    Every GEOMETRY column becomes native GeoArrow with its CRS: `geoarrow.point`, .. `geoarrow.multipolygon`, with separate coordinates. The
    geometries of a column have to be of one kind (`POLYGON` beside `MULTIPOLYGON` is fine) and of the same dimensions. A column without any
    geometry stays `geoarrow.wkb`; ``vibe_geoarrow(geom, 'point')`` in the query names the kind. `encoding="wkb"` leaves all of them WKB.
    `params` are the values of a query's parameters. `con` is a connection that has the extension loaded.

    Raises ValueError for columns that have no such form, MemoryError if the GPU has too little memory, RuntimeError if there is none.
    """
    if encoding not in ("native", "wkb"):
        raise ValueError(f"encoding is 'native' or 'wkb', not {encoding!r}; vibe_geoarrow in the query gives a column another one")
    if isinstance(source, duckdb.DuckDBPyConnection):
        # What it executed last, which it loses to the next query; a connection of its own says whether there is a GPU
        with con.cursor() as cursor:
            library = _Library.of(cursor)
        return DeviceArray(library, _send(library, source.to_arrow_reader().__arrow_c_stream__(), encoding == "native"))
    library = _Library.of(con)
    if isinstance(source, str):
        source = call_in(sys._getframe(1), con.sql, source, **({} if params is None else {"params": params}))
        if source is None:
            raise ValueError("the statement returns no rows: a query is needed")
    elif params is not None:
        raise ValueError("params go with a query, not with a relation")
    if not hasattr(source, "__arrow_c_stream__"):
        raise TypeError(f"a relation, a query or Arrow data is needed, not {type(source).__name__}")
    return DeviceArray(library, _send(library, source.__arrow_c_stream__(), encoding == "native"))
