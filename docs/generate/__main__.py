# SPDX-License-Identifier: Apache-2.0
"""`python -m docs.generate`: write the generated pages."""

from docs.generate import pages

for path, text in pages():
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    print(path)
