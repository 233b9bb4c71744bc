"""GPU checks that only read. ``getters`` and ``collect`` observe, ``dump`` and ``node`` type what was
seen, ``driver``, ``health`` and ``links`` decide, ``judge`` puts the rules in order, ``command`` talks to
the user.
"""
