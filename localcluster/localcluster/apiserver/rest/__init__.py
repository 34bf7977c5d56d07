"""The verbs on objects, each a function from a `Call` to a response."""
