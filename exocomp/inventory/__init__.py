"""From outputs to a standing inventory, and to the address that ansible would really dial."""
