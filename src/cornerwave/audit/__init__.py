"""What recipients can recover: exactly, from the ledger.

coalition.py   the best linear estimate of some recipients together
"""
