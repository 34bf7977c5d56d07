"""``jobcommon dashboard``: a read-only web page of the jobs in a cluster."""
