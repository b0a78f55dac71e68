"""The OpenTofu/Terraform driver: orders in, commands out; the engine's output in, progress and verdicts out."""
