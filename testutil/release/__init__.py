"""What a release consists of (``make release``)."""
