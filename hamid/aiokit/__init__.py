"""asyncio tools that know no GPU and no Kubernetes.

A module belongs here if it could be published as a library of its own without mentioning either.
"""
