"""Text and bytes ↔ values, both ways, strictly.

Nowhere else may a separator character, a JSON key or an annotation's grammar appear. Decoders
refuse what they do not understand with a `WireError` that quotes it; they never guess.
"""
