"""Runs a command in a jail of chosen layers and becomes its exit code: `python peel.py <room> <order as JSON>`."""

from __future__ import annotations

import json
import os
import sys

sys.path.append(sys.argv[1])

from exocomp.sandbox import child, enclosure
from exocomp.sandbox.layers import Tier

order = json.loads(sys.argv[2])
enclosed = enclosure.surround(
    order["argv"], order["env"], order["cwd"], order["jail"], order["directory"], Tier(*order["layers"])
)
pid = child.spawn(enclosed.argv, enclosed.env, order["cwd"], 1, 2, keep=enclosed.keep)
enclosed.opened()
code, why = enclosed.ended(os.waitpid(pid, 0)[1])
sys.stderr.write(why)
sys.exit(code)
