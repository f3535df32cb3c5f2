"""Entry point of ``python -m dhsic``, which is the command ``dhsic``."""

from dhsic.cli import main

if __name__ == "__main__":
    main(prog_name="dhsic")
