"""What a colleague needs to see a fault from afar, in one file, without secrets."""
