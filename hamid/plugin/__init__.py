"""The device plugin role: advertise slots, give each container the shares decided for it.

The kubelet never says which container an Allocate is for. How it is found out, and why a wrong
guess is harmless, is `matching` and `service`; what was given is `journal`.
"""
