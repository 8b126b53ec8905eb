"""The words of the domain: values and the arithmetic on their units.

No I/O, no clock, no text formats (those are `codec`'s). What two roles must agree on is here.
"""
