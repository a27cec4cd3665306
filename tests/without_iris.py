"""A plugin for pytest, before its others: jsonschema goes without the grammars of IRIs, which take
two seconds of processor time in each process that imports nbformat.  No notebook has an IRI.
"""

import sys

# What is None here cannot be imported; jsonschema then leaves this one format unchecked.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
