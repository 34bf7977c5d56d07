"""The small program between the kubelet and one container's command.

Started as its own interpreter for every container run and every exec, so it imports the standard library only and as little
of it as it can: its start-up time is the pod's.
"""
