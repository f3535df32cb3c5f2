"""Features that are no columns: substrings, parts of graphs, and groups with a kernel each."""

from dhsic.structured.groups import rank_kernels
from dhsic.structured.ranking import Ranking
from dhsic.structured.substructures import rank_subgraphs, rank_substrings

__all__ = ["Ranking", "rank_kernels", "rank_subgraphs", "rank_substrings"]
