"""Reports of progress: who may send them, the server that takes them, and their record in the status of the job."""
