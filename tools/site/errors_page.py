"""Generates the page on errors from the code, listing each class with its messages.

    python -m tools.site.errors_page

prints the page as Markdown. The page covers every call that creates an error, no matter whether the
error is raised there or returned. If a function receives a message as a parameter, the messages are
taken from the calls of that function.
"""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from benchmarks.measure import markdown_table
from tools.site.pyodide import ROOT

_INTRODUCTION = """\
# Errors

This page lists the errors that you may encounter, by class, with every message. `{name}` stands for
a value. Commands print the message after `labkit: `, the broker sends it to its client, and Python
code receives an exception of the class. In Python, `LabkitError` catches all of them except
`MissingPart` and most errors of the course. The rules that every exercise checks are at the end.
"""

_SECTIONS = {
    "MissingPart": "Something is missing on this machine",
    "BKException": "The ledger client",
    "BookieException": "A bookie and its files",
    "MetadataError": "ZooKeeper and the metadata",
    "BrokerError": "The broker, as its clients see it",
    "LabkitError": "Other errors of labkit",
}
"""A class, and the section of its subclasses."""
_COURSE_SECTION = "The course and the grader"

COURSE = (
    *("StandbyError", "StepError", "ListChangedError", "NotOpenError", "SupersededError"),
    *("HandoutError", "SubmissionsError", "ParameterError", "NoSuchExerciseError"),
    *("NoSuchStepError", "NotLoadedError", "ProgramError", "InputError", "NotPassedError"),
)
"""Errors of the course and the grader."""

INTERNAL = {
    *("RetryLookupError", "RedirectError", "SimulationError", "DeadlockError", "RefusedError"),
    *("BudgetError", "UnknownCommandError", "EntryUnreadableException"),
    *("BundleUnloadingError", "LabkitError", "BKException", "BookieException", "MetadataError"),
}
"""Errors that labkit catches itself, and base classes that are never raised."""

_REFUSAL = "Refused"
_IMITATIONS = (
    *("course/exercises/", "course/workshop/bookie/", "course/workshop/client/solution"),
    *("worlds/sim/machine/", "worlds/sim/workload/"),
)
"""Modules whose errors imitate errors of the real system."""

REMEDIES = {
    "MissingPart": "Follow the end of the message; `labkit doctor` checks everything at once.",
    "BKException": "Check with `labkit shell` that enough bookies are running, then try again.",
    "BKReadException": "The entry may exist: try again when the bookies respond.",
    "BKDigestMatchException": "Use the password and the digest type with which the ledger was"
    " created. If they are right, the entry's bytes are corrupt on the named bookie.",
    "BKNotEnoughBookiesException": "Start more bookies, or create the ledger with a smaller"
    " ensemble.",
    "BKNoSuchLedgerExistsException": "Check the ledger id, for example with"
    " `labkit shell listledgers`.",
    "BKNoSuchLedgerExistsOnMetadataServerException": "Check the ledger id, for example with"
    " `labkit shell listledgers`.",
    "BKLedgerClosedException": "Create a new ledger: a closed ledger is never written again.",
    "BKLedgerFencedException": "Another client has opened the ledger to take over. Stop writing.",
    "BKNoSuchEntryException": "Read entries up to LastAddConfirmed only.",
    "BKIncorrectParameterException": "Correct the value that the message names.",
    "InvalidSettingException": "Correct the setting that the message names.",
    "BKClientClosedException": "Connect a new client.",
    "BKLedgerExistException": "Choose another ledger id.",
    "BKUnauthorizedAccessException": "Use the password with which the ledger was created.",
    "BKMetadataVersionException": "Another client has changed the metadata: read it and try again.",
    "BKMetadataSerializationException": "labkit cannot read this metadata: check which program"
    " wrote it.",
    "BookieException": "Look at the bookie's log and its files with `labkit shell`.",
    "StorageDamagedException": "Keep the files. Decommission the bookie, so that its entries are"
    " copied from other bookies, and start it with empty folders.",
    "InvalidCookieException": "Start the bookie with the folders that it had, or see"
    " [the operators' guide](operators.md) if a disk is lost.",
    "NoWritableLedgerDirException": "Free some space, or add a ledger directory.",
    "MetadataError": "Check that ZooKeeper is running, and that nobody else changes these nodes.",
    "MetadataUnavailableError": "Start ZooKeeper, or correct its address.",
    "BrokerError": "Correct the request. Clients retry by themselves after a retriable code.",
    "OptionError": 'Correct the option of `format("bookkeeper")`; see [Spark](spark.md).',
    "ShellError": "Correct the arguments; `labkit shell VERB --help` describes them.",
    "BadRequestError": "Correct the request's body or query; the status is 400.",
    "StatusError": "The admin request is refused; see [Pulsar](pulsar.md).",
    "CannotForkError": "Choose an earlier moment, or a fault that can happen in this run.",
    "ClusterInUseError": "Stop the bookies, or choose another path in ZooKeeper.",
    "DamagedNodeError": "Check which program wrote the node; labkit does not change it.",
    "DirectoryInUseError": "Stop the other bookie, or choose another directory.",
    "ForeignLayoutError": "Use the cluster's own layout; `zk+null://HOST:PORT/ledgers` accepts it.",
    "FrameError": "The peer is not a Pulsar client, or a newer one: check its address and version.",
    "NodeNotStartedError": "Read the server's log, whose path or end is in the message.",
    "UnavailableException": "Start autorecovery, or change its state with"
    " `labkit shell autorecovery`.",
    "LedgerGoneError": "Data that the query has not read was deleted: start a new query, or set"
    " `failOnDataLoss` to `false` to continue without it.",
}
"""What to do about an error, by class; a class without an entry uses that of its base class."""

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Template = tuple[str | ast.expr, ...]
"""A message: literal text, and expressions for the values in it."""
_DEPTH = 3
"""The maximum number of helpers and variables through which a message may be passed."""


@dataclass(frozen=True)
class Source:
    name: str
    tree: ast.Module

    @cached_property
    def constants(self) -> Mapping[str, ast.expr]:
        found = {}
        for node in self.tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                found[node.targets[0].id] = node.value
        return found

    @cached_property
    def functions(self) -> Sequence[_Function]:
        return [n for n in ast.walk(self.tree) if isinstance(n, _FUNCTIONS)]

    @cached_property
    def calls(self) -> Mapping[str, list[tuple[ast.Call, _Function | None]]]:
        """The calls of each function or class, together with the innermost function that contains
        each call.
        """
        inside = {id(c): f for f in self.functions for c in ast.walk(f) if isinstance(c, ast.Call)}
        found = defaultdict[str, list[tuple[ast.Call, _Function | None]]](list)
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call):
                found[_called_name(node)].append((node, inside.get(id(node))))
        return found


@dataclass(frozen=True)
class Message:
    """A message with placeholders, and the module that creates the error."""

    text: str
    module: str


class Errors:
    """labkit's error classes and their messages."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self.sources = sources
        self.classes = {
            node.name: node
            for source in sources
            for node in ast.walk(source.tree)
            if isinstance(node, ast.ClassDef)
        }
        self._constants = {
            name: value for source in sources for name, value in source.constants.items()
        }

    def ancestors(self, name: str) -> Iterator[str]:
        yield name
        if name in self.classes:
            for base in self.classes[name].bases:
                yield from self.ancestors(ast.unparse(base))

    def documented(self) -> list[str]:
        """Return the names of the error classes that a user may see."""
        ours = [
            name
            for name in self.classes
            if {"LabkitError", "MissingPart"} & set(self.ancestors(name))
            and name not in (*INTERNAL, *COURSE)
        ]
        return sorted(ours) + list(COURSE)

    def messages(self, name: str) -> list[Message]:
        """Return the messages that labkit's code uses when it creates errors of this class."""
        found = {
            Message(text, source.name): None
            for source in self.sources
            if name == _REFUSAL or not source.name.startswith(_IMITATIONS)
            for call, function in source.calls.get(name, ())
            for text in self._texts(source, self._of_class(name, call), function)
            if re.search(r"[a-z]", re.sub(r"\{[^}]*\}", "", text))
        }
        return list(found)

    def _of_class(self, name: str, call: ast.Call) -> _Template:
        """Return the message of an error that was created with these arguments."""
        if name == "InvalidSettingException":  # The message is the violated rule.
            return _template(call.args[1])
        for each in self.ancestors(name):
            for start in self.classes[each].body if each in self.classes else ():
                if isinstance(start, _FUNCTIONS) and start.name == "__init__":
                    given = _bound(start, call)
                    above = _call_of_super(start)
                    base = next(iter(list(self.ancestors(each))[1:]))
                    return _substitute(self._of_class(base, above), given)
        return _template(call.args[0]) if call.args else ()

    def _texts(
        self,
        source: Source,
        template: _Template,
        function: _Function | None,
        depth: int = _DEPTH,
    ) -> Iterator[str]:
        """Yield one message for each text that a variable in the template may contain."""
        for index, part in enumerate(template):
            expanded = self._expanded(source, part, function) if depth else []
            for text, around in expanded:
                changed = (*template[:index], *text, *template[index + 1 :])
                yield from self._texts(source, changed, around, depth - 1)
            if expanded:
                return
        yield "".join(part if isinstance(part, str) else _placeholder(part) for part in template)

    def _expanded(
        self, source: Source, part: str | ast.expr, function: _Function | None
    ) -> list[tuple[_Template, _Function | None]]:
        """Return the texts of a variable or a condition, each with the enclosing function."""
        if isinstance(part, ast.IfExp):
            return [(_template(branch), function) for branch in (part.body, part.orelse)]
        if not isinstance(part, ast.Name):
            return []
        if isinstance(constant := self._constants.get(part.id), ast.Constant):
            return [((str(constant.value),), function)]
        if function is None:
            return []
        if texts := _assigned(part.id, function):
            return [(text, function) for text in texts]
        received = [
            (_template(_bound(function, call)[part.id]), caller)
            for call, caller in source.calls.get(function.name, ())
            if part.id in _bound(function, call)
        ]
        has_text = all(any(isinstance(each, str) for each in text) for text, _ in received)
        return received if has_text else []


def _called_name(call: ast.Call) -> str:
    match call.func:
        case ast.Name(id=name) | ast.Attribute(value=ast.Name(id="self"), attr=name):
            return name
        case ast.Attribute(value=ast.Name(id=owner), attr=name):
            return f"{owner}.{name}"
    return ""


def _template(node: ast.expr) -> _Template:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return (node.value,)
    if isinstance(node, ast.JoinedStr):
        return tuple(part for value in node.values for part in _template(value))
    if isinstance(node, ast.FormattedValue):
        return (node.value,)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts = (*_template(node.left), *_template(node.right))
        if any(isinstance(part, str) for part in parts):
            return parts
    return (node,)


def _substitute(template: _Template, given: Mapping[str, ast.expr]) -> _Template:
    parts: list[str | ast.expr] = []
    for part in template:
        if isinstance(part, ast.Name) and part.id in given:
            parts += _template(given[part.id])
        else:
            parts.append(part)
    return tuple(parts)


def _parameters(function: _Function) -> list[str]:
    arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return [each.arg for each in arguments if each.arg not in ("self", "cls")]


def _bound(function: _Function, call: ast.Call) -> dict[str, ast.expr]:
    given = dict(zip(_parameters(function), call.args, strict=False))
    return given | {each.arg: each.value for each in call.keywords if each.arg}


def _call_of_super(start: _Function) -> ast.Call:
    return next(
        node
        for node in ast.walk(start)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "super().__init__"
    )


def _assigned(name: str, function: _Function) -> list[_Template]:
    """Return the texts that the function assigns to a variable."""
    found = []
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            template = _template(node.value)
            names = {n.id for n in ast.walk(node.value) if isinstance(n, ast.Name)}
            if name not in names and any(isinstance(part, str) for part in template):
                found.append(template)
    return found


def _placeholder(node: ast.expr) -> str:
    has_name = any(isinstance(each, ast.Name) for each in ast.walk(node))
    return f"{{{_name(node)}}}" if has_name else ast.unparse(node)


def _name(node: ast.expr) -> str:
    """Return the name of the value, or the most informative name in the expression."""
    if inner := _INNER.get(type(node)):
        return _name(getattr(node, inner))
    match node:
        case ast.Name():
            return node.id.strip("_")
        case ast.Attribute():
            return node.attr.strip("_")
        case ast.Call(func=ast.Name(id="len")):
            return "count"
        case ast.Call(args=[first, *_]):
            return _name(first)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)):
            return name
        case ast.Call(func=ast.Attribute(value=owner)):
            return _name(owner)
        case ast.GeneratorExp() | ast.ListComp():
            return _name(node.generators[0].iter)
        case ast.BoolOp():
            return _name(node.values[0])
    return next((each.id for each in ast.walk(node) if isinstance(each, ast.Name)), "value")


_INNER = {
    **dict.fromkeys((ast.Subscript, ast.Starred), "value"),
    **{ast.BinOp: "left", ast.IfExp: "body"},
}
"""The part of an expression that names its value."""


def errors_page() -> str:
    errors = Errors(sources())
    sections: dict[str, list[str]] = {t: [] for t in (*_SECTIONS.values(), _COURSE_SECTION)}
    for name in errors.documented():
        bases = (name,) if name in COURSE else errors.ancestors(name)
        title = next((_SECTIONS[base] for base in bases if base in _SECTIONS), _COURSE_SECTION)
        sections[title].append(_class(errors, name))
    parts = [f"## {title}\n\n" + "\n".join(classes) for title, classes in sections.items()]
    commands = _rows(_command_messages(errors))
    refusals = _rows(errors.messages(_REFUSAL))
    return "\n".join(
        [
            _INTRODUCTION,
            *parts,
            f"## A command refuses its arguments\n\n{_COMMANDS}\n{commands}",
            f"## Rules of the exercises\n\n{_RULES}\n{refusals}",
        ]
    )


_COMMANDS = """\
argparse checks the names and numbers first. If they are wrong, it prints the usage of the verb and
one of these sentences, and the exit code is 2: `the following arguments are required: {names}`,
`unrecognized arguments: {words}`, `argument {name}: invalid choice: {word} (choose from {words})`,
`argument {name}: invalid int value: {word}`. `labkit VERB --help` describes the arguments. After
that, these messages are possible.
"""
_RULES = """\
If your answer breaks a rule, its card says `not yet:` and one of these sentences, with the smallest
case that breaks the rule.
"""


def sources() -> list[Source]:
    return [
        Source(path.relative_to(ROOT / "labkit").as_posix(), ast.parse(path.read_text("utf-8")))
        for path in sorted((ROOT / "labkit").rglob("*.py"))
        if not path.name.endswith("_pb2.py")
    ]


def _command_messages(errors: Errors) -> list[Message]:
    return [
        message
        for name in ("_fail", "argparse.ArgumentTypeError", "parser.error")
        for message in errors.messages(name)
    ]


def _class(errors: Errors, name: str) -> str:
    remedy = next((REMEDIES[each] for each in errors.ancestors(name) if each in REMEDIES), "")
    docstring = " ".join((ast.get_docstring(errors.classes[name]) or "").split())
    remedy = remedy and f"**What to do.** {remedy}"
    messages = errors.messages(name)
    parts = [f"### `{name}`", docstring, remedy, _rows(messages) if messages else ""]
    return "\n\n".join(filter(None, parts)) + "\n"


def _rows(messages: Sequence[Message]) -> str:
    modules = defaultdict[str, dict[str, None]](dict)
    for each in messages:
        modules[each.text][f"`{each.module}`"] = None
    rows = [(_code(text), ", ".join(names)) for text, names in modules.items()]
    return markdown_table(("message", "created in"), rows)


def _code(text: str) -> str:
    text = re.sub(r"\{+(\w+)[^{}]*\}+", r"{\1}", text)  # A rule may contain `{setting.name}`.
    words = " ".join(text.split()).replace("|", "\\|")
    return f"`` {words} ``" if "`" in words else f"`{words}`"


if __name__ == "__main__":
    sys.stdout.write(errors_page())
