"""Small reference models for the property tests: written to be read, in no way fast."""
