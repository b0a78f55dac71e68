"""The ledger on disk: the only room that speaks SQL."""
