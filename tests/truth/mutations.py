"""Small edits of a module's conditions: a comparison turned round, an and made an or, a not left out, and the like."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

_TURNED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.GtE: ast.Lt,
    ast.Lt: ast.GtE,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}
_OTHER_NAMES = {
    "isNull": "isNotNull",
    "isNotNull": "isNull",
    "forall": "exists",
    "exists": "forall",
    "greatest": "least",
    "least": "greatest",
}
_OTHER_WORDS = {"left_anti": "left_semi", "left_semi": "left_anti"}
_OTHER_SQL = (
    (" is null", " is not null"),
    (" and ", " or "),
    (" > ", " <= "),
    (" in (", " not in ("),
    ("forall(", "exists("),
)
_WORDS_ONLY = frozenset(("sentence", "_likely", "all_clear", "brief", "title", "means", "note"))
"""Functions, attributes and arguments that say something to people, and decide nothing."""
_LOOK_FIRST = frozenset(("suspects", "signs", "possible"))
"""Functions that spare a check a useless look: one that lets more pass than it need changes no answer, only its time.

No and is made an or in them, but where a check's cases are chosen by them, too.
"""


@dataclass(frozen=True, slots=True)
class Mutation:
    """A module's source with one edit."""

    line: int
    name: str
    """The function, what was done, and to what: the same as long as the code there is; no two of a module have one."""
    source: str


def mutations(source: str) -> Iterator[Mutation]:
    """Every edit of the module, in the order of its lines; what only words depend on is left alone."""
    tree = ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    seen: Counter[str] = Counter()
    for node, edit, told in _edits(tree):
        where = [one.name for one in functions if one.lineno <= node.lineno <= (one.end_lineno or 0)]
        name = f"{where[-1] if where else 'module'}: {told}: {_short(ast.unparse(node))}"
        seen[name] += 1
        kept = dict(vars(node))
        _apply(node, edit)
        changed = ast.unparse(tree)
        vars(node).update(kept)
        yield Mutation(node.lineno, name if seen[name] == 1 else f"{name} ({seen[name]})", changed)


def _edits(tree: ast.AST) -> list[tuple[ast.expr, str, str]]:
    found: list[tuple[ast.expr, str, str]] = []
    chooses = any(isinstance(node, ast.Attribute) and node.attr == "suspects" for node in ast.walk(tree))
    widened = set() if chooses else set(_looking_first(tree))
    for node in _deciding(tree):
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _TURNED:
            found.append((node, "turn", "comparison turned round"))
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd) and node in widened:
            continue
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd | ast.BitOr) and not _of_types(node):
            found.append((node, "join", "and made or" if isinstance(node.op, ast.BitAnd) else "or made and"))
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
            found.append((node, "not", "not left out"))
        elif isinstance(node, ast.Attribute) and node.attr in _OTHER_NAMES:
            found.append((node, "name", f"{node.attr} made {_OTHER_NAMES[node.attr]}"))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if node.value in _OTHER_WORDS:
                found.append((node, "word", f"{node.value} made {_OTHER_WORDS[node.value]}"))
            elif "->" in node.value or node.value.startswith(("attempt", "size(")):
                found += [
                    (node, f"sql{n}", f"{a.strip()} made {b.strip()}")
                    for n, (a, b) in enumerate(_OTHER_SQL)
                    if a in node.value
                ]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "isin":
            found.append((node, "isin", "in made not in"))
    return sorted(found, key=lambda each: (each[0].lineno, each[0].col_offset, each[1]))


def _deciding(node: ast.AST) -> Iterator[ast.expr]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef) and child.name in _WORDS_ONLY:
            continue
        if isinstance(child, ast.keyword) and child.arg in _WORDS_ONLY:
            continue
        if isinstance(child, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id in _WORDS_ONLY for target in child.targets
        ):
            continue
        if isinstance(child, ast.arg | ast.AnnAssign):
            continue
        if isinstance(node, ast.FunctionDef) and child is node.returns:
            continue
        if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
            continue
        if isinstance(child, ast.expr):
            yield child
        yield from _deciding(child)


def _looking_first(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name in _LOOK_FIRST:
            yield from ast.walk(node)


def _of_types(node: ast.BinOp) -> bool:
    """`int | None`, which decides nothing."""
    return any(isinstance(side, ast.Constant) and side.value is None for side in (node.left, node.right))


def _apply(node: ast.expr, edit: str) -> None:
    if isinstance(node, ast.Compare):
        node.ops = [_TURNED[type(node.ops[0])]()]
    elif isinstance(node, ast.BinOp):
        node.op = ast.BitOr() if isinstance(node.op, ast.BitAnd) else ast.BitAnd()
    elif isinstance(node, ast.UnaryOp):
        node.operand = ast.UnaryOp(op=ast.Invert(), operand=node.operand)  # a double not is none
    elif isinstance(node, ast.Attribute):
        node.attr = _OTHER_NAMES[node.attr]
    elif isinstance(node, ast.Call):
        node.func, node.args, node.keywords = (
            ast.Attribute(value=ast.Call(func=node.func, args=node.args, keywords=node.keywords), attr="__invert__"),
            [],
            [],
        )
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        if edit == "word":
            node.value = _OTHER_WORDS[node.value]
        else:
            old, new = _OTHER_SQL[int(edit.removeprefix("sql"))]
            node.value = node.value.replace(old, new)


def _short(text: str) -> str:
    return text if len(text) <= 90 else f"{text[:87]}..."
