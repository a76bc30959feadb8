"""`python -m hwbench.cli`: the command line where no script is on the path."""

import sys

from hwbench.cli import main

if __name__ == "__main__":
    sys.exit(main())
