"""Who gets new requests while a service moves: led by an HAProxy's runtime API, or by programs of the operator."""
