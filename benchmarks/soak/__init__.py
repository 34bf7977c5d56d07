"""A long run: jobs of all kinds and fates come and go at a steady rate beside many finished ones (``make soak``)."""
