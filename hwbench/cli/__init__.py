"""The command line: thin commands that parse, call and print.

A command is a function in a module of this package, whose `register` puts it into the app; the
module's name stands in `hwbench.cli.app.COMMANDS`. Modules here are light: what a command needs to
do its work is imported when it runs.
"""

import sys

__all__ = ["main"]


def main() -> int:
    """Run the command line on the process's arguments.

    Returns:
        The exit status: 0 on success, 2 on a user's mistake, 130 after an interrupt.
    """
    try:
        from hwbench.processes import start_sooner

        start_sooner()
        from hwbench.cli.app import run

        return run(sys.argv[1:])
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted.\n")
        return 130
