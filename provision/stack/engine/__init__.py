"""Engine environments in a guest: what one should be, what is there, what it lacks."""
