"""Many cases in one test: `cases` takes what `pytest.mark.parametrize` takes, and loops inside.

A case of its own id costs milliseconds of pytest for microseconds of ours, so cases that need no
fixture of their own share a test. Every case is tried, and every one that fails is reported.
"""

import functools
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

Cases = list[Mapping[str, object]]


def cases(
    names: str | Sequence[str], values: Iterable[object]
) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """Run a test for each of the values; several of these above a test make a product."""
    fields = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    tried = [_case(fields, value) for value in values]
    assert tried, "a test without cases proves nothing"

    def wrap(test: Callable[..., object]) -> Callable[..., object]:
        if inspect.iscoroutinefunction(test):
            looped = _awaiting(test, tried)
        else:
            looped = _calling(test, tried)
        return _without(fields, test, looped)

    return wrap


def _case(fields: Sequence[str], value: object) -> Mapping[str, object]:
    if len(fields) == 1:
        return {fields[0]: value}
    assert isinstance(value, Sequence)
    return dict(zip(fields, value, strict=True))


def _calling(test: Callable[..., object], tried: Cases) -> Callable[..., object]:
    @functools.wraps(test)
    def looped(**given: object) -> None:
        failed: list[Exception] = []
        for case in tried:
            try:
                test(**given, **case)
            except Exception as fault:  # noqa: BLE001
                failed.append(_told(fault, case))
        _report(failed, tried)

    return looped


def _awaiting(
    test: Callable[..., Awaitable[object]], tried: Cases
) -> Callable[..., Awaitable[object]]:
    @functools.wraps(test)
    async def looped(**given: object) -> None:
        failed: list[Exception] = []
        for case in tried:
            try:
                await test(**given, **case)
            except Exception as fault:  # noqa: BLE001
                failed.append(_told(fault, case))
        _report(failed, tried)

    return looped


def _told(fault: Exception, case: Mapping[str, object]) -> Exception:
    fault.add_note("with " + ", ".join(f"{name} = {value!r}" for name, value in case.items()))
    return fault


def _report(failed: Sequence[Exception], tried: Cases) -> None:
    if failed:
        raise ExceptionGroup(f"{len(failed)} of {len(tried)} cases failed", failed)


def _without(
    fields: Sequence[str], test: Callable[..., object], looped: Callable[..., object]
) -> Callable[..., object]:
    """Hide arguments that are given here from pytest, which takes the rest for fixtures."""
    known = inspect.signature(test)
    kept = [each for name, each in known.parameters.items() if name not in fields]
    looped.__signature__ = known.replace(parameters=kept)  # type: ignore[attr-defined]
    del looped.__wrapped__  # type: ignore[attr-defined]
    return looped
