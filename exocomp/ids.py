"""Short sortable ids with a typed prefix: wf_…, job_…."""

from __future__ import annotations

import uuid_utils

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32, without i, l, o, u
_DIGITS = 14


def new(prefix: str) -> str:
    """`<prefix>_` and the top 70 bits of a UUIDv7 (RFC 9562): milliseconds, then random bits."""
    number = uuid_utils.uuid7().int >> 58
    digits = [_ALPHABET[(number >> shift) & 31] for shift in range((_DIGITS - 1) * 5, -1, -5)]
    return f"{prefix}_{''.join(digits)}"
