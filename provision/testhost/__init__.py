"""What the demo and the tests stand on: a stand-in engine, its wheel and index, a tiny model folder."""
