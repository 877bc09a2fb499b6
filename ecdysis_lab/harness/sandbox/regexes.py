"""Regular expressions of a harness, compiled by its first worker and handed to those that follow.

Compiling them is most of what loading a harness costs. What a worker reports is untrusted: it goes only to workers of
the same harness, and ``_sre.compile`` validates the code it is given. Standard library only, as the worker is.
"""

from __future__ import annotations

import _sre
import contextlib
import re
from collections.abc import Iterator
from typing import Any


class _Recorder:
    """``_sre`` as ``re`` sees it while a harness loads; keeps what the last pattern was built from."""

    built: tuple[Any, ...] = ()

    def __getattr__(self, name: str) -> Any:
        return getattr(_sre, name)

    def compile(self, *parts: Any) -> Any:
        self.built = parts
        return _sre.compile(*parts)


@contextlib.contextmanager
def reused(known: list[list[Any]]) -> Iterator[list[list[Any]]]:
    """While a harness loads: patterns in ``known`` are not compiled again; yields those that had to be.

    An entry is ``[pattern, flags asked for, flags, code, groups, group index, index group]``, plain data.
    """
    compiler: Any = re._compiler  # type: ignore[attr-defined]
    real, recorder, made = compiler.compile, _Recorder(), []
    ready = {(entry[0], entry[1]): entry[2:] for entry in known}

    def compile_once(pattern: Any, flags: int = 0) -> Any:
        parts = ready.get((pattern, flags)) if isinstance(pattern, str) else None
        if parts is not None:
            return _sre.compile(pattern, *parts[:-1], tuple(parts[-1]))
        found = real(pattern, flags)
        if isinstance(pattern, str):
            _, combined, code, groups, index, names = recorder.built
            made.append([pattern, int(flags), int(combined), code, groups, dict(index), list(names)])
        return found

    compiler.compile, compiler._sre = compile_once, recorder
    try:
        yield made
    finally:
        compiler.compile, compiler._sre = real, _sre
