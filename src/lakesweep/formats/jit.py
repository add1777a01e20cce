"""The one place that names numba: a typed decorator for functions compiled to machine code.

numba keeps compiled code on disk and compiles anew only when the file of *that* function changed, not when a function it
calls did. A repaired bounds check would then live on in its callers' old code. So the cache folder carries a digest of
all sources with such functions here: one changed byte and everything is compiled again.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from llvmlite import binding, ir  # type: ignore[import-untyped]  # ships no types
from numba.core import types
from numba.extending import intrinsic

from lakesweep.cachefolder import cache_folder
from lakesweep.errors import ConfigError

__all__ = ["HAS_SSE42", "crc32c_step", "jitted", "jitted_with_lock"]

# numba makes the attributes of this module while it is imported, so type checkers do not see them.
_settings: Any = numba.config
_F = TypeVar("_F", bound=Callable[..., object])
# `_nrt` turns reference counting off; numba's type stubs do not list it. Calls between these functions are all inlined.
_OPTIONS: dict[str, Any] = {"cache": True, "_nrt": False, "forceinline": True}


# Whether compiled code may use the processor's own CRC-32C: not if numba was told to compile for another processor.
HAS_SSE42 = bool(
    not _settings.DISABLE_JIT
    and _settings.CPU_NAME is None
    and _settings.CPU_FEATURES is None
    and binding.get_process_triple().startswith("x86_64")
    and binding.get_host_cpu_features().get("sse4.2", False)
)


def jitted(function: _F) -> _F:
    """Compile `function` on its first call, without holding Python's lock while it runs.

    Compiled code checks no index by itself: whoever writes such a function checks every bound before using it. It also
    makes no arrays, it is handed them: counting references to arrays would cost more than all the reading.
    """
    return _compiled(function, without_lock=True)


def jitted_with_lock(function: _F) -> _F:
    """Compile `function` as `jitted` does, but keep Python's lock while it runs.

    For functions that take a few microseconds. Where many threads read files, one that gives the lock up waits for it
    longer than that.
    """
    return _compiled(function, without_lock=False)


def _compiled(function: _F, *, without_lock: bool) -> _F:
    folder_before = _settings.CACHE_DIR
    _settings.CACHE_DIR = str(_cache_folder())
    try:
        return cast(_F, numba.njit(nogil=without_lock, **_OPTIONS)(function))
    except RuntimeError as error:
        raise ConfigError(
            f"Compiled code can't be kept in {_cache_folder()}: {error}. Nothing was touched. Set LAKESWEEP_CACHE to a "
            "folder that can be written.",
            kind="no-cache-folder",
        ) from error
    finally:
        _settings.CACHE_DIR = folder_before


@functools.cache
def _cache_folder() -> Path:
    named = os.environ.get("NUMBA_CACHE_DIR")
    beside = Path(__file__).parent / "__pycache__"
    if named:
        parent = Path(named)
    elif os.access(beside if beside.exists() else beside.parent, os.W_OK):
        parent = beside
    else:
        parent = cache_folder()
    # Code compiled with numba's own bounds checks must not be taken for code without, nor the other way round.
    manner = f"-opt{int(_settings.OPT)}" + ("-checked" if _settings.BOUNDSCHECK else "")
    return parent / f"jit-{_digest_of_sources()}{manner}"


def _digest_of_sources() -> str:
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parent.rglob("*.py")):
        text = source.read_bytes()
        if b"@jitted" in text:
            digest.update(text)
    return digest.hexdigest()[:16]


@intrinsic
def crc32c_step(typing_context: Any, crc: Any, word: Any) -> Any:
    """For compiled code on processors with SSE 4.2: a CRC-32C (not inverted, not masked) advanced by eight bytes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word_type = ir.IntType(64)
        step = builder.module.declare_intrinsic(
            "llvm.x86.sse42.crc32.64.64", fnty=ir.FunctionType(word_type, [word_type, word_type])
        )
        return builder.call(step, arguments)

    return types.uint64(types.uint64, types.uint64), generate
