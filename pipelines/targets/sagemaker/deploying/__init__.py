"""The life of a pipeline in an account: what is there, what would change, changing it, and what it then does.

account.py    every call to AWS goes through it, and every refusal becomes one clear message
deployed.py   reads what is there            planning.py   compares it with the code
applying.py   makes it so                    destroying.py takes it away
"""
