"""Machine code of compiled functions: where it is kept on disk, and what is said of compiling.

It is kept in a folder of the user's cache that is named by a hash of all compiled sources. Whoever
changes a function, or a constant it reads, gets another folder: code is never run that was compiled
from older sources, and compiled functions may call those of other files. Losing what is kept costs
time, never an answer: whatever cannot be read is compiled anew, what cannot be written is not kept.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import logging
import math
import os
import pickle
import shutil
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

import llvmlite
import numba
import numpy as np
from numba.core import config, event, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompileResult
from numba.core.environment import lookup_environment
from numba.core.serialize import dumps
from numba.extending import overload
from numba.misc.appdirs import user_cache_dir

from chronicle.compile_time import compiling
from chronicle.private_folder import check_private, make_private

LOG = logging.getLogger(__name__)
"""INFO: compiling begins. DEBUG: a function is compiled, by name in `STEP` of the record. WARNING:
nothing can be kept."""

STEP: Final = "step"
"""Attribute of each DEBUG record: the name of a function, None once all it calls is compiled."""

UNUSED_S: Final = 30 * 86_400
"""A folder not used for so long is deleted when another is made."""

_ROOT: Final = Path(__file__).parent.parent
_ROOMS: Final = ("costmodel", "indexing", "replay")
_FOLDERS: Final = "compiled-"
_DIGEST_BYTES: Final = 32
_DAY_S: Final = 86_400


def dispatcher(
    python: Callable[..., Any], options: dict[str, Any], signatures: list[Any]
) -> Callable[..., Any]:
    """Return what compiles a function for the types of its arguments, keeping it on disk.

    Parameters
    ----------
    python
        A function of a ``*kernels.py``.
    options
        Of Numba's ``njit``.
    signatures
        Types to compile it for at once; if there are any, it is compiled for no others.
    """
    if config.DISABLE_JIT:
        return python
    _listen()
    is_part = "no_cpython_wrapper" in options
    pipeline = _PartCompiler if is_part else _WholeCompiler
    made = numba.njit(**options, no_cfunc_wrapper=True, pipeline_class=pipeline)(python)
    if is_part:
        made.get_call_template = functools.partial(_call_template, made)
    folder = None if is_part else code_folder()
    if folder is not None:
        made._cache = _KeptCode(python, folder)
    for signature in signatures:
        made.compile(signature)
    if signatures:
        made.disable_compile()
    return made  # type: ignore[no-any-return]


def _call_template(made: Any, arguments: Iterable[Any], named: dict[str, Any]) -> Any:
    """Return how a function is called by a compiled one: not compiled twice for like arguments.

    Numba would compile it for the constant 0, then for a short integer and then for a long one.
    """
    widened = [_widened(argument) for argument in arguments]
    return type(made).get_call_template(made, widened, named)


def _widened(argument: Any) -> Any:
    """Return the type that an argument is handed on as."""
    plain = types.unliteral(argument)  # type: ignore[attr-defined]
    is_short = isinstance(plain, types.Integer) and plain.bitwidth < 64  # type: ignore[attr-defined]
    return types.int64 if is_short else plain


class _Part(JITCodeLibrary):  # type: ignore[misc]
    """What a function is translated to that only compiled functions call.

    It is optimised and made into machine code with those, in `_Whole`. Numba's own would do so for
    it alone, to run it from Python, and again in each function on the way to the one that is run.
    """

    def add_llvm_module(self, module: Any) -> None:
        """Take in what the function is translated to."""
        module.data_layout = self._codegen._data_layout
        self._final_module.link_in(module)

    def finalize(self) -> None:
        """Take in no more."""
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:  # noqa: ARG002 - Numba names it
        """Return no address: Python never calls it."""
        return 0

    @property
    def codegen(self) -> Any:
        """Return itself, so that `set_env` is called here."""
        return self

    def set_env(self, name: str, environment: Any) -> None:
        """Leave it to `_Whole`, where the variable of that name is."""


class _Whole(JITCodeLibrary):  # type: ignore[misc]
    """Machine code of a function that Python calls, with all that it calls."""

    def finalize(self) -> None:
        """Link all parts once, and make machine code of them."""
        found: dict[Any, None] = {}
        waiting: list[Any] = self._linking_libraries[::-1]  # type: ignore[has-type]
        while waiting:
            library = waiting.pop()
            if library not in found:
                found[library] = None
                if isinstance(library, _Part):
                    waiting += library._linking_libraries
        self._linking_libraries = list(found)
        super().finalize()

    def _finalize_specific(self) -> None:
        super()._finalize_specific()
        for variable in self._final_module.global_variables:
            environment = lookup_environment(variable.name)
            if environment is not None:
                self._codegen.set_env(variable.name, environment)


class _WholeCompiler(Compiler):  # type: ignore[misc]
    _LIBRARY: type[JITCodeLibrary] = _Whole

    def __init__(self, typing: Any, target: Any, library: Any, *rest: Any) -> None:
        library = self._LIBRARY(target.codegen(), "chronicle")
        library.enable_object_caching()
        super().__init__(typing, target, library, *rest)


class _PartCompiler(_WholeCompiler):
    _LIBRARY = _Part


@overload(math.cbrt)
def _cube_root(value):  # type: ignore[no-untyped-def]  # noqa: ARG001 - Numba looks at its name
    """Compile the C library's, which Numba knows by NumPy's name alone; NumPy's own is another."""
    return lambda value: np.cbrt(value)  # noqa: PLW0108 - Numba compiles Python alone


def type_of(inner: Any) -> Any:
    """Return Numba's type of a dispatcher that compiled code calls."""
    return numba.typeof(inner)


def sources(root: Path = _ROOT) -> list[Path]:
    """Return the files whose functions are compiled, and this one, which says how."""
    found = [Path(__file__)]
    for room in _ROOMS:
        for folder, below, files in os.walk(root / room):
            below[:] = [name for name in below if not name.startswith(("_", "."))]
            found += [Path(folder, name) for name in files if name.endswith("kernels.py")]
    return sorted(found)


def fingerprint(root: Path = _ROOT) -> str:
    """Return the hash of all compiled sources and of what compiles them."""
    digest = hashlib.sha256(f"{sys.version} {numba.__version__} {llvmlite.__version__}".encode())
    for path in sources(root):
        text = path.read_bytes()
        digest.update(f"\n{os.path.relpath(path, root)} {len(text)}\n".encode())
        digest.update(text)
    return digest.hexdigest()[:32]


@functools.cache
def code_folder() -> Path | None:
    """Return the folder of this process' machine code, made if need be; None if there is none."""
    try:
        name = _FOLDERS + fingerprint()
    except OSError as error:  # the sources are not files: an archive, or they cannot be read
        LOG.warning("compiled code is not kept, and made anew each time: %s", error)
        return None
    why = []
    for n, parent in enumerate(_parents()):
        try:
            folder = _private(parent / name)
        except OSError as error:
            why.append(f"'{parent}': {error.strerror or error}")
            continue
        if n > 0:
            LOG.warning("compiled code is kept in '%s' only (%s)", parent, "; ".join(why))
        return folder
    LOG.warning(
        "compiled code is not kept, and made anew each time, which takes some seconds (%s); %s",
        "; ".join(why),
        "let NUMBA_CACHE_DIR name another folder, one of your own that can be written to"
        if config.CACHE_DIR
        else "set NUMBA_CACHE_DIR to a folder of your own that can be written to",
    )
    return None


def _parents() -> Iterator[Path]:
    """Yield where the folder may be, the best place first."""
    if config.CACHE_DIR:
        yield Path(config.CACHE_DIR) / "chronicle"
        return
    yield Path(user_cache_dir("chronicle", appauthor=False))
    owner = os.getuid() if hasattr(os, "getuid") else "user"
    yield Path(tempfile.gettempdir()) / f"chronicle-{owner}"


def _private(folder: Path) -> Path:
    """Make a folder of machine code, and its parent, that nobody else can write to.

    Raises
    ------
    OSError
        If there is none and it cannot be made, or others could write to it.
    """
    is_new = not folder.is_dir()
    make_private(folder.parent)
    make_private(folder)
    if is_new:
        _forget(path for path in folder.parent.glob(f"{_FOLDERS}*") if path != folder)
    if time.time() - folder.stat().st_mtime > _DAY_S:
        os.utime(folder)
    return folder


def _forget(folders: Iterable[Path]) -> None:
    """Delete those of the folders that no process has used for long."""
    for folder in folders:
        try:
            if time.time() - folder.stat().st_mtime > UNUSED_S:
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue  # somebody else has


class _KeptCode:
    """The machine code of one function on disk, a file for each signature.

    A file holds the SHA-256 of what follows it, which is run as it is. Methods are those that a
    dispatcher of Numba's calls.
    """

    def __init__(self, python: Callable[..., Any], folder: Path) -> None:
        self._name = f"{python.__module__}.{python.__name__}"
        self._folder = folder

    @property
    def cache_path(self) -> str:
        """Folder of the files."""
        return str(self._folder)

    def _path(self, signature: object, codegen: Any) -> Path:
        """Return the file of a signature on this processor."""
        key = f"{signature} {codegen.magic_tuple()}"
        return self._folder / f"{self._name}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"

    def load_overload(self, sig: object, target_context: Any) -> Any:
        """Return what was compiled for a signature; None if it is to be compiled."""
        target_context.refresh()
        path = self._path(sig, target_context.codegen())
        with compiling():
            try:
                check_private(path)
                data = path.read_bytes()
            except OSError:
                return None
            digest, code = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
            if hashlib.sha256(code).digest() != digest:
                return None  # cut short or damaged: it is written anew
            try:
                parts = pickle.loads(code)  # noqa: S301 - ours
            except (AttributeError, ImportError):
                return None  # names a class that stands elsewhere by now
            return CompileResult._rebuild(target_context, *parts)

    def save_overload(self, sig: object, data: Any) -> None:
        """Keep what was compiled for a signature, if there is room."""
        if data.library.has_dynamic_globals:
            return
        path = self._path(sig, data.codegen)
        code = dumps(data._reduce())
        unfinished = path.with_name(f"{path.name}.{uuid.uuid4().hex[:16]}")
        try:
            unfinished.write_bytes(hashlib.sha256(code).digest() + code)
            unfinished.replace(path)
        except OSError as error:
            _say_not_kept(str(self._folder), error.strerror or str(error))
            with suppress(OSError):
                unfinished.unlink()


@functools.cache
def _say_not_kept(folder: str, why: str) -> None:
    LOG.warning("compiled code could not be kept in '%s' (%s)", folder, why)


class _Listener(event.Listener):  # type: ignore[misc]
    """Tells what is compiled, and lets nothing else slow it down."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._depth = 0
        self._collects = False

    def on_start(self, event: Any) -> None:
        """Say it; Numba compiles one function at a time, and within it those it calls."""
        function = event.data["dispatcher"].py_func
        is_ours = function.__module__.partition(".")[0] in _ROOMS
        if self._depth == 0 and not is_ours:
            return
        if self._depth == 0:
            _say_once()
            self._open.enter_context(compiling())
            # Millions of objects are made, hardly any garbage: looking for it takes a tenth.
            self._collects = gc.isenabled()
            gc.disable()
        self._depth += 1
        if is_ours:
            LOG.debug("compiling %s", function.__name__, extra={STEP: function.__name__})

    def on_end(self, event: Any) -> None:  # noqa: ARG002 - Numba names it
        """Go on as before."""
        if self._depth == 0:
            return
        self._depth -= 1
        if self._depth == 0:
            if self._collects:
                gc.enable()
            self._open.close()
            LOG.debug("compiled", extra={STEP: None})


@functools.cache
def _listen() -> None:
    event.register("numba:compile", _Listener())


@functools.cache
def _say_once() -> None:
    if code_folder() is not None:  # else that was said
        LOG.info(
            "compiling what this query needs; it takes some seconds, once for each version of "
            "Chronicle"
        )
