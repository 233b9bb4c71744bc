"""The serving stack inside a guest: user, engine environment, model files, unit."""
