"""Modules of dhsic that import each other in a circle: none. `make layers` runs this.

Imports inside functions and for types count.
"""

import sys
from graphlib import CycleError, TopologicalSorter

import grimp

graph = grimp.build_graph("dhsic")
imports = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
try:
    TopologicalSorter(imports).prepare()
except CycleError as error:
    sys.exit(f"Modules import each other in a circle: {' <- '.join(error.args[1])}")
print(f"No circles among {len(imports)} modules.")
