"""``provcheck flags``: does this engine version take this command line, and what did it become if not.

words      a pasted command line: variables, program, arguments
table      what each released version accepts, read from its wheel (checks/data/flags-<engine>.json)
read       arguments to options, as argparse does it, with every problem kept instead of the first
values     texts, numbers, choices and JSON objects against what the option takes
rules      combinations that the engine refuses or that undo each other
judge      all of it as findings
installed  the real parser of an installed engine, in a child with a deadline
"""
