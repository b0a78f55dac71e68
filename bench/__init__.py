"""Scripts that print ratios side by side; run one as `python -m bench.<name>`."""
