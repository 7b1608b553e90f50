"""What a reader would stumble over: long sentences, and words that the style guide rules out.

    python -m tests.docs.english [PAGE ...]

CONTRIBUTING.md has the style in words. Code, links' targets and comments are not prose.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from docs._ext.pages import BLOCK
from tests.docs.pages import DOCS, FENCE, ROOT

LIMIT = 30
"""Words in a sentence, at most; aim at 25."""

OUTSIDE = [
    *("README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md"),
    *("benchmarks/papers/RESULTS.md", "labextension/README.md"),
]
PAGES = [*(ROOT / name for name in OUTSIDE), *sorted(DOCS.rglob("*.md"))]

RULED_OUT = {
    r"(?:no|every|some|any)body\b|\bwhoever\b|\bwhosoever\b": "name the actor: worker, server, you",
    r"anew\b|for ever\b|once more\b|likewise\b": "again; forever; also",
    r"go(?:es|ing)? on\b|went on\b": "continue",
    r"(?:no|any) more\b(?! (?:than|\w+s\b))": "no longer",
    r"(?<!there )(?:is|are|was|were) no (?!longer\b|more\b)": "is not a",
    r"travel(?:s|ed|led|ing)?\b|dial(?:s|ed|led)?\b|swallow(?:s|ed)?\b": "send; connect; drop",
    r"(?:lay|lays|laid|laying) (?:\w+ )?out\b|lies\b": "partition; is stored; is",
    r"let \w+(?: \w+)? be \w+": "name who does it",
    r"at hand\b|beside\b": "available; next to, compared with",
    r"some (?:\d|two|three|four|five|six|ten|twenty|minutes|seconds|hours)\b": "about, a few",
    r"of (?:your|its|their|one's|our) own\b(?! (?!by|for|in|and|with|that|to)\w)": "your own X",
    r"\w+`?\)?, too\b(?! \w)": "also, before the verb",
    r"there (?:is|are)(?= (?:for|to|in)\b)|(?:that|which) there (?:is|are)\b": "name it",
    r"whatever (?:is|it|they|there)\b": "any; regardless of",
    r"the gate\b|mission\b|slow day\b|busy machine\b|earlier simulation\b|its goal\?": "say less",
    r"(?:neighbour|colour|behaviour|favour|flavour|licence|centre|grey)\w*": "American: -or",
    r"(?:travel|cancel|model|signal)l(?:ed|ing)\b": "one l",
    r"(?:synchron|normal|initial|serial|organ|optim|recogn|minim|random)is(?:e|ing|ation)": "z",
    r"numpy\b|keras'(?!s)|plug-in\b|jupyter lab\b": "NumPy, Keras's, plugin, JupyterLab",
}
"""What is not written, with what to write instead."""

WORDS = [
    (re.compile(rf"\b(?:{found})", re.IGNORECASE), advice) for found, advice in RULED_OUT.items()
]
EXACT = re.compile(r"(?<!['\"])\b(?:numpy\b(?![.('\"])|Keras'(?!s))")
HEADLESS = re.compile(r"(?:Who|What|Whose|Whoever)\b(?! (?:to|is|it|do|are|each|we)\b)")
LITERAL = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
COURSE = re.compile(r"^<!-- generated course -->.*?^<!-- end -->$", re.DOTALL | re.MULTILINE)
"""What is taken from the notebooks."""
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
IMAGE = re.compile(r"!\[[^\]]*\]\([^)]*\)")
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\([^)]*\)")
CODES = re.compile(r"`x`(?:,? (?:and |or )?`x`)+")
ENDS = re.compile(r"(?<=[.!?])[)\"*]*\s+(?=[\"*(⟨`\[A-ZΔ0-9%])")
SHORT = re.compile(r"\b(?:e\.g|i\.e|vs|cf|etc|et al|Fig|No|approx)\.")


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with a sentence."""

    page: str
    problem: str
    sentence: str


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a page: of paragraphs, items of lists, and cells of tables."""
    text = FENCE.sub("\n\n", COMMENT.sub("\n\n", text))
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*+] |\d+\. |#|\|))", text):
        block = LINK.sub(r"\1", LITERAL.sub("`x`", IMAGE.sub("", block))).strip()
        block = CODES.sub("`x`", block)
        cells = block.strip("|").split("|") if block.startswith("|") else [block]
        for cell in cells:
            plain = SHORT.sub(lambda short: short[0].replace(".", ""), " ".join(cell.split()))
            plain = re.sub(r"^(?:[-*+] |\d+\. |#+ )", "", plain)
            yield from (each for each in ENDS.split(plain) if re.search("[A-Za-z]", each))


def problems(text: str) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with sentences of a page, and the sentences.

    Fragments, such as "What a run saves.", are allowed in what comes from docstrings.
    """
    text = COURSE.sub("", text)
    written = set(sentences(BLOCK.sub("", text)))
    for sentence in sentences(text):
        words = [word for word in sentence.split() if re.search(r"\w|⟨", word)]
        if len(words) > LIMIT:
            yield f"{len(words)} words", sentence
        for pattern, advice in WORDS:
            if advice.startswith("NumPy"):
                pattern = EXACT
            if found := pattern.search(sentence):
                yield f"{found[0]!r}: {advice}", sentence
        headless = sentence in written and HEADLESS.match(sentence) and len(words) > 6
        if headless and not sentence.endswith(("?", ":")):
            yield "begins with a question word: name the subject", sentence


def findings(path: Path) -> list[Finding]:
    """Return what is wrong with a page."""
    page = path.relative_to(ROOT).as_posix()
    text = path.read_text(encoding="utf-8")
    return [Finding(page, problem, sentence) for problem, sentence in problems(text)]


if __name__ == "__main__":
    pages = [Path(name).resolve() for name in sys.argv[1:]] or PAGES
    every = [each for page in pages for each in findings(page)]
    for each in every:
        print(f"{each.page}: {each.problem}\n    {each.sentence}")
    print(f"{len(every)} findings")
