"""What stands around a job: the shim (stdlib only)."""
