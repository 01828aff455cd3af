"""``python -m tests.language [FILE ...]``: print what breaks the rules of language; without files, in all."""

import sys

from tests.language.rules import findings, pages, python_files

problems = list(findings(sys.argv[1:] or [*python_files(), *pages()]))
for problem in problems:
    sys.stdout.write(f"{problem}\n")
sys.exit(bool(problems))
