# SPDX-License-Identifier: MIT OR Apache-2.0
"""Preprocessor of book.toml: the site has only the pages of docs/. A link to another file of the repository, such as
`../targets/README.md`, goes to the address in `repository`, or becomes its text."""

import json
import re
import sys
from typing import Any

#: A link out of docs/; a picture would be one, too.
OUTSIDE = re.compile(r"(!?)\[([^\]]*)\]\(\.\./([^)\s]*)\)")


def rewrite(items: "list[Any]", repository: str) -> None:
    """Rewrites the links of chapters, and of those below them."""

    def link(found: "re.Match[str]") -> str:
        mark, text, path = found.groups()
        if mark:
            raise SystemExit(f"../{path}: a picture outside of docs/ would be missing in the site")
        return f"[{text}]({repository.rstrip('/')}/{path})" if repository else text

    for item in items:
        if "Chapter" in item:
            item["Chapter"]["content"] = OUTSIDE.sub(link, item["Chapter"]["content"])
            rewrite(item["Chapter"]["sub_items"], repository)


def main() -> None:
    if sys.argv[1:2] == ["supports"]:
        return
    context, book = json.load(sys.stdin)
    settings = context["config"]["preprocessor"]["outside"]
    # mdBook 0.4 has another name for the same list.
    rewrite(book["items"] if "items" in book else book["sections"], settings.get("repository", ""))
    json.dump(book, sys.stdout)


main()
