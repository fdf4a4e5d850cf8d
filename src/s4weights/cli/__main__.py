"""python -m s4weights.cli."""

import sys

from . import main

sys.exit(main())
