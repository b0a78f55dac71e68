"""What must not lie on the disk in plaintext: the master key, and what it seals."""
