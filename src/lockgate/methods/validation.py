"""What a method of one's own misses: every problem at once, before anything is trained."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from typing import Any

from lockgate.config import gather
from lockgate.methods.base import Method
from lockgate.methods.network import MultiHeadNetwork
from lockgate.training.phase import TrainableModule


def method_problems(found: object) -> list[str]:
    """What keeps an object from being a method: its class, its options, the parameters of its hooks."""
    if not isinstance(found, type):
        what = f"the function {found.__name__}" if inspect.isfunction(found) else f"a {type(found).__name__}"
        return [f"is {what}. Wanted a class that inherits from lockgate.methods.base.Method."]
    if not issubclass(found, Method):
        hooks = [name for name in ("begin_task", "loss", "end_task", "predict") if not hasattr(found, name)]
        missing = f"; it has no {', '.join(hooks)}" if hooks else ""
        return [
            f"is the class {found.__name__}, which does not inherit from lockgate.methods.base.Method{missing}. "
            "Write `class ...(Method)` and override the hooks it needs."
        ]
    return [*option_problems(found.Options), *_hook_problems(found)]


def option_problems(options: Any) -> list[str]:
    """What is wrong with a method's ``Options``: a dataclass, each field ``lockgate.config.option(default, help)``."""
    if not isinstance(options, type) or not dataclasses.is_dataclass(options):
        got = options.__name__ if isinstance(options, type) else repr(options)
        return [f"must have a dataclass as its Options. Got {got} instead: put @dataclass(frozen=True) above it."]
    try:
        hints = typing.get_type_hints(options)
    except (NameError, TypeError) as error:
        return [f"has Options whose types cannot be read: {error}. Import them in the module that defines Options."]
    fields = dataclasses.fields(options)
    groups = [
        problem for f in fields if dataclasses.is_dataclass(hints[f.name]) for problem in option_problems(hints[f.name])
    ]
    plain = [f for f in fields if not dataclasses.is_dataclass(hints[f.name])]
    wrong = [f.name for f in plain if not {"help", "bounds"} <= set(f.metadata)]
    if wrong:
        names = ", ".join(map(repr, wrong))
        return [f"has Options whose {names} must be lockgate.config.option(default, help): a flag is made of it."]
    problems: list[str] = []
    gather(options, {f.name: f.default for f in plain}, "options.", problems)
    return groups + [f"has Options with a default out of its own type or bounds: {problem}" for problem in problems]


def _hook_problems(method: type[Method]) -> list[str]:
    """Hooks that are overridden with other parameters, or as another kind of thing, than the engine calls."""
    problems = []
    for name, attribute in {**vars(TrainableModule), **vars(MultiHeadNetwork), **vars(Method)}.items():
        mine = inspect.getattr_static(method, name)
        if (name.startswith("_") and name != "__init__") or mine is attribute:
            continue
        kinds = (property, classmethod)
        wanted = next((kind for kind in kinds if isinstance(attribute, kind)), None)
        if wanted is not next((kind for kind in kinds if isinstance(mine, kind)), None):
            decorated = f"must be a {wanted.__name__}" if wanted else "must be a plain function"
            problems.append(f"has {name!r}, which {decorated}, as in Method.")
        elif inspect.isfunction(attribute) or wanted is classmethod:
            problems += _parameter_problems(name, getattr(Method, name), getattr(method, name))
        elif isinstance(attribute, bool) and not isinstance(mine, bool):
            problems.append(f"has {name!r}, which must be True or False. Got {mine!r} instead.")
    return problems


def _parameter_problems(name: str, wanted: Any, mine: Any) -> list[str]:
    """Whether ``mine`` can be called as ``wanted`` is."""
    if not callable(mine):
        return [f"has {name!r}, which must be a function. Got {type(mine).__name__} instead."]
    parameters = inspect.signature(wanted).parameters.values()
    needed = [p for p in parameters if p.default is inspect.Parameter.empty]
    try:
        inspect.signature(mine).bind(*needed)
        inspect.signature(mine).bind(*parameters)
    except TypeError:
        return [f"has {name}{_bare(mine)}, which must take {_bare(wanted)}."]
    return []


def _bare(function: Any) -> str:
    return f"({', '.join(map(str, _without_types(inspect.signature(function))))})"


def _without_types(signature: inspect.Signature) -> list[inspect.Parameter]:
    return [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
