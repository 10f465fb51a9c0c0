"""``lockgate select``: settings of a method chosen on held-out images, by the same rule and budget for every method.

space       what may be chosen: names of settings with their values or ranges
trials      which runs that makes, and what each came to
choose      runs what is missing, takes the best, writes what was tried and what was chosen
"""
