#!/usr/bin/env python3
"""The pages against the repository. What they show must be there, and snippets must be code that a test runs.

usage: docs_test.py build/.../deformkit_variants.inc
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = [*(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG")), *sorted((ROOT / "docs").glob("*.md"))]
WORKFLOW = ROOT / ".github/workflows/test.yml"

# Lines in ```sh blocks that are no ./run command, and the test that runs them.
TESTED_ELSEWHERE = {
    "cmake --install build/release --prefix PREFIX": "install.library",
    "cmake --install build/release --prefix PREFIX --component kernels": "install.kernels",
    "pip install .": "python.wheel",
    "python -m deformkit.mx_driving script.py": "python.mx_driving",
    "python -m deformkit.tune": "python.tune",
    "python -m deformkit.tune msda_forward --threads 1": "python.tune",
    "python -m deformkit.build_openvino": "python.openvino",
}


def blocks(page: Path, language: str) -> list[tuple[str, str]]:
    """(text before, contents) of each fenced block of that language."""
    text = page.read_text()
    return [(text[: m.start()], m.group(1)) for m in re.finditer(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)]


def commands_of_run() -> set[str]:
    usage = subprocess.run([ROOT / "run", "help"], check=True, capture_output=True, text=True).stdout
    return set(re.findall(r"^  ([a-z]+)", usage, re.M))


class Docs(unittest.TestCase):
    def test_run_commands_exist(self) -> None:
        known = commands_of_run()
        self.assertIn("test", known)
        seen = set()
        for page in [*PAGES, WORKFLOW]:
            for command in re.findall(r"\./run ([a-z]+)", page.read_text()):
                self.assertIn(command, known, f"{page.name}: ./run {command}")
                seen.add(command)
        self.assertTrue({"demo", "test", "bench", "build"} <= seen)

    def test_shell_lines_are_tested(self) -> None:
        lines = [(page, line) for page in PAGES for _, text in blocks(page, "sh") for line in text.splitlines()]
        self.assertTrue(lines)
        for page, line in lines:
            if shlex.split(line)[0] != "./run":
                self.assertIn(line, TESTED_ELSEWHERE, page.name)

    def test_unknown_commands_are_refused(self) -> None:
        for arguments in ([], ["no-such-command"]):
            result = subprocess.run([ROOT / "run", *arguments], capture_output=True, text=True)
            self.assertEqual(result.returncode, 2, arguments)
            self.assertTrue(result.stderr)

    def test_a_library_that_is_not_there_is_refused(self) -> None:
        for arguments in (["nowhere.so"], []):
            result = subprocess.run([ROOT / "run", "bench", "--against", *arguments], capture_output=True, text=True)
            self.assertEqual(result.returncode, 1)
            self.assertIn("bench --against: expected a libdeformkit.so, got " + (arguments or ["nothing"])[0], result.stderr)

    def test_snippets_are_tested_code(self) -> None:
        found = 0
        for page in PAGES:
            for language in ("c", "cpp", "cmake", "python"):
                for before, text in blocks(page, language):
                    marker = re.search(r"<!-- snippet: (\S+) -->\n$", before)
                    if not marker:
                        self.fail(f"{page.name}: a {language} block does not say which file it is from:\n{text}")
                    self.assertIn(text, (ROOT / marker.group(1)).read_text(), f"{page.name}: differs from {marker.group(1)}")
                    found += 1
        self.assertGreaterEqual(found, 3)

    def test_paths_exist(self) -> None:
        found = 0
        for page in PAGES:
            text = page.read_text()
            links = [page.parent / target for target in re.findall(r"\]\(([^)#:]+)\)", text)]
            names = re.findall(r"`([A-Za-z0-9_.-]+/[A-Za-z0-9_./-]*|[a-z]+\.cmake)`", text)
            for path in links + [ROOT / name for name in names if not name.startswith("build/")]:
                self.assertTrue(path.exists(), f"{page.name}: {path}")
                found += 1
        self.assertGreater(found, 5)

    def test_variants_are_those_of_the_build(self) -> None:
        rows = re.findall(r"DEFORMKIT_VARIANT\((\w+), (\w+), (\w+), (\w+), ", Path(sys.argv[1]).read_text())
        listed = []
        for passes, types, targets in re.findall(
            r"^\| `(\w+)` \| ([a-z0-9 ]+) \| ([a-z0-9 ]+) \|$", (ROOT / "README.md").read_text(), re.M
        ):
            listed += [f"{passes}_{kind}_{target}" for kind in types.split() for target in targets.split()]
        self.assertTrue(rows)
        self.assertEqual(sorted(listed), sorted("_".join(row) for row in rows))

    def test_environment_variables_are_read(self) -> None:
        sources = "".join(p.read_text() for p in [ROOT / "run", *(ROOT / "runtime").rglob("*.cpp")])
        read = set(re.findall(r'(?:getenv\(|\$\{|")(DEFORMKIT_[A-Z_]+)', sources))
        listed = re.findall(r"^\| `(DEFORMKIT_[A-Z_]+)` \|", (ROOT / "README.md").read_text(), re.M)
        self.assertTrue(listed)
        for name in listed:
            self.assertIn(name, read)
        header = (ROOT / "runtime/include/deformkit/deformkit.h").read_text()
        in_header = re.findall(r"^ \*   (DEFORMKIT_[A-Z_]+)  ", header, re.M)
        self.assertTrue(in_header)
        for name in in_header:
            self.assertIn(name, listed)

    def test_changelog_has_the_version(self) -> None:
        header = (ROOT / "runtime/include/deformkit/deformkit.h").read_text()
        version = ".".join(re.findall(r"^#define DEFORMKIT_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$", header, re.M))
        newest = re.search(r"^## \[([0-9.]+)\]", (ROOT / "CHANGELOG.md").read_text(), re.M)
        self.assertEqual(newest and newest[1], version)

    def test_header_lists_every_argument(self) -> None:
        """A row for each parameter, by name and in order; a backward's begin after the forward's five."""
        header = (ROOT / "runtime/include/deformkit/deformkit.h").read_text()
        declarations = re.findall(r"/\*\*((?:(?!\*/).)*)\*/\nDEFORMKIT_API deformkit_status (\w+)ward\(([^)]*)\)", header, re.S)
        self.assertTrue(declarations)
        for comment, name, parameters in declarations:
            rows = re.findall(r"^ \*   (\w+) +(?:\[|as )", comment, re.M)
            expected = re.findall(r"DLTensor \*(\w+)", parameters)
            self.assertEqual(rows, expected[5 if name.endswith("back") else 0 :], f"{name}ward")

    def test_statuses_are_those_of_the_header(self) -> None:
        header = (ROOT / "runtime/include/deformkit/deformkit.h").read_text()
        listed = re.findall(r"^\| `(DEFORMKIT_[A-Z_]+)` \|", (ROOT / "docs/msda.md").read_text(), re.M)
        self.assertEqual(listed, re.findall(r"^    (DEFORMKIT_[A-Z_]+) = \d+", header, re.M))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
