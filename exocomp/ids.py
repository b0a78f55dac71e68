"""Short sortable ids with a typed prefix: wf_…, job_…."""

from __future__ import annotations

import secrets
import time

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32, without i, l, o, u
_DIGITS = 14
_RANDOM_BITS = 22  # below the 48 bits of the milliseconds
_last = 0


def new(prefix: str) -> str:
    """`<prefix>_` and 70 bits: milliseconds, then random ones. In one process each id is greater than the one before,
    even within a millisecond or when the clock was set back."""
    global _last
    drawn = time.time_ns() // 1_000_000 << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS)
    _last = number = max(drawn, _last + 1)
    digits = [_ALPHABET[(number >> shift) & 31] for shift in range((_DIGITS - 1) * 5, -1, -5)]
    return f"{prefix}_{''.join(digits)}"
