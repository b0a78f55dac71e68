"""Job spec in, commands and environment out; tool output in, progress and verdict out."""
