"""`python -m mvcs`: the command line, for where the script of that name is on no path."""

import sys

from mvcs.cli import main

if __name__ == "__main__":
    sys.exit(main())
