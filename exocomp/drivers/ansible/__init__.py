"""The ansible driver: job in, `ansible-playbook` with pinned SSH out; its record in, progress and verdict out."""
