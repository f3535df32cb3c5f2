"""A checkpoint: the state of a run after any round, kept so that any death loses one round.

It is a plain Zarr v3 group in a folder or at a URL of an object store, with a single writer::

    run.dhsic/
      zarr.json       identity of the run, number of the last round; replaced atomically, last
      start/          features: S before the first round; checksums: of the data, feature by feature
      rounds/000001/  features, scores: what left in that round; its record in the attributes
      lock            held by the process that writes; in an object store its lease

A round is written once, made durable, and counts only when the root says so. Every digest covers
the one before it, so rounds are read as a chain that ends where something is damaged.

A method that needs more than what left in each round (weights, say) keeps arrays with it; they are
whole in themselves, so those of the last two rounds stay and the others are removed.
"""

from dhsic.checkpoint.keeping import Checkpoint

__all__ = ["Checkpoint"]
