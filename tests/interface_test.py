#!/usr/bin/env python3
"""The public headers: they compile in C and C++ of every standard without a warning, and what programs were compiled with stays.

usage: interface_test.py SOURCES DLPACK-INCLUDE-FOLDER [--write]

tests/interface.txt lists the values of the last release's enumerators, the sizes of types and the types of functions. Additions
are fine; --write takes them into the list.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCES, DLPACK = Path(sys.argv[1]), sys.argv[2]
DUMP = SOURCES / "tests/interface.txt"
FOLDERS = [SOURCES / "runtime/include", SOURCES / "compat/ascend/include"]
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wsign-conversion", "-Wshadow", "-Wundef", "-Werror"]
STANDARDS = {"c": ["c99", "c11", "c17"], "c++": ["c++11", "c++14", "c++17", "c++20", "c++2b"]}


def headers() -> list[str]:
    return sorted(str(path.relative_to(folder)) for folder in FOLDERS for path in folder.rglob("*.h"))


def compile_all() -> tuple[int, list[str]]:
    failures, runs = [], 0
    for compiler in filter(shutil.which, ("gcc", "clang")):
        for language, standards in STANDARDS.items():
            own = [*WARNINGS, *(["-Wstrict-prototypes", "-Wmissing-prototypes"] if language == "c" else ["-Wold-style-cast"])]
            for standard in standards:
                for header in headers():
                    command = [compiler, "-x", language, f"-std={standard}", *own, "-fsyntax-only", "-isystem", DLPACK]
                    command += [f"-I{folder}" for folder in FOLDERS]
                    text = f"#include <{header}>\n#include <{header}>\nextern int used;\n"
                    result = subprocess.run([*command, "-"], input=text, capture_output=True, text=True)
                    runs += 1
                    if result.returncode:
                        failures.append(f"{compiler} -std={standard} {header}:\n{result.stderr}")
    return runs, failures


def without_comments(text: str) -> str:
    return re.sub(r"//[^\n]*", "", re.sub(r"/\*.*?\*/", "", text, flags=re.S))


def dump() -> list[str]:
    """One line for each function, enumerator and type that a program may have been compiled with."""
    lines, enumerators, types = set(), set(), set()
    for header in headers():
        path = next(folder / header for folder in FOLDERS if (folder / header).exists())
        text = without_comments(path.read_text())
        for declaration in re.findall(r"(?:DEFORMKIT_API|ACL_FUNC_VISIBILITY)\s+([^;{]*\([^;]*\));", text):
            # Names of parameters may change.
            plain = re.sub(r"\s*\w+\s*(?=[,)])", lambda m: "" if m[0].strip() not in ("void", "int") else m[0], declaration)
            lines.add("function " + re.sub(r"\s+", " ", plain).replace("* ", "*"))
        for body in re.findall(r"enum\s*\w*\s*\{([^}]*)\}", text):
            enumerators.update(re.findall(r"^\s*(\w+)", body, re.M))
        enumerators.update(name for name in re.findall(r"^#define (\w+) \(?-?\d+\)?$", text, re.M) if "VERSION" not in name)
        types.update(re.findall(r"\}\s*(\w+)\s*;", text))
    program = "#include <stdio.h>\n" + "".join(f"#include <{header}>\n" for header in headers()) + "int main(void) {\n"
    program += "".join(f'printf("value {name} %lld\\n", (long long)({name}));\n' for name in enumerators)
    program += "".join(f'printf("size {name} %zu\\n", sizeof({name}));\n' for name in types) + "return 0; }\n"
    with tempfile.TemporaryDirectory() as folder:
        compiler = shutil.which("gcc") or shutil.which("cc")
        command = [str(compiler), "-x", "c", "-", "-o", f"{folder}/dump", "-isystem", DLPACK, *(f"-I{f}" for f in FOLDERS)]
        subprocess.run(command, input=program, check=True, text=True)
        lines.update(subprocess.run([f"{folder}/dump"], check=True, capture_output=True, text=True).stdout.splitlines())
    return sorted(lines)


def main() -> int:
    if not (shutil.which("gcc") or shutil.which("cc")):
        print("skipped: no C compiler")
        return 77
    now = dump()
    if "--write" in sys.argv:
        DUMP.write_text("\n".join(now) + "\n")
        return 0
    gone = sorted(set(DUMP.read_text().splitlines()) - set(now))
    added = sorted(set(now) - set(DUMP.read_text().splitlines()))
    runs, failures = compile_all()
    print(f"{runs} compilations, {len(failures)} failed; {len(now)} names, {len(added)} new, {len(gone)} changed or gone")
    for text in failures + [f"changed or gone: {line}" for line in gone]:
        print(text)
    return 1 if failures or gone or not runs or not now else 0


if __name__ == "__main__":
    sys.exit(main())
