#!/usr/bin/env python3
"""Writes the functions of tensor_ops.h that are one call of an op: define_ops.py HEADER SOURCE
SCHEMAS OUTPUT, called by meson.

A function that HEADER declares and SOURCE does not define calls the op of its name: the overload of
SCHEMAS whose first arguments have the types of the function's parameters, and whose others may be
left out. OUTPUT has the definitions.
"""

import pathlib
import re
import sys

DECLARED = re.compile(
    r"^(DTensor|std::vector<DTensor>) (\w+)\((Operand (?:[^;{]|\{\})*)\);", re.MULTILINE)
DEFINED = re.compile(
    r"^(?:DTensor|std::vector<DTensor>) (\w+)\((Operand [^;{]*)\) \{", re.MULTILINE)
SCHEMA = re.compile(r"^aten::(\w+)(?:\.(\w+))?\((.*)\) -> (.*)$", re.MULTILINE)
# Types of parameters, and those of arguments that take them.
TAKEN_BY = {
    "Operand": r"Tensor(\(.*\))?",
    "const DTensor&": r"Tensor",
    "Scalar": r"Scalar",
    "std::int64_t": r"(Sym)?[Ii]nt",
    "const Dims&": r"(Sym)?[Ii]nt\[\d*\]\??",
    "KeepDim": r"bool",
    "DType": r"ScalarType",
}
PASSED = {"KeepDim": "{} == KeepDim::kYes"}


def parameters_of(text):
    """[(type, name)], without default values."""
    parts = (re.sub(r" = .*", "", part).strip() for part in text.split(","))
    return [tuple(part.rsplit(" ", 1)) for part in parts]


def takes(arguments, parameters):
    if len(arguments) < len(parameters):
        return False
    fits = all(kind in TAKEN_BY and re.fullmatch(TAKEN_BY[kind], argument.rsplit(" ", 1)[0])
               for argument, (kind, _) in zip(arguments, parameters))
    rest = arguments[len(parameters):]
    return fits and all("=" in argument or argument == "*" for argument in rest)


def op_of(name, gives, parameters, schemas):
    """The only op that takes the parameters, as "aten::sum.dim_IntList"."""
    found = [f"aten::{name}" + (f".{overload}" if overload else "")
             for base, overload, arguments, results in schemas
             if base == name and re.sub(r"\(.*?\)", "", results) == gives
             and takes(re.split(r", (?![^(\[]*[)\]])", arguments), parameters)]
    if len(found) != 1:
        sys.exit(f"error: tensor_ops.h: {name}: {len(found)} ops take its parameters, "
                 f"{' '.join(found)}; define it in tensor_ops.cpp")
    return found[0]


def main():
    header, source, schemas = (pathlib.Path(path).read_text(encoding="utf-8")
                               for path in sys.argv[1:4])
    schemas = SCHEMA.findall(schemas)
    by_hand = {(name, tuple(kind for kind, _ in parameters_of(text)))
               for name, text in DEFINED.findall(source)}
    functions = []
    for result, name, text in DECLARED.findall(header):
        parameters = parameters_of(text)
        if (name, tuple(kind for kind, _ in parameters)) in by_hand:
            continue
        alone = result == "DTensor"
        op = op_of(name, "Tensor" if alone else "Tensor[]", parameters, schemas)
        passed = ", ".join(PASSED.get(kind, "{}").format(word) for kind, word in parameters)
        given = ", ".join(f"{kind} {word}" for kind, word in parameters)
        functions.append(f"{result} {name}({given}) {{\n"
                         f"  return {'call' if alone else 'pieces'}(\"{op}\", {passed});\n}}\n")
    pathlib.Path(sys.argv[4]).write_text(
        "// Written by src/api/define_ops.py.\n" + "".join(functions), encoding="utf-8")


if __name__ == "__main__":
    main()
