"""Cornerwave: one table, many recipients, and no gain from collusion."""
