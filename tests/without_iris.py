"""A pytest plugin, loaded before all others, that keeps jsonschema from importing its IRI grammars.

The import takes two seconds of processor time in each process that imports nbformat, and no
notebook contains an IRI.
"""

import sys

# A module that is set to None cannot be imported, so jsonschema does not check this format.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
