"""What a release consists of (``make release``), and the operators' image with its check (``make image``)."""
