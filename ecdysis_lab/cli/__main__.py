"""``python -m ecdysis_lab.cli``."""

import sys

from ecdysis_lab.cli.parser import main

sys.exit(main())
