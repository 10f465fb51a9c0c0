"""``python -m lockgate``: the command."""

from __future__ import annotations

import sys

from lockgate.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
