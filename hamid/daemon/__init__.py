"""The only room that knows every other: settings, composition, start and stop, and what a person sees."""
