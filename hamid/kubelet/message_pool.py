"""The pool in which the generated messages of this room register; generated code imports it."""

import betterproto2

default_message_pool = betterproto2.MessagePool()  # type: ignore[no-untyped-call] # upstream's gap
